"""Spans of kernels: what each core measured, and which recorded operations the kernels compute."""

import time

import numpy as np
import pytest

from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.machine import Machine
from ftm_backend.machine.emulator import BARRIER

TRACE = """trace
  %0 = param f32[64,96]
  %1 = param f32[96,128]
  $0 = scalar i64
  %2 = aten::mm(self=%0, mat2=%1) : f32[64,128]
  %3 = aten::relu(self=%2) : f32[64,128]
  %4 = ftm.view(base=%3, sizes=[128,64], strides=[1,128], offset=0) : f32[128,64]
  %5 = aten::mm(self=%4, mat2=%0) : f32[128,96]
  %6 = aten::add.Tensor(self=%5, other=%5, alpha=$0) : f32[128,96]
  return %6
"""


@pytest.fixture(scope="module")
def executable():
    return driver.compile(TRACE, CompileOptions(cores=2))


def run(executable, record):
    with Machine(cores=2) as machine:
        machine.record_spans(record)
        program = machine.load(executable.image)
        generator = np.random.default_rng(0)
        arrays = [generator.standard_normal(t.shape).astype(t.dtype) for t in program.inputs]
        job = program.submit(arrays, [1])
        job.wait()
        return program, job.spans


def test_kernels_name_the_operations_that_they_compute(executable):
    program, _ = run(executable, False)
    # A view computes nothing and has no number: mm 0, relu 1, mm 2, add 3.
    assert program.call_ops == [(0, 1), (2, 3)]


def test_nothing_is_recorded_unless_requested(executable):
    assert run(executable, False)[1] == []


def test_spans_are_ordered_and_count_the_work(executable):
    before = time.time_ns()
    _, spans = run(executable, True)
    assert {span.core for span in spans} == {0, 1}
    for core in (0, 1):
        own = [span for span in spans if span.core == core]
        assert [span.call for span in own if span.call != BARRIER] == [0, 1]
        edges = [edge for span in own for edge in (span.begin, span.end)]
        assert edges == sorted(edges) and before <= edges[0] <= edges[-1] <= time.time_ns()
    flops = [sum(span.mm_flops for span in spans if span.call == call) for call in (0, 1)]
    assert flops == [2 * 64 * 96 * 128, 2 * 128 * 64 * 96]
    assert all(span.dma_bytes > 0 for span in spans if span.call != BARRIER)


def test_places_change_neither_code_nor_functions(executable):
    """Programs that differ in nothing but where they were recorded are the same bytes."""
    assert driver.compile(TRACE, CompileOptions(cores=2)).image == executable.image
    count = len(Trace.parse(TRACE).nodes)
    named = executable.named_asm(TRACE, [f"model.py:{line}" for line in range(count)])
    assert "model.py:0" in named and named != executable.asm
    assert [line.partition("//")[0].rstrip() for line in named.splitlines()] == [
        line.rstrip() for line in executable.asm.splitlines()
    ]
