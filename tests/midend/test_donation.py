"""A program that faults has not overwritten any input.

Tests cover the order of kernels, aliases, and the checker of both.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from ftm_backend import assembler, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.machine import Machine, MachineError

OPTIONS = CompileOptions(cores=2)


def trace(*lines: str) -> str:
    """A trace's text: arguments in the order of first use, values numbered in order."""
    given = {
        line.split(" = ")[0]: line for line in lines if " = param " in line or " = scalar " in line
    }
    body = [line for line in lines if line not in given.values()]
    used = [name for line in body for name in re.findall(r"[%$]\w+", line)]
    ordered = [
        given[name]
        for mark in "%$"
        for name in dict.fromkeys(used)
        if name[0] == mark and name in given
    ] + body
    number: dict[str, str] = {}
    for line in ordered:
        for name in re.findall(r"[%$]\w+", line.split(" = ")[0]) if " = " in line else ():
            number[name] = name[0] + str(sum(other[0] == name[0] for other in number))
    return (
        "trace\n"
        + "\n".join("  " + re.sub(r"[%$]\w+", lambda m: number[m[0]], line) for line in ordered)
        + "\n"
    )


def compiled(*lines: str) -> str:
    """The assembly of a trace; emitting it runs the checker."""
    return driver.compile(trace(*lines), OPTIONS).asm


def aliases(asm: str) -> list[str]:
    """For each output the input that it may replace, or ""."""
    return re.findall(r"^@out \w+, \w+, [\dx\[\]]+(?:, (\w+))?", asm, re.MULTILINE)


EMBEDDING = (
    "%0 = param f32[50,16]",
    "%1 = param i64[4,6]",
    "%2 = param f32[4,6,16]",
    "$0 = scalar f64",
    "%3 = aten::embedding(weight=%0, indices=%1, padding_idx=-1, scale_grad_by_freq=false, sparse=false) : f32[4,6,16]",
    "%4 = aten::mul.Tensor(self=%3, other=%2) : f32[4,6,16]",
)
GRADIENT = "%5 = aten::embedding_dense_backward(grad_output=%4, indices=%1, num_weights={}, padding_idx=-1, scale_grad_by_freq=false) : f32[{},16]"


def test_a_gradient_after_its_embedding_cannot_fault():
    asm = compiled(
        *EMBEDDING,
        GRADIENT.format(50, 50),
        "%6 = aten::add.Tensor(self=%0, other=%5, alpha=$0) : f32[50,16]",
        "return %6",
    )
    assert aliases(asm) == ["b0"]


def test_a_smaller_table_has_to_be_checked_again():
    asm = compiled(
        *EMBEDDING,
        "%7 = param f32[49,16]",
        GRADIENT.format(49, 49),
        "%6 = aten::add.Tensor(self=%7, other=%5, alpha=$0) : f32[49,16]",
        "return %6",
    )
    assert aliases(asm) == ["b3"], "the update itself comes after the scatter"


def test_an_update_waits_for_a_later_gather():
    asm = compiled(
        "%0 = param f32[64,64]",
        "%1 = param f32[64,64]",
        "%2 = param i64[7]",
        "%3 = param f32[9,9]",
        "$0 = scalar f64",
        "%4 = aten::add.Tensor(self=%0, other=%1, alpha=$0) : f32[64,64]",
        "%5 = aten::index_select(self=%3, dim=0, index=%2) : f32[7,9]",
        "return %4, %5",
    )
    assert aliases(asm) == ["b0", ""]


def test_what_a_gather_needs_does_not_replace_an_input():
    asm = compiled(
        "%0 = param f32[64,64]",
        "%1 = param f32[64,64]",
        "%2 = param i64[7]",
        "$0 = scalar f64",
        "%4 = aten::add.Tensor(self=%0, other=%1, alpha=$0) : f32[64,64]",
        "%5 = aten::index_select(self=%4, dim=0, index=%2) : f32[7,64]",
        "return %4, %5",
    )
    assert aliases(asm) == ["", ""]


def test_a_scatter_that_can_fault_replaces_nothing():
    lines = (
        "%0 = param f32[20,16]",
        "%1 = param i64[5]",
        "%2 = param f32[5,16]",
        "%3 = aten::index_put(self=%0, indices=[%1], values=%2, accumulate=false) : f32[20,16]",
        "return %3",
    )
    assert aliases(compiled(*lines)) == [""]


def test_computed_places_need_no_check():
    asm = compiled(
        "%0 = param f32[20,16]",
        "%1 = param f32[5,20]",
        "%2 = param f32[20,16]",
        "$0 = scalar f64",
        "%3 = aten::argmax(self=%1, dim=1, keepdim=false) : i64[5]",
        "%4 = aten::add.Tensor(self=%0, other=%2, alpha=$0) : f32[20,16]",
        "%5 = aten::index_select(self=%4, dim=0, index=%3) : f32[5,16]",
        "return %4, %5",
    )
    assert aliases(asm)[0] == "b1"


