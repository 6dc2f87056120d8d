"""Relations between the numbers of traces of one structure, and rejection of other traces."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftm_backend.symbolic.shape_relations import ShapeRelation, relate
from ftm_lazy import _C
from ftm_lazy.dynamic_shapes.dynamic_programs import TraceFamilies

split, places = _C._family, _C._family_numbers

_TRACE = """trace
  %0 = param f32[{b},{t},8]
  %1 = ftm.view(base=%0, sizes=[{bt},8], strides=[8,1], offset=0) : f32[{bt},8]
  %2 = aten::mm(self=%1, mat2=%1, text="f32[12]", eps=1e-05, x=1.5) : f32[{bt},{bt}]
  %3 = ftm.view(base=%2, sizes=[{tm}], strides=[1], offset={o}) : f32[{tm}]
  return %3
"""


def _trace(b: int, t: int) -> str:
    return _TRACE.format(b=b, t=t, bt=b * t, tm=t - 1, o=8 * (t - 1))


def _relation(*members: tuple[int, int]) -> ShapeRelation:
    return relate([split(_trace(*member))[1] for member in members], places(_trace(*members[-1])))


def test_what_is_shared_has_no_numbers() -> None:
    first, second = split(_trace(2, 30)), split(_trace(3, 50))
    assert first[0] == second[0]
    assert len(first[1]) == len(second[1])
    assert '"f32[12]"' in first[0]
    assert "1e-05" in first[0]
    assert "x=1.5" in first[0]
    assert "%2" in first[0]


_PARTS = st.sampled_from(
    (
        "f32", "i64", "F32", "f32x", "_f32", "2", "[8,6]", "[8,-6]", "[]", "[,]", "[8", "]", "=",
        "offset", "sizes", "dims", "dim", "k", "k2", ".", ",", " ", "-", "-5", "17", "1e-05", '"',
        "\\", '\\"', "aten::x(", ")", "%12", "$3", "offset=", "sizes=[4,-2]", "start=-7", "=1.5",
    )
)  # fmt: skip
_PART = re.compile(
    r'"(?:[^"\\]|\\.)*+"|(?<![\w.])(\w++)(?:(\[)[\d,]+\]|=(?:\[[-\d,]+\]|-?\d+(?![\w.])))'
)
_NUMBER = re.compile(r"(?<![\w.])-?\d+")


@given(st.lists(_PARTS, max_size=12).map("".join))
def test_the_numbers_that_vary_are_those_of_types_and_of_what_counts_or_places(text: str) -> None:
    expected = []
    for part in _PART.finditer(text):
        word, extents = part[1], part[2] is not None
        if word is not None and (
            re.fullmatch(r"[a-z]+\d+", word)
            if extents
            else word in ("offset", "sizes", "k", "start")
        ):
            expected += [
                (*number.span(), extents) for number in _NUMBER.finditer(text, *part.span())
            ]
    assert places(text) == expected
    shared, numbers = split(text)
    assert numbers == tuple(int(text[begin:end]) for begin, end, _ in expected)
    for begin, end, _ in reversed(expected):
        text = text[:begin] + "#" + text[end:]
    assert shared == text


def test_what_decides_the_operation_is_shared() -> None:
    def trace(dim: int) -> str:
        return f"trace\n  %0 = param f32[7,9]\n  %1 = aten::flip(self=%0, dims=[{dim}]) : f32[7,9]\n  return %1\n"

    assert split(trace(0))[0] != split(trace(1))[0]
    assert split(trace(0))[1] == split(trace(1))[1] == (7, 9, 7, 9)


def test_two_sizes_and_what_comes_from_them() -> None:
    found = _relation((2, 30), (3, 50))
    assert [(name, least) for name, _, least in found.symbols] == [("s0", 2), ("s1", 2)]
    assert {text for _, text in found.texts} == {"s0", "s1", "s0*s1", "s1-1", "8*(s1-1)"}
    assert found.values(split(_trace(5, 7))[1]) == (5, 7)


@pytest.mark.parametrize(
    "change", [("offset=48", "offset=56"), ("f32[35,35]", "f32[35,36]"), ("[8,1]", "[9,1]")]
)
def test_a_member_that_is_related_otherwise_has_no_values(change: tuple[str, str]) -> None:
    text = _trace(5, 7)
    assert change[0] in text
    assert _relation((2, 30), (3, 50)).values(split(text.replace(*change))[1]) is None


def test_an_extent_of_one_is_no_member() -> None:
    assert _relation((2, 30), (3, 50)).values(split(_trace(1, 7))[1]) is None


def test_a_third_member_tells_squares_from_lines() -> None:
    def trace(n: int) -> str:
        return (
            f"trace\n  %0 = param f32[{n}]\n  %1 = aten::x(self=%0) : f32[{n * n}]\n  return %1\n"
        )

    found = relate([split(trace(n))[1] for n in (36, 37, 40)], places(trace(40)))
    assert {text for _, text in found.texts} == {"s0", "s0*s0"}


def test_the_general_trace_declares_its_sizes() -> None:
    found = _relation((2, 30), (3, 50))
    text = found.symbolic_trace(_trace(3, 50), places(_trace(3, 50)), (3, 50))
    assert text.splitlines()[1:3] == ["  size s0 = 3, 2", "  size s1 = 50, 2"]
    assert "%0 = param f32[{s0},{s1},8]" in text
    assert 'text="f32[12]"' in text
    assert "offset={8*(s1-1)}" in text


def test_two_members_that_differ_by_the_same_are_an_accident_and_three_are_none() -> None:
    def trace(left: int, right: int) -> str:
        return f"trace\n  %0 = param f32[{left},8]\n  %1 = param f32[{right},8]\n  return %0\n"

    def symbols(*members: tuple[int, int]) -> int:
        return len(
            relate(
                [split(trace(*member))[1] for member in members], places(trace(*members[-1]))
            ).symbols
        )

    assert symbols((73, 87), (59, 73)) == 2
    assert symbols((73, 87), (59, 73), (20, 34)) == 1
    assert symbols((73, 74), (59, 60)) == 1


def test_a_size_of_one_is_general_in_the_others_and_the_same_member_again_in_none() -> None:
    families = TraceFamilies((lambda _: None, lambda *_: None, lambda *_: None))
    assert families.propose(_trace(1, 5)) == []
    assert families.propose(_trace(2, 5))
    assert families.propose(_trace(1, 5)) == []  # its program was dropped
    assert [name for name, _, _ in families.propose(_trace(1, 9))[0].relation.symbols] == ["s0"]
