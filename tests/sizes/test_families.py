"""Relations between the numbers of traces of one structure, and rejection of other traces."""

from __future__ import annotations

from typing import Any

import pytest

from ftm_backend.ir.trace.shape_family import (
    NumberPlaces,
    numbers_of,
    structure_of,
    symbolic_trace,
    with_numbers,
)
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.symbolic.fit_size_polynomials import ShapeRelation, relate
from ftm_lazy.dynamic_shapes.dynamic_programs import TraceFamilies

_TRACE = """trace
  %0 = param f32[{b},{t},8]
  %1 = ftm.view(base=%0, sizes=[{bt},8], strides=[8,1], offset=0) : f32[{bt},8]
  %2 = aten::mm(self=%1, mat2=%1, text="f32[12]", eps=1e-05, x=1.5) : f32[{bt},{bt}]
  %3 = ftm.view(base=%2, sizes=[{tm}], strides=[1], offset={o}) : f32[{tm}]
  return %3
"""


def _trace(b: int, t: int) -> str:
    return _TRACE.format(b=b, t=t, bt=b * t, tm=t - 1, o=8 * (t - 1))


def split(text: str) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    trace = Trace.parse(text)
    return structure_of(trace), numbers_of(trace)


def extents(text: str) -> set[int]:
    return NumberPlaces(Trace.parse(text)).extents()


def _relation(*members: tuple[int, int]) -> ShapeRelation:
    return relate([split(_trace(*member))[1] for member in members], extents(_trace(*members[-1])))


def test_what_is_shared_has_no_numbers() -> None:
    first, second = split(_trace(2, 30)), split(_trace(3, 50))
    assert first[0] == second[0]
    assert len(first[1]) == len(second[1])
    (mm,) = (part for part in first[0][2] if "aten::mm" in part)
    assert mm == 'aten::mm(self=%, mat2=%, text="f32[12]", eps=1e-05, x=1.5) : f32[#,#]'


def test_the_numbers_that_vary_are_those_of_types_and_of_what_counts_or_places() -> None:
    text = """trace
  %0 = param f8e5m2[2,3]
  %1 = param i64[]
  %2 = aten::x(self=%0, offset=4, sizes=[5,-6], dims=[7], dim=8, k=9, offsets=10, start=-11) : none
  %3, %4 = aten::y(self=%0, size=[], pad=[%1,12], length=1.5, end=true, text="steps=13") : i1[14], c64[15,16]
  return %3, %4
"""
    trace = Trace.parse(text)
    assert numbers_of(trace) == (2, 3, 4, 5, -6, 9, -11, 14, 15, 16)
    places = NumberPlaces(trace)
    assert places.extents() == {0, 1, 7, 8, 9}
    assert list(places.argument(0, "sizes")) == [3, 4]
    assert list(places.argument(0, "dims")) == list(places.argument(1, "pad")) == []
    other = with_numbers(trace, range(20, 30))
    assert structure_of(other) == structure_of(trace)
    assert numbers_of(other) == tuple(range(20, 30))
    assert "offset=22, sizes=[23,24], dims=[7], dim=8, k=25" in str(other)


def test_what_decides_the_operation_is_shared() -> None:
    def trace(dim: int) -> str:
        return f"trace\n  %0 = param f32[7,9]\n  %1 = aten::flip(self=%0, dims=[{dim}]) : f32[7,9]\n  return %1\n"

    assert split(trace(0))[0] != split(trace(1))[0]
    assert split(trace(0))[1] == split(trace(1))[1] == (7, 9, 7, 9)


def test_two_sizes_and_what_comes_from_them() -> None:
    found = _relation((2, 30), (3, 50))
    assert [(name, least) for name, _, least in found.symbols] == [("s0", 1), ("s1", 1)]
    assert {text for _, text in found.texts} == {"s0", "s1", "s0*s1", "s1-1", "8*(s1-1)"}
    assert found.values(split(_trace(5, 7))[1]) == (5, 7)


@pytest.mark.parametrize(
    "change", [("offset=48", "offset=56"), ("f32[35,35]", "f32[35,36]"), ("[8,1]", "[9,1]")]
)
def test_a_member_that_is_related_otherwise_has_no_values(change: tuple[str, str]) -> None:
    text = _trace(5, 7)
    assert change[0] in text
    assert _relation((2, 30), (3, 50)).values(split(text.replace(*change))[1]) is None


def test_an_extent_may_be_one_but_not_less() -> None:
    """Guards of the compiler refuse it where it broadcasts."""
    relation = _relation((2, 30), (3, 50))
    assert relation.values(split(_trace(1, 7))[1]) == (1, 7)
    assert relation.values(split(_trace(0, 7))[1]) is None


def test_a_third_member_tells_squares_from_lines() -> None:
    def trace(n: int) -> str:
        return (
            f"trace\n  %0 = param f32[{n}]\n  %1 = aten::x(self=%0) : f32[{n * n}]\n  return %1\n"
        )

    found = relate([split(trace(n))[1] for n in (36, 37, 40)], extents(trace(40)))
    assert {text for _, text in found.texts} == {"s0", "s0*s0"}


def test_the_general_trace_declares_its_sizes() -> None:
    found = _relation((2, 30), (3, 50))
    text = str(symbolic_trace(Trace.parse(_trace(3, 50)), found, (3, 50)))
    assert text.splitlines()[1:3] == ["  size s0 = 3, 1", "  size s1 = 50, 1"]
    assert "%0 = param f32[{s0},{s1},8]" in text
    assert 'text="f32[12]"' in text
    assert "offset={8*s1-8}" in text


def test_two_members_that_differ_by_the_same_are_an_accident_and_three_are_none() -> None:
    def trace(left: int, right: int) -> str:
        return f"trace\n  %0 = param f32[{left},8]\n  %1 = param f32[{right},8]\n  return %0\n"

    def symbols(*members: tuple[int, int]) -> int:
        return len(
            relate(
                [split(trace(*member))[1] for member in members], extents(trace(*members[-1]))
            ).symbols
        )

    assert symbols((73, 87), (59, 73)) == 2
    assert symbols((73, 87), (59, 73), (20, 34)) == 1
    assert symbols((73, 74), (59, 60)) == 1


def test_a_size_of_one_is_general_in_the_others_and_the_same_member_again_in_none() -> None:
    families = TraceFamilies((lambda _: None, lambda *_: None, lambda *_: None))
    assert families.propose(Trace.parse(_trace(1, 5))) == []
    assert families.propose(Trace.parse(_trace(2, 5)))
    assert families.propose(Trace.parse(_trace(1, 5))) == []  # its program was dropped
    assert [
        name for name, _, _ in families.propose(Trace.parse(_trace(1, 9)))[0].relation.symbols
    ] == ["s0"]
