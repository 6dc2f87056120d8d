"""Dynamic-shape programs serve extents of 1 if their guards allow, with the same results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ftm_backend.driver import compile, infer_sizes
from ftm_backend.ir.trace.shape_family import numbers_of, relation_of, symbolic_trace
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.machine.emulator import Machine
from sizes.recorded import ALL, recorded


def _tokens(n: int, m: int) -> str:
    """Positions of ``n`` more tokens behind the last of ``m``, put behind these."""
    return (
        f"trace\n  %0 = param i64[1,1]\n  %1 = param i64[1,{m}]\n"
        f"  %2 = aten::arange.start_step(start=0, end={n}, step=1, dtype=i64) : i64[{n}]\n"
        f"  %3 = ftm.view(base=%2, sizes=[1,{n}], strides=[{n},1], offset=0) : i64[1,{n}]\n"
        f"  %4 = aten::add.Tensor(self=%3, other=%0, alpha=1) : i64[1,{n}]\n"
        f"  %5 = aten::cat(tensors=[%1,%4], dim=-1) : i64[1,{m + n}]\n  return %5\n"
    )


def _rows(n: int, m: int) -> str:
    """Rows and columns that are broadcast, and sums over each dimension."""
    return (
        f"trace\n  %0 = param f32[{n},{m}]\n  %1 = param f32[1,{m}]\n  %2 = param f32[{n},1]\n"
        f"  %3 = aten::mul.Tensor(self=%0, other=%1) : f32[{n},{m}]\n  %4 = aten::mul.Tensor(self=%3, other=%2) : f32[{n},{m}]\n"
        f"  %5 = aten::_softmax(self=%4, dim=-1, half_to_float=false) : f32[{n},{m}]\n"
        f"  %6 = aten::sum.dim_IntList(self=%4, dim=[0], keepdim=true, dtype=none) : f32[1,{m}]\n  return %5, %6\n"
    )


def _heads(n: int, m: int) -> str:
    """Products of each of ``n`` new tokens' heads with all of a cache's, through permuted views."""
    c = n + m
    return (
        f"trace\n  %0 = param f32[{n},24]\n  %1 = param f32[3,{m},8]\n"
        f"  %2 = ftm.view(base=%0, sizes=[3,{n},8], strides=[8,24,1], offset=0) : f32[3,{n},8]\n"
        f"  %3 = aten::cat(tensors=[%1,%2], dim=1) : f32[3,{c},8]\n"
        f"  %4 = ftm.view(base=%3, sizes=[3,8,{c}], strides=[{8 * c},1,8], offset=0) : f32[3,8,{c}]\n"
        f"  %5 = aten::bmm(self=%2, mat2=%4) : f32[3,{n},{c}]\n"
        f"  %6 = ftm.view(base=%5, sizes=[{n},3,{c}], strides=[{c},{n * c},1], offset=0) : f32[{n},3,{c}]\n"
        f"  %7 = aten::_softmax(self=%6, dim=-1, half_to_float=false) : f32[{n},3,{c}]\n  return %3, %7\n"
    )


def _written(n: int, m: int) -> str:
    """A column that is written at a place, and read there."""
    width = n + m
    return (
        f"trace\n  %0 = param f32[{n},{width}]\n  %1 = param f32[{n}]\n"
        f"  %2 = ftm.update(base=%0, value=%1, sizes=[{n}], strides=[{width}], offset={m}) : f32[{n},{width}]\n"
        f"  %3 = ftm.view(base=%2, sizes=[{n}], strides=[{width}], offset={m}) : f32[{n}]\n"
        f"  %4 = aten::exp(self=%3) : f32[{n}]\n  return %2, %4\n"
    )


def _joined(n: int, m: int) -> str:
    """A step of concatenations."""
    return f"trace\n  %0 = param f32[{n}]\n  %1 = param f32[{m}]\n  %2 = aten::cat(tensors=[%0,%1], dim=0) : f32[{n + m}]\n  return %2\n"


def _chosen(n: int, m: int) -> str:
    """Caches of ``n`` tokens, one of eight for each of ``m`` beams."""
    return (
        f"trace\n  %0 = param f32[{m},8]\n  %1 = param f32[8,9,{n},16]\n"
        f"  %2 = aten::argmax(self=%0, dim=1, keepdim=false) : i64[{m}]\n"
        f"  %3 = aten::index_select(self=%1, dim=0, index=%2) : f32[{m},9,{n},16]\n  return %3\n"
    )


def _turned(n: int, m: int) -> str:
    """An input that is scaled in another order than it lies in, behind a product."""
    return (
        f"trace\n  %0 = param f32[{n},9]\n  %1 = param f32[9,{m}]\n  %2 = param f32[{m},{n}]\n"
        f"  %3 = aten::mm(self=%0, mat2=%1) : f32[{n},{m}]\n"
        f"  %4 = ftm.view(base=%2, sizes=[{n},{m}], strides=[1,{n}], offset=0) : f32[{n},{m}]\n"
        f"  %5 = aten::exp(self=%4) : f32[{n},{m}]\n  %6 = aten::mul.Tensor(self=%3, other=%5) : f32[{n},{m}]\n  return %6\n"
    )


MADE: dict[str, tuple[Callable[[int, int], str], bool]] = {
    "tokens": (_tokens, True), "rows": (_rows, False), "heads": (_heads, False),
    "written": (_written, False), "joined": (_joined, True), "chosen": (_chosen, True),
    "turned": (_turned, True),
}  # fmt: skip
"""The trace for two sizes, and whether a program of several has to serve all others."""

sizes = st.integers(1, 7)


def _inputs(trace: Trace) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    types = {"f32": np.float32, "i64": np.int64}
    return [
        (draw.integers(-8, 8, type_.shape) / (1 if type_.dtype == "i64" else 4)).astype(
            types[type_.dtype]
        )
        for type_ in trace.params
    ]


def _run(image: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return Machine(cores=2, checked=True).load(image).run(inputs)


@pytest.mark.parametrize("name", MADE)
@settings(max_examples=12, deadline=None)
@example((3, 4), (1, 4))
@example((3, 4), (4, 1))
@example((5, 5), (1, 1))
@example((2, 3), (1, 2))
@given(st.tuples(st.integers(2, 7), st.integers(2, 7)), st.tuples(sizes, sizes))
def test_what_a_program_serves_is_right(
    name: str, first: tuple[int, int], other: tuple[int, int]
) -> None:
    make, serves_all = MADE[name]
    trace, member = Trace.parse(make(*first)), Trace.parse(make(*other))
    varies = [ALL] * len(trace.params)
    if name == "joined":
        general = infer_sizes(recorded(trace, varies, trains=True, least=1))
    else:
        general = infer_sizes(recorded(trace, varies))
    assert general is not None
    relation = relation_of(general, trace)
    made = compile(symbolic_trace(trace, relation, relation.values(numbers_of(trace)) or ()))
    values = relation.values(numbers_of(member))
    assert made.template is not None
    if values is None or not made.template.admits(values):
        assert not serves_all or (values is None and first[0] == first[1])
        return
    inputs = _inputs(member)
    for got, expected in zip(
        _run(made.template.image(made.image, values), inputs),
        _run(compile(member).image, inputs),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_equality_of_accesses_restricts_no_size() -> None:
    """A bias read through a permuted view, whose strides differ from the result's if ``n > 1``."""
    n = "{s0}"
    program = compile(
        f"trace\n  size s0 = 128, 1\n  %0 = param f32[3,{n},16]\n  %1 = param f32[3,16,{n}]\n"
        f"  %2 = param f32[{n},{n},3]\n  %3 = aten::bmm(self=%0, mat2=%1) : f32[3,{n},{n}]\n"
        f"  %4 = ftm.view(base=%2, sizes=[3,{n},{n}], strides=[1,{{3*s0}},3], offset=0) : f32[3,{n},{n}]\n"
        f"  %5 = aten::add.Tensor(self=%3, other=%4, alpha=1) : f32[3,{n},{n}]\n  return %5\n"
    )
    assert program.template is not None
    assert not [guard for guard in program.template.guards if guard[1] != ">="]