def test_a_fault_leaves_the_inputs_whole():
    asm = compiled(
        "%0 = param f32[64,64]",
        "%1 = param f32[64,64]",
        "%2 = param i64[7]",
        "%3 = param f32[9,9]",
        "%4 = param f32[9,9]",
        "$0 = scalar f64",
        "$1 = scalar f64",
        "%5 = aten::add.Tensor(self=%0, other=%1, alpha=$0) : f32[64,64]",
        "%6 = aten::index_select(self=%3, dim=0, index=%2) : f32[7,9]",
        "%7 = aten::add.Tensor(self=%4, other=%3, alpha=$1) : f32[9,9]",
        "return %5, %6, %7",
    )
    assert aliases(asm) == ["b0", "", "b4"]
    rng = np.random.default_rng(0)
    inputs = [
        rng.standard_normal(s).astype(np.float32) for s in ((64, 64), (64, 64), (9, 9), (9, 9))
    ]
    inputs.insert(3, np.array([0, 3, 8, 9, 1, 2, 3]))
    for cores in (1, 2):
        program = Machine(cores=cores, checked=True).load(assembler.assemble(asm))
        given = [array.copy() for array in inputs]
        with pytest.raises(MachineError, match="out of range|gathers"):
            program.run(given, [1.0, 2.0], donate=[0, 2])
        for array, before in zip(given, inputs, strict=True):
            np.testing.assert_array_equal(array, before)


def test_the_checker_finds_writes_before_a_fault():
    lines = (
        "%0 = param f32[64,64]",
        "%1 = param f32[64,64]",
        "%2 = param i64[7]",
        "%3 = param f32[9,9]",
        "$0 = scalar f64",
        "%4 = aten::add.Tensor(self=%0, other=%1, alpha=$0) : f32[64,64]",
        "%5 = aten::index_select(self=%4, dim=0, index=%2) : f32[7,64]",
        "return %4, %5",
    )
    text = str(driver.run_from("trace", trace(*lines), "tiles", OPTIONS))
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
    params = [f"%{k} = param f32[40,24]" for k in range(6)] + [
        "%6 = param i64[9]",
        "%7 = param i64[9]",
    ]
    values, lines, scalars = list(range(6)), [], []
    latest = {k: k for k in range(6)}
    for number in range(8, 30):
        a, b = rng.choice(values, 2)
        kind = rng.integers(4)
        if kind == 0:
            lines.append(
                f"%{number} = aten::index_select(self=%{a}, dim=0, index=%{rng.integers(6, 8)}) : f32[9,24]"
            )
            lines.append(
                f"%{number + 100} = aten::index_add(self=%{b}, dim=0, index=%{rng.integers(6, 8)}, "
                f"source=%{number}, alpha=${len(scalars)}) : f32[40,24]"
            )
            scalars.append(f"${len(scalars)} = scalar f64")
            values.append(number + 100)
        else:
            slot = int(rng.integers(6))
            lines.append(
                f"%{number} = aten::add.Tensor(self=%{latest[slot]}, other=%{b}, alpha=${len(scalars)}) : f32[40,24]"
            )
            scalars.append(f"${len(scalars)} = scalar f64")
            latest[slot] = number
            values.append(number)
    results = [f"%{n}" for slot, n in latest.items() if n != slot] + [f"%{values[-1]}"]
    needed, kept = set(results), []
    for line in reversed(lines):
        if line.split(" = ")[0] in needed:
            needed.update(re.findall(r"%\w+", line))
            kept.insert(0, line)
    compiled(*params, *scalars, *kept, "return " + ", ".join(dict.fromkeys(results)))


@pytest.mark.parametrize("cores", [1, 2])
def test_an_update_fused_into_a_product_replaces_its_parameter(cores):
    """The decay of ``p`` is a separate kernel; the rest of the update is the product's epilogue."""
    asm = compiled(
        "%p = param f32[90,70]",
        "%x = param f32[33,90]",
        "%g = param f32[33,70]",
        "%m = param f32[90,70]",
        "$0 = scalar f64",
        "$1 = scalar f64",
        "$2 = scalar f64",
        "%d = aten::mul.Tensor(self=%p, other=$0) : f32[90,70]",
        "%xt = ftm.view(base=%x, sizes=[90,33], strides=[1,90], offset=0) : f32[90,33]",
        "%w = aten::mm(self=%xt, mat2=%g) : f32[90,70]",
        "%n = aten::add.Tensor(self=%m, other=%w, alpha=$1) : f32[90,70]",
        "%q = aten::sub.Tensor(self=%d, other=%n, alpha=$2) : f32[90,70]",
        "return %q, %n",
    )
    assert aliases(asm) == ["b0", "b3"]
    rng = np.random.default_rng(1)
    p, x, g, m = (
        rng.standard_normal(s).astype(np.float32) for s in ((90, 70), (33, 90), (33, 70), (90, 70))
    )
    program = Machine(cores=cores, checked=True).load(assembler.assemble(asm))
    q, n = program.run([p.copy(), x, g, m.copy()], [0.9, 0.5, 0.1], donate=[0, 1])
    expected = m + 0.5 * (x.T @ g)
    np.testing.assert_allclose(n, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(q, 0.9 * p - 0.1 * expected, rtol=1e-4, atol=1e-4)


def test_a_product_of_a_parameter_with_itself_does_not_replace_it():
    asm = compiled(
        "%p = param f32[64,64]",
        "$0 = scalar f64",
        "%w = aten::mm(self=%p, mat2=%p) : f32[64,64]",
        "%q = aten::sub.Tensor(self=%p, other=%w, alpha=$0) : f32[64,64]",
        "return %q",
    )
    assert aliases(asm) == [""]
