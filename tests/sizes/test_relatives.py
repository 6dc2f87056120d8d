"""Traces that match another structure because extents are 1, and traces that must not match."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftm_backend.driver import compile, infer_sizes
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.machine.emulator import Machine
from ftm_lazy.dynamic_shapes.dynamic_programs import TraceFamilies
from ftm_lazy.dynamic_shapes.size_one_matching import without_views
from ftm_lazy.dynamic_shapes.trace_family import SizeGuess
from sizes.recorded import ALL, recorded


def _heads(rows: int, noted: bool = True) -> str:
    """Three heads of each row, which are put before the rows and behind them again.

    noted: that they are laid out anew, as the recorder does where they do not lie so already; of
        one row they do.
    """
    made = [
        f"aten::embedding(weight=%0, indices=%1, padding_idx=-1, scale_grad_by_freq=false, sparse=false) : f32[1,{rows},12]",
        f"ftm.view(base=%LAST, sizes=[3,{rows},4], strides=[4,12,1], offset=0) : f32[3,{rows},4]",
        *(
            [
                f"ftm.view(base=%LAST, sizes=[3,{rows},4], strides=[{4 * rows},4,1], offset=0) : f32[3,{rows},4]"
            ]
            if noted
            else []
        ),
        f"aten::_softmax(self=%LAST, dim=-1, half_to_float=false) : f32[3,{rows},4]",
        f"ftm.view(base=%LAST, sizes=[{rows},3,4], strides=[4,{4 * rows},1], offset=0) : f32[{rows},3,4]",
        f"aten::exp(self=%LAST) : f32[{rows},3,4]",
    ]
    lines = [
        f"  %{number} = {line.replace('%LAST', f'%{number - 1}')}\n"
        for number, line in enumerate(made, 2)
    ]
    return f"trace\n  %0 = param f32[9,12]\n  %1 = param i64[1,{rows}]\n{''.join(lines)}  return %{len(lines) + 1}\n"


def _general(text: str) -> TraceFamilies:
    """Families that have a program which is general at first sight of a trace, in the sizes of its
    whole numbers."""
    families = TraceFamilies(({}.get, lambda *_: None, lambda *_: None))
    trace = Trace.parse(text)
    varies = [0 if type_.dtype == "f32" else ALL for type_ in trace.params]
    proposal = families.propose(trace, SizeGuess(recorded(trace, varies), False, infer_sizes))[0]
    families.keep(proposal, compile(str(proposal.trace)))
    return families


def _bare(text: str) -> Hashable:
    return without_views(Trace.parse(text))


def _run(image: bytes, text: str) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    params = Trace.parse(text).params
    inputs = [
        draw.integers(0, 9, type_.shape).astype({"f32": np.float32, "i64": np.int64}[type_.dtype])
        for type_ in params
    ]
    return Machine(cores=2, checked=True).load(image).run(inputs)


def test_a_program_of_several_rows_serves_one_that_is_noted_otherwise() -> None:
    families = _general(_heads(5))
    one = _heads(1, noted=False)
    assert one != _heads(1)
    found = families.instance(Trace.parse(one))
    assert found is not None
    for got, expected in zip(_run(found.image, one), _run(compile(one).image, one), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        ("offset=0", "offset=1"),
        ("strides=[4,4,1]", "strides=[1,4,3]"),
        ("dim=-1", "dim=0"),
        ("padding_idx=-1", "padding_idx=2"),
        ("param f32[9,12]", "param f32[10,12]"),
    ],
)
def test_other_traces_are_not_served(change: tuple[str, str]) -> None:
    one = _heads(1, noted=False)
    other = one.replace("strides=[4,12,1]", "strides=[4,4,1]").replace(*change, 1)
    assert other != one
    assert _general(_heads(5)).instance(Trace.parse(other)) is None


def test_strides_of_one_element_say_nothing() -> None:
    one = _heads(1, noted=False)
    assert _bare(one.replace("strides=[4,12,1]", "strides=[4,7,1]")) == _bare(one)
    assert _bare(one.replace("strides=[4,12,1]", "strides=[5,12,1]")) != _bare(one)


def _repeated(rows: int, stride: int = 0) -> str:
    """A number of each of three rows, as often as there are columns; where there is one it lies
    where it lies."""
    return (
        f"trace\n  %0 = param i64[3]\n  %1 = param i64[3,{rows}]\n"
        f"  %2 = ftm.view(base=%0, sizes=[3,{rows}], strides=[1,{stride}], offset=0) : i64[3,{rows}]\n"
        f"  %3 = aten::mul.Tensor(self=%1, other=%2) : i64[3,{rows}]\n  return %3\n"
    )


def test_a_program_of_several_serves_one_with_other_strides() -> None:
    """Of the same family: the traces differ in these alone."""
    families, one = _general(_repeated(5)), _repeated(1, stride=1)
    found = families.instance(Trace.parse(one))
    assert found is not None
    for got, expected in zip(_run(found.image, one), _run(compile(one).image, one), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert families.instance(Trace.parse(_repeated(2, stride=1))) is None


_extents = st.lists(st.integers(1, 3), min_size=1, max_size=3)


@st.composite
def _window(draw: Callable[..., object]) -> tuple[list[int], list[int], int]:
    """Some elements of 64, and how they lie."""
    sizes = draw(_extents)
    strides = [draw(st.sampled_from((0, 1, 2, 3, 4, 6, 9))) for _ in sizes]
    return sizes, strides, draw(st.integers(0, 2))


def _elements(window: tuple[list[int], list[int], int], of: np.ndarray) -> np.ndarray:
    sizes, strides, offset = window
    return np.lib.stride_tricks.as_strided(
        of.ravel()[offset:], sizes, [8 * step for step in strides]
    ).copy()


def _windows(*windows: tuple[list[int], list[int], int]) -> str:
    lines = [
        f"  %{k} = ftm.view(base=%{k - 1}, sizes={str(sizes).replace(' ', '')}, strides={str(strides).replace(' ', '')}, offset={offset})"
        f" : i64{str(sizes).replace(' ', '')}\n"
        for k, (sizes, strides, offset) in enumerate(windows, 1)
    ]
    return f"trace\n  %0 = param i64[64]\n{''.join(lines)}  return %{len(windows)}\n"


@settings(max_examples=300, deadline=None)
@given(_window(), _window(), _extents)
def test_equal_canonical_windows_show_the_same_elements(
    one: tuple[list[int], list[int], int], other: tuple[list[int], list[int], int], plain: list[int]
) -> None:
    """Windows with the same canonical text show the same elements; nested windows too."""
    whole = np.arange(64, dtype=np.int64)
    sizes, strides, _ = one
    respelled = (
        sizes,
        [step if extent > 1 else 7 for extent, step in zip(sizes, strides, strict=True)],
        one[2],
    )
    assert _bare(_windows(one)) == _bare(_windows(respelled))
    if _bare(_windows(one)) == _bare(_windows(other)):
        np.testing.assert_array_equal(_elements(one, whole), _elements(other, whole))
    dense = plain, [int(np.prod(plain[d + 1 :])) for d in range(len(plain))], 1
    inner = _elements(dense, whole)
    reach = one[2] + sum((extent - 1) * step for extent, step in zip(sizes, strides, strict=True))
    if reach < inner.size and _bare(_windows(dense, one)) == _bare(_windows(other)):
        np.testing.assert_array_equal(_elements(one, inner), _elements(other, whole))
