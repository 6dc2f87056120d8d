"""A program that faults has not overwritten any input.

Tests cover the order of kernels, aliases, and the checker of both.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from ftm_backend import assembler, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.machine import Machine, MachineError
from midend.trace_builder import Program, Value
from midend.trace_programs import check

OPTIONS = CompileOptions(cores=2)


def compiled(program: Program) -> str:
    """The assembly of a program; emitting it runs the checker."""
    return driver.compile(str(program), OPTIONS).asm


def aliases(asm: str) -> list[str]:
    """For each output the input that it may replace, or ""."""
    return re.findall(r"^@out \w+, \w+, [\dx\[\]]+(?:, (\w+))?", asm, re.MULTILINE)


def indices(program: Program, *shape: int) -> Value:
    return program.parameter(torch.zeros(shape, dtype=torch.int64), "i64")


def add(program: Program, a: Value, b: Value) -> Value:
    """``a + alpha * b``."""
    return program.call("add.Tensor", self=a, other=b, alpha=program.scalar(1.0))


def gather(program: Program, table: Value, rows: Value) -> Value:
    return program.call("index_select", self=table, dim=0, index=rows)


def gradient_of_embedding(count: int) -> tuple[Program, Value, Value]:
    """An embedding's program, its table, and the gradient of a table with `count` rows."""
    t = Program()
    table, rows = t.random(50, 16), indices(t, 4, 6)
    options = {"padding_idx": -1, "scale_grad_by_freq": False}
    x = t.call("embedding", weight=table, indices=rows, **options, sparse=False)
    x = t.call("mul.Tensor", self=x, other=t.random(4, 6, 16))
    given = {"grad_output": x, "indices": rows, "num_weights": count}
    return t, table, t.call("embedding_dense_backward", **given, **options)


def test_a_gradient_after_its_embedding_cannot_fault():
    t, table, gradient = gradient_of_embedding(50)
    assert aliases(compiled(t.returns(add(t, table, gradient)))) == ["b0"]


def test_a_smaller_table_has_to_be_checked_again():
    t, _, gradient = gradient_of_embedding(49)
    asm = compiled(t.returns(add(t, t.random(49, 16), gradient)))
    assert aliases(asm) == ["b3"], "the update itself comes after the scatter"


def test_an_update_waits_for_a_later_gather():
    t = Program()
    total = add(t, t.random(64, 64), t.random(64, 64))
    rows = gather(t, t.random(9, 9), indices(t, 7))
    assert aliases(compiled(t.returns(total, rows))) == ["b0", ""]


def gather_from_an_update() -> Program:
    t = Program()
    total = add(t, t.random(64, 64), t.random(64, 64))
    return t.returns(total, gather(t, total, indices(t, 7)))


def test_what_a_gather_needs_does_not_replace_an_input():
    assert aliases(compiled(gather_from_an_update())) == ["", ""]


def test_a_scatter_that_can_fault_replaces_nothing():
    t = Program()
    given = {"indices": [indices(t, 5)], "values": t.random(5, 16), "accumulate": False}
    made = t.call("index_put", self=t.random(20, 16), **given)
    assert aliases(compiled(t.returns(made))) == [""]


def test_computed_places_need_no_check():
    t = Program()
    rows = t.call("argmax", self=t.random(5, 20), dim=1, keepdim=False)
    total = add(t, t.random(20, 16), t.random(20, 16))
    assert aliases(compiled(t.returns(total, gather(t, total, rows))))[0] == "b1"


def test_a_fault_leaves_the_inputs_whole():
    t = Program()
    total = add(t, t.random(64, 64), t.random(64, 64))
    table = t.random(9, 9)
    rows = gather(t, table, indices(t, 7))
    asm = compiled(t.returns(total, rows, add(t, t.random(9, 9), table)))
    assert aliases(asm) == ["b0", "", "b4"]
    inputs = t.inputs
    inputs[3] = np.array([0, 3, 8, 9, 1, 2, 3])
    for cores in (1, 2):
        program = Machine(cores=cores, checked=True).load(assembler.assemble(asm))
        given = [array.copy() for array in inputs]
        with pytest.raises(MachineError, match="out of range|gathers"):
            program.run(given, [1.0, 2.0], donate=[0, 2])
        for array, before in zip(given, inputs, strict=True):
            np.testing.assert_array_equal(array, before)


def test_the_checker_finds_writes_before_a_fault():
    text = str(driver.run_from("trace", str(gather_from_an_update()), "tiles", OPTIONS))
    driver.run_from("tiles", text, "asm", OPTIONS)
    declared = text.replace("@out o0, f32, 64x64", "@out o0, f32, 64x64, b0")
    assert declared != text
    with pytest.raises(driver.CompileError, match="which replaces an input"):
        driver.run_from("tiles", declared, "asm", OPTIONS)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_keep_the_rule(seed):
    """Updates of parameters and gathers from their values in any order: the checker of each
    compilation agrees."""
    rng = np.random.default_rng(seed)
    t = Program()
    first = [t.random(40, 24) for _ in range(6)]
    places = [indices(t, 9) for _ in range(2)]
    values, latest = list(first), list(first)
    for _ in range(22):
        a, b = (values[k] for k in rng.integers(len(values), size=2))
        if rng.integers(4) == 0:
            rows = gather(t, a, places[rng.integers(2)])
            where = {"dim": 0, "index": places[rng.integers(2)], "source": rows}
            values.append(t.call("index_add", self=b, **where, alpha=t.scalar(1.0)))
        else:
            slot = rng.integers(6)
            latest[slot] = add(t, latest[slot], b)
            values.append(latest[slot])
    results = [x for x, given in zip(latest, first, strict=True) if x is not given]
    compiled(t.returns(*dict.fromkeys([*results, values[-1]])))


@pytest.mark.parametrize("cores", [1, 2])
def test_an_update_fused_into_a_product_replaces_its_parameter(cores):
    """The decay of ``p`` is a separate kernel; the rest of the update is the product's epilogue."""
    t = Program()
    decayed = t.call("mul.Tensor", self=t.random(90, 70), other=t.scalar(0.9))
    product = t.call("mm", self=t.transposed(t.random(33, 90)), mat2=t.random(33, 70))
    m = t.call("add.Tensor", self=t.random(90, 70), other=product, alpha=t.scalar(0.5))
    p = t.call("sub.Tensor", self=decayed, other=m, alpha=t.scalar(0.1))
    asm = compiled(t.returns(p, m))
    assert aliases(asm) == ["b0", "b3"]
    check(t, asm, cores, tolerance=1e-4, donate=[0, 1])


def test_a_product_of_a_parameter_with_itself_does_not_replace_it():
    t = Program()
    p = t.random(64, 64)
    square = t.call("mm", self=p, mat2=p)
    made = t.call("sub.Tensor", self=p, other=square, alpha=t.scalar(1.0))
    assert aliases(compiled(t.returns(made))) == [""]
