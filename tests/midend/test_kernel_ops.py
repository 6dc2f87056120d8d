"""Kernels keep the numbers of the operations that they compute, through all passes."""

from pathlib import Path

import pytest

import ftm_backend.conformance
from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.machine import Machine

MODELS = Path(ftm_backend.conformance.__file__).parent / "models"


@pytest.mark.parametrize("machine", ["host", "m7032"])
@pytest.mark.parametrize("model", ["cnn", "mlp-step", "transformer"])
def test_every_kernel_of_a_model_computes_operations(model, machine):
    text = (MODELS / f"{model}.trace").read_text()
    executable = driver.compile(text, CompileOptions(machine=machine, cores=2))
    with Machine(cores=2) as emulator:
        found = emulator.load(executable.image).call_ops
    count = sum(number is not None for number in Trace.parse(text).op_numbers())
    assert all(found) and {op for ops in found for op in ops} <= set(range(count))


def test_a_copy_belongs_to_its_reader():
    """A convolution's operands are copied into another layout by kernels of their own."""
    executable = driver.compile((MODELS / "cnn.trace").read_text(), CompileOptions(cores=2))
    with Machine(cores=2) as emulator:
        copies, product = emulator.load(executable.image).call_ops[:2], 2
        assert copies == [emulator.load(executable.image).call_ops[product]] * 2
