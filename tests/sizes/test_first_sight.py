"""Dynamic-shape programs from a single trace: which sizes become symbols, and what follows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftm_backend.driver import infer_sizes
from ftm_backend.ir.trace import shape_family
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.symbolic.fit_size_polynomials import ShapeRelation
from ftm_lazy.compile.trace_importer import with_symbols
from ftm_lazy.dynamic_shapes.canonicalize import canonicalize
from ftm_lazy.dynamic_shapes.dynamic_programs import DynamicCandidate, TraceFamilies
from ftm_lazy.dynamic_shapes.size_hints import larger_sizes
from ftm_lazy.dynamic_shapes.trace_family import SizeGuess
from sizes.recorded import ALL, recorded

# One layer's attention of the last of ``t`` new tokens over a cache of ``c``, with 4 heads of 16.
_STEP = """trace
  %0 = param i64[{b},{t}]
  %1 = param f32[100,64]
  %2 = param f32[{b},4,{c},16]
  $0 = scalar i64
  $1 = scalar i64
  $2 = scalar f64
  %3 = aten::embedding(weight=%1, indices=%0, padding_idx=-1, scale_grad_by_freq=false, sparse=false) : f32[{b},{t},64]
  %4 = ftm.view(base=%3, sizes=[{b},4,{t},16], strides=[{t64},16,64,1], offset=0) : f32[{b},4,{t},16]
  %5 = aten::cat(tensors=[%2,%4], dim=-2) : f32[{b},4,{n},16]
  %6 = ftm.view(base=%5, sizes=[{b4},16,{n}], strides=[{n16},1,16], offset=0) : f32[{b4},16,{n}]
  %7 = ftm.view(base=%5, sizes=[{b4},1,16], strides=[{n16},16,1], offset={last}) : f32[{b4},1,16]
  %8 = aten::bmm(self=%7, mat2=%6) : f32[{b4},1,{n}]
  %9 = aten::_softmax(self=%8, dim=-1, half_to_float=false) : f32[{b4},1,{n}]
  %10 = aten::arange.start_step(start=$0, end={n}, step=$1, dtype=i64) : i64[{n}]
  %11 = aten::mul.Scalar(self=%9, other=$2) : f32[{b4},1,{n}]
  return %5, %11, %10
"""


def _step(b: int, t: int, c: int) -> str:
    n = t + c
    text = _STEP.replace("start=$0, end={n}, step=$1", "start=0, end={n}, step=1").replace(
        "  $0 = scalar i64\n  $1 = scalar i64\n", ""
    )
    return text.replace("$2", "$0").format(
        b=b, t=t, c=c, n=n, t64=64 * t, b4=4 * b, n16=16 * n, last=16 * (n - 1)
    )


def _marked(
    text: str,
    varies: Sequence[int],
    ones: Collection[tuple[int, int]] = (),
    trains: bool = False,
) -> Trace:
    """The trace with symbols for the sizes that vary; all those of integers do."""
    trace = Trace.parse(text)
    masks = [
        ALL if type_.dtype == "i64" and not trains else mask
        for type_, mask in zip(trace.params, varies, strict=False)
    ]
    return recorded(trace, masks, ones, trains)


def _inferred(marked: Trace) -> str:
    return str((infer_sizes(marked) if marked.symbols and marked.symbols.values else None) or "")


def _general(
    text: str, varies: tuple[int, ...] = (0, 0, 5), ones: Collection[tuple[int, int]] = ()
) -> str:
    return _inferred(_marked(text, varies, ones))


def _relation_of(general: str, text: str) -> ShapeRelation:
    return shape_family.relation_of(Trace.parse(general), Trace.parse(text))


def _relation(
    text: str, varies: tuple[int, ...] = (0, 0, 5), ones: Collection[tuple[int, int]] = ()
) -> ShapeRelation:
    return _relation_of(_general(text, varies, ones), text)


def _numbers(text: str) -> tuple[int, ...]:
    return shape_family.numbers_of(Trace.parse(text))


def _spelled(text: str, relation: ShapeRelation, hints: tuple[int, ...]) -> str:
    return str(shape_family.symbolic_trace(Trace.parse(text), relation, hints))


def _canonical(text: str) -> str:
    return str(canonicalize(Trace.parse(text)))


def _varying_results(text: str) -> list[int]:
    return list(shape_family.varying_results(Trace.parse(text)))


def test_what_follows_from_tokens_and_caches() -> None:
    text = _general(_step(3, 5, 8))
    assert "size s0 = 3, 1\n  size s1 = 5, 1\n  size s3 = 8, 1\n  %0" in text
    assert "sizes=[{s0},4,{s1},16], strides=[{64*s1},16,64,1], offset=0" in text
    assert "aten::cat(tensors=[%2,%4], dim=-2) : f32[{s0},4,{s1+s3},16]" in text
    assert "sizes=[{4*s0},1,16], strides=[{16*s1+16*s3},16,1], offset={16*s1+16*s3-16}" in text
    assert "end={s1+s3}" in text
    assert _varying_results(text) == [0b101, 0b101, 0b1]


def _serves_what_it_describes(general: str, text: str, other: str) -> None:
    """The program of ``text`` serves it, and ``other`` only if that spells the same with its own
    values, none below the least."""
    relation = _relation_of(general, text)
    assert relation.values(_numbers(text)) is not None
    values = relation.values(_numbers(other))
    if values is not None:
        spelled = _spelled(other, relation, values)
        assert spelled.partition("%0")[2] == general.partition("%0")[2]
        assert all(
            value >= least for value, (_, _, least) in zip(values, relation.symbols, strict=True)
        )


@settings(max_examples=30, deadline=None)
@given(*(st.integers(1, 20) for _ in range(6)))
def test_members_have_values_only_where_all_their_numbers_are_the_relations(
    b: int, t: int, c: int, b2: int, t2: int, c2: int
) -> None:
    """Also where sizes are the same by chance, or those of heads."""
    text, other = _step(b, t, c), _step(b2, t2, c2)
    general = _general(text)
    if not general:
        assert max(b, t, c) == 1
        return
    _serves_what_it_describes(general, text, other)


def test_other_lengths_are_members() -> None:
    relation = _relation(_step(3, 5, 7))
    for b, t, c in ((3, 5, 8), (2, 9, 3), (7, 3, 20), (16, 4, 64)):
        assert relation.values(_numbers(_step(b, t, c))) == (b, t, c)
    for b, t, c in ((1, 5, 7), (3, 1, 7)):  # which a program's guards may refuse
        assert relation.values(_numbers(_step(b, t, c))) == (b, t, c)
    assert relation.values(_numbers(_step(3, 0, 7))) is None


@pytest.mark.parametrize(
    "change",
    [
        ("offset=176", "offset=192"),
        ("end=12", "end=13"),
        ("[3,4,5,16], strides", "[3,4,4,16], strides"),
    ],
)
def test_a_trace_with_another_number_is_no_member(change: tuple[str, str]) -> None:
    text = _step(3, 5, 7)
    assert change[0] in text
    assert _relation(text).values(_numbers(text.replace(*change))) is None


def test_what_weights_ask_for_is_a_number() -> None:
    text = "trace\n  %0 = param f32[5,64]\n  %1 = param f32[64,32]\n  %2 = aten::mm(self=%0, mat2=%1) : f32[5,32]\n  return %2\n"
    general = _general(text, (0b11, 0))
    assert "%0 = param f32[{s0},64]" in general
    assert "size s1" not in general


def test_what_is_compared_with_a_number_of_rows_is_as_long() -> None:
    """An evaluation of images: the labels are whole numbers, and as many as images, whose number
    does not vary."""
    text = (
        "trace\n  %0 = param f32[16,10]\n  %1 = param i64[16]\n  %2 = aten::argmax(self=%0, dim=1, keepdim=false) : i64[16]\n"
        "  %3 = aten::eq.Tensor(self=%2, other=%1) : i1[16]\n  return %3\n"
    )
    assert not _general(text, (0, 1))


def test_numbers_that_a_trace_makes() -> None:
    text = (
        "trace\n  $0 = scalar f64\n  %0 = aten::full(size=[1,12], fill_value=$0, dtype=i64) : i64[1,12]\n"
        "  %1 = aten::cumsum(self=%0, dim=-1, dtype=none) : i64[1,12]\n  return %1\n"
    )
    assert "aten::cumsum(self=%0, dim=-1, dtype=none) : i64[1,{s0}]" in _general(text, ())


def test_the_last_rows_of_the_texts_of_a_batch() -> None:
    """Of what a product computes for the rows of all of them."""
    text = (
        "trace\n  %0 = param f32[100,7]\n  %1 = param i64[3,5]\n  %2 = param f32[7,11]\n"
        "  %3 = aten::embedding(weight=%0, indices=%1, padding_idx=-1, scale_grad_by_freq=false, sparse=false) : f32[3,5,7]\n"
        "  %4 = ftm.view(base=%3, sizes=[15,7], strides=[7,1], offset=0) : f32[15,7]\n  %5 = aten::mm(self=%4, mat2=%2) : f32[15,11]\n"
        "  %6 = ftm.view(base=%5, sizes=[3,11], strides=[55,1], offset=44) : f32[3,11]\n  return %6\n"
    )
    assert "strides=[{11*s1},1], offset={11*s1-11})" in _general(text, (0, 0, 0))


_BEAMS = """trace
  %0 = param f32[6]
  %1 = param i64[3,{t}]
  %2 = param i64[1,{n}]
  $0 = scalar f64
  $1 = scalar i64
  %3 = aten::full(size=[6], fill_value=$0, dtype=f32) : f32[6]
  %4 = aten::mul.Tensor(self=%3, other=%0) : f32[6]
  %5 = ftm.view(base=%1, sizes=[3,1], strides=[{t},1], offset={last}) : i64[3,1]
  %6 = aten::add.Tensor(self=%5, other=$1, alpha=1) : i64[3,1]
  %7 = aten::cat(tensors=[%1,%6], dim=-1) : i64[3,{more}]
  %8 = ftm.view(base=%2, sizes=[1], strides=[1], offset={place}) : i64[1]
  return %4, %7, %8
"""


def _beams(t: int, n: int, place: int) -> str:
    return (
        _BEAMS.replace("other=$1, alpha=1", "other=$1, alpha=$2")
        .replace("  $1 = scalar i64\n", "  $1 = scalar i64\n  $2 = scalar i64\n")
        .format(t=t, n=n, place=place, last=t - 1, more=t + 1)
    )


def test_numbers_equal_by_chance_stay_separate() -> None:
    """Six tokens, and six candidates; the other operand determines that the latter is constant."""
    text = _general(_beams(6, 40, 1), (0, 0, 0))
    assert "%1 = param i64[{s0},{s1}]" in text
    assert "aten::full(size=[6], fill_value=$0, dtype=f32) : f32[6]" in text
    assert "strides=[{s1},1], offset={s1-1}" in text
    assert "aten::cat(tensors=[%1,%6], dim=-1) : i64[{s0},{s1+1}]" in text


def test_what_a_second_member_has_otherwise_is_a_symbol_and_the_rest_follows() -> None:
    families = TraceFamilies(
        (lambda text: None, lambda text, data: None, lambda text, reason: None)
    )

    def proposed(text: str) -> ShapeRelation:
        (best, *_) = families.propose(
            Trace.parse(text), SizeGuess(_marked(text, (0, 0, 0)), False, infer_sizes)
        )
        assert best.first_sight
        return best.relation

    first = proposed(_beams(6, 40, 1))
    assert first.values(_numbers(_beams(7, 48, 1))) is not None
    assert first.values(_numbers(_beams(7, 48, 2))) is None
    other = _beams(7, 48, 2)
    (wrong,) = first.violations(_numbers(other))
    trace = Trace.parse(other)
    assert wrong in shape_family.NumberPlaces(trace).argument(len(trace.nodes) - 1, "offset")
    second = proposed(_beams(7, 40, 2))
    for t, n, place in ((7, 40, 2), (9, 48, 5), (30, 31, 22)):
        assert second.values(_numbers(_beams(t, n, place))) is not None


def _candidates(t: int, count: int) -> str:
    """Append a token to a text and compare with another text; `count` candidates are unrelated."""
    return (
        f"trace\n  %0 = param i64[3,{t - 1}]\n  %1 = param i64[3,1]\n  %2 = param i64[3,{t}]\n  $0 = scalar f64\n"
        f"  %3 = aten::full(size=[{count}], fill_value=$0, dtype=f32) : f32[{count}]\n"
        f"  %4 = aten::cat(tensors=[%0,%1], dim=-1) : i64[3,{t}]\n"
        f"  %5 = aten::bitwise_and.Tensor(self=%2, other=%4) : i64[3,{t}]\n  return %3, %5\n"
    )


def test_constants_do_not_become_sizes_with_the_same_hint() -> None:
    """Six candidates, first with texts of six and five tokens, then of seven and six."""
    families = TraceFamilies(
        (lambda text: None, lambda text, data: None, lambda text, reason: None)
    )
    for t in (6, 7):
        text = _candidates(t, 6)
        best, *_ = families.propose(
            Trace.parse(text), SizeGuess(_marked(text, (0, 0, 0)), False, infer_sizes)
        )
    for t, count in ((6, 6), (7, 6), (12, 6), (12, 9)):
        assert best.relation.values(_numbers(_candidates(t, count))) is not None


def _experts(*rows: int) -> str:
    """What experts make of their rows, one behind the other, and windows that see what each has
    made."""
    total, count, begins = sum(rows), len(rows), [sum(rows[:k]) for k in range(len(rows))]
    lines = [f"  %{k} = param f32[{n},8]" for k, n in enumerate(rows)] + [
        f"  %{count} = param f32[8,16]"
    ]
    lines.append(
        f"  %{count + 1} = aten::zeros(size=[{16 * total}], dtype=f32) : f32[{16 * total}]"
    )
    written = value = count + 1
    for k, (n, begin) in enumerate(zip(rows, begins, strict=True)):
        lines += [
            f"  %{value + 1} = aten::mm(self=%{k}, mat2=%{count}) : f32[{n},16]",
            f"  %{value + 2} = ftm.update(base=%{written}, value=%{value + 1}, sizes=[{n},16], strides=[16,1], offset={16 * begin})"
            f" : f32[{16 * total}]",
        ]
        value = written = value + 2
    seen = range(value + 1, value + 1 + count)
    for number, n, begin in zip(seen, rows, begins, strict=True):
        lines.append(
            f"  %{number} = ftm.view(base=%{written}, sizes=[{n},16], strides=[16,1], offset={16 * begin}) : f32[{n},16]"
        )
    return "\n".join(
        ["trace", *lines, f"  return {', '.join(f'%{number}' for number in seen)}", ""]
    )


_ROWS = st.lists(st.integers(1, 9), min_size=2, max_size=4)


@settings(max_examples=40, deadline=None)
@given(_ROWS, _ROWS)
def test_parts_begin_where_those_before_them_end(rows: list[int], others: list[int]) -> None:
    """Also of parts that are as large by chance; sizes of 1 and the memory's are numbers."""
    others = (others * len(rows))[: len(rows) - 1]
    others.append(sum(rows) - sum(others))
    text = _experts(*rows)
    general = _inferred(_marked(text, [1] * len(rows) + [0], trains=True))
    if not general:
        assert max(rows) == 1
        return
    relation = _relation_of(general, text)
    assert relation.values(_numbers(text)) is not None
    if min(others) > 1:
        member = _numbers(_experts(*others))
        values = relation.values(member)
        assert (values is not None) == all(
            a == b for a, b in zip(rows, others, strict=True) if a == 1
        )
        if values is not None:
            spelled = _spelled(_experts(*others), relation, values)
            assert spelled.partition("%0")[2] == general.partition("%0")[2]


def _cropped(rows: int, whole: int, new: int, heads: int = 3) -> str:
    """Rows of eight numbers that were left of a cache, and new ones behind them."""
    extent, n = 8 * ((heads - 1) * whole + rows), rows + new
    return (
        f"trace\n  %0 = param f32[{extent}]\n  %1 = param f32[1,{heads},{new},8]\n"
        f"  %2 = ftm.view(base=%0, sizes=[1,{heads},{rows},8], strides=[{8 * heads * whole},{8 * whole},8,1], offset=0)"
        f" : f32[1,{heads},{rows},8]\n  %3 = aten::cat(tensors=[%2,%1], dim=-2) : f32[1,{heads},{n},8]\n  return %3\n"
    )


def _cropped_general(rows: int, whole: int, new: int, heads: int = 3) -> str:
    """The same, with symbols for the rows, the memory's rows and the new ones."""
    numbers = [
        (0, "", 0, f"{heads - 1}*s1+8*s0"), (1, "", 2, "s2"), (0, "sizes", 2, "s0"),
        (0, "strides", 0, f"{heads}*s1"), (0, "strides", 1, "s1"),
    ]  # fmt: skip
    trace = Trace.parse(_cropped(rows, whole, new, heads))
    return _inferred(with_symbols(trace, ([(rows, 1), (8 * whole, 1), (new, 1)], numbers)))


def test_a_cropped_cache_is_general_at_first_sight() -> None:
    """Also where as many rows are left as there are numbers in one."""
    for numbers in ((8, 9, 2), (5, 16, 3)):
        relation = _relation_of(_cropped_general(*numbers), _cropped(*numbers))
        for rows, whole, new in ((8, 9, 2), (5, 16, 3), (3, 4, 8), (16, 40, 16)):
            values = relation.values(_numbers(_cropped(rows, whole, new)))
            assert sorted(values or ()) == sorted((rows, 8 * whole, new))
        assert relation.values(_numbers(_cropped(5, 9, 2, heads=2))) is None
        other = _cropped(5, 9, 2).replace("param f32[184]", "param f32[188]")
        assert relation.values(_numbers(other)) is None


def _is_one_family(*texts: str) -> bool:
    return len({shape_family.structure_of(canonicalize(Trace.parse(text))) for text in texts}) == 1


def test_whole_and_cropped_caches_are_one_family() -> None:
    """A cache without cropping is also read through a window: its program serves cropped ones."""
    whole = _step(1, 2, 8)
    window = "  %5 = ftm.view(base=%2, sizes=[1,4,8,16], strides=[768,192,16,1], offset=0) : f32[1,4,8,16]\n"
    lines = _canonical(whole).replace(
        "sizes=[1,4,8,16], strides=[512,128,16,1]", "sizes=[1,4,8,16], strides=[768,192,16,1]"
    )
    cropped = lines.replace("%2 = param f32[512]", f"%2 = param f32[{3 * 192 + 128}]")
    assert cropped != lines
    assert window not in cropped  # before the other operand's window, as the recorder has it
    assert _is_one_family(whole, cropped)
    assert not _is_one_family(whole, _step(3, 2, 8))
    marked = canonicalize(_marked(whole, (0, 0, 0b100)))
    relation = _relation_of(_inferred(marked), _canonical(whole))
    for text in (_canonical(whole), cropped, _canonical(_step(1, 2, 30))):
        assert relation.values(_numbers(text)) is not None
    assert relation.values(_numbers(cropped.replace("[704]", "[705]"))) is None


@pytest.mark.parametrize(
    "other",
    [
        _step(1, 2, 8).replace("return %5", "return %2, %5"),  # the cache is also a result
        _step(3, 2, 8),
        _step(1, 2, 1),  # one row
        _cropped(5, 16, 3),
        # what is put behind is the first parameter that is used
        "trace\n  %0 = param f32[1,40]\n  %1 = param f32[1,2,4,4]\n"
        "  %2 = ftm.view(base=%0, sizes=[1,2,5,4], strides=[40,4,8,1], offset=0) : f32[1,2,5,4]\n"
        "  %3 = aten::cat(tensors=[%1,%2], dim=2) : f32[1,2,9,4]\n  return %3\n",
        "trace\n  %0 = param f32[1,8,4]\n  %1 = param f32[1,2,4]\n  %2 = aten::cat(tensors=[%0,%1], dim=1) : f32[1,10,4]\n  return %2\n",
    ],
)
def test_other_traces_are_in_their__canonical(other: str) -> None:
    assert _canonical(other) == other


def test_a_normal_form_is_a_trace_that_computes_the_same() -> None:
    """Values are numbered anew behind each window, also where a number has one more digit then."""
    two = (
        "trace\n  %0 = param f32[1,3,2,4]\n  %1 = param f32[1,3,5,4]\n  %2 = param f32[1,3,1,4]\n"
        "  %3 = aten::neg(self=%2) : f32[1,3,1,4]\n  %4 = aten::cat(tensors=[%0,%3], dim=-2) : f32[1,3,3,4]\n"
        "  %5 = aten::neg(self=%4) : f32[1,3,3,4]\n  %6 = aten::neg(self=%5) : f32[1,3,3,4]\n  %7 = aten::neg(self=%6) : f32[1,3,3,4]\n"
        "  %8 = aten::cat(tensors=[%1,%2], dim=2) : f32[1,3,6,4]\n  %9 = aten::neg(self=%8) : f32[1,3,6,4]\n  return %4, %7, %9\n"
    )
    made = _canonical(two)
    assert made.splitlines()[1:] == [
        "  %0 = param f32[24]",
        "  %1 = param f32[60]",
        "  %2 = param f32[1,3,1,4]",
        "  %3 = aten::neg(self=%2) : f32[1,3,1,4]",
        "  %4 = ftm.view(base=%0, sizes=[1,3,2,4], strides=[24,8,4,1], offset=0) : f32[1,3,2,4]",
        "  %5 = aten::cat(tensors=[%4,%3], dim=-2) : f32[1,3,3,4]",
        "  %6 = aten::neg(self=%5) : f32[1,3,3,4]",
        "  %7 = aten::neg(self=%6) : f32[1,3,3,4]",
        "  %8 = aten::neg(self=%7) : f32[1,3,3,4]",
        "  %9 = ftm.view(base=%1, sizes=[1,3,5,4], strides=[60,20,4,1], offset=0) : f32[1,3,5,4]",
        "  %10 = aten::cat(tensors=[%9,%2], dim=2) : f32[1,3,6,4]",
        "  %11 = aten::neg(self=%10) : f32[1,3,6,4]",
        "  return %5, %8, %11",
    ]
    assert _canonical(made) == made
    marked = str(canonicalize(_marked(two, (0b100, 0b100, 0))))
    assert "%0 = param f32[{4*s0+2*s2}]" in marked
    assert "sizes=[1,3,{s0},4], strides=[{3*s2},{s2},4,1], offset=0" in marked


def test_what_is_put_behind_one_row_is_general_in_the_rows() -> None:
    """A cache of one token; as many heads as there are tokens, and a batch, are numbers."""
    for text in (_step(1, 1, 1), _step(1, 1, 9)):
        relation = _relation(text, (0, 0, 0b101), ones=((2, 2),))
        for c in (1, 2, 9, 40):
            assert relation.values(_numbers(_step(1, 1, c))) == (c,)
        assert relation.values(_numbers(_step(2, 1, 9))) is None


def test_a_text_of_one_token_is_general_in_its_length() -> None:
    text = (
        "trace\n  %0 = param i64[1,1]\n  $0 = scalar i64\n  %1 = aten::lt.Scalar(self=%0, other=$0) : i1[1,1]\n"
        "  %2 = aten::any(self=%1) : i1[]\n  return %2\n"
    )
    assert "%1 = aten::lt.Scalar(self=%0, other=$0) : i1[1,{s0}]" in _general(
        text, (0b10,), ones=((0, 1),)
    )
    assert not _general(text, (0,))


_CROPPED = st.tuples(*(st.integers(1, 12) for _ in range(4)))


@settings(max_examples=40, deadline=None)
@given(_CROPPED, _CROPPED)
def test_members_of_cropped_caches_are_those_whose_numbers_are_the_relations(
    one: tuple[int, ...], two: tuple[int, ...]
) -> None:
    (rows, more, new, heads), (rows2, more2, new2, heads2) = one, two
    text, other = (
        _cropped(rows, rows + more, new, heads),
        _cropped(rows2, rows2 + more2, new2, heads2),
    )
    general = _cropped_general(rows, rows + more, new, heads)
    if not general:
        return
    _serves_what_it_describes(general, text, other)


def test_a_size_of_one_is_general_at_first_sight_in_the_others() -> None:
    """Traces with larger extents there do not affect it, nor the hints of its sizes."""
    families = TraceFamilies(
        (lambda text: None, lambda text, data: None, lambda text, reason: None)
    )

    def rows(b: int, t: int) -> str:
        type_ = f"[{b},{t}]"
        return f"trace\n  %0 = param i64{type_}\n  $0 = scalar i64\n  %1 = aten::lt.Scalar(self=%0, other=$0) : i1{type_}\n  return %1\n"

    def proposed(text: str) -> DynamicCandidate:
        marked = _marked(text, (0,), ones=((0, 1),))
        return families.propose(Trace.parse(text), SizeGuess(marked, False, infer_sizes))[0]

    first = proposed(rows(50, 70))
    assert first.first_sight
    best = proposed(rows(1, 8))
    assert best.first_sight
    assert (best.values, best.chosen_for) == ((8,), (128,))
    assert best.relation.values(_numbers(rows(1, 5))) == (5,)
    assert best.relation.values(_numbers(rows(2, 5))) is None


def test_what_a_program_is_chosen_for_is_a_trace() -> None:
    """Hints grow only as far as the views stay inside of their base."""
    text = (
        "trace\n  size s0 = 91, 2\n  size s1 = 45, 2\n  size s2 = 5, 2\n  size s3 = 0, 0\n  %0 = param i64[{s0}]\n  %1 = param f32[{s2}]\n"
        "  %2 = ftm.view(base=%0, sizes=[3,1], strides=[{s1},1], offset={s3}) : i64[3,1]\n"
        "  %3 = aten::relu(self=%1) : f32[{s2}]\n  return %2, %3\n"
    )
    chosen = larger_sizes(Trace.parse(text), (91, 45, 5, 0), (91, 45, 5, 0))
    assert chosen == (182, 90, 80, 0)
    assert larger_sizes(Trace.parse(text), (91, 45, 5, 0), (91, 45, 300, 0)) == (182, 90, 600, 0)
    assert larger_sizes(Trace.parse(text), (91, 45, 5, 0), (91, 50, 300, 0)) == (182, 90, 600, 0), (
        "no row begins behind the memory"
    )
    assert larger_sizes(Trace.parse(text), (91, 45, 5, 0), (91, 45, 5, 0), any_size=True) == (
        1 << 20,
        (1 << 19) - 1,
        1 << 20,
        0,
    )


def test_a_cache_of_the_length_that_python_asked_for() -> None:
    """As long as prompt and new tokens; heads and their width are those of what is copied into
    it."""
    text = (
        "trace\n  %0 = param i64[5]\n  %1 = param f32[1,2,5,16]\n  $0 = scalar f64\n"
        "  %2 = aten::zeros(size=[1,2,44,16], dtype=f32) : f32[1,2,44,16]\n"
        "  %3 = aten::index_copy(self=%2, dim=2, index=%0, source=%1) : f32[1,2,44,16]\n"
        "  %4 = aten::mul.Scalar(self=%3, other=$0) : f32[1,2,44,16]\n  return %3, %4\n"
    )
    general = _general(text, (0, 0b100))
    assert "aten::zeros(size=[1,2,{s3},16], dtype=f32) : f32[1,2,{s3},16]" in general, general
    assert _varying_results(general) == [0b100, 0b100]


def test_sizes_grow_after_those_that_bound_them() -> None:
    """The diagonal of n rows of 2n has n elements; memory for two rows holds no third."""
    text = (
        "trace\n  size s0 = 2, 2\n  size s1 = 7, 2\n  %0 = param f32[{s1}]\n"
        "  %1 = ftm.view(base=%0, sizes=[{s0}], strides=[{2*s0+1}], offset=0) : f32[{s0}]\n"
        "  %2 = aten::relu(self=%1) : f32[{s0}]\n  return %2\n"
    )
    assert larger_sizes(Trace.parse(text), (2, 7), (2, 7)) == (7, 112)


def test_members_with_other_ones_tell_which_sizes_vary() -> None:
    """Boxes of two images: after counts of 11 and 3, and of 8 and 5, the 7 of 1 and 7 varies."""

    def boxes(a: int, b: int) -> str:
        return (
            f"trace\n  %0 = param i64[{a}]\n  %1 = param i64[{b}]\n"
            f"  %2 = param f32[{4 * (a + b) - 3}]\n"
            f"  %3 = aten::cat(tensors=[%0,%1], dim=0) : i64[{a + b}]\n"
            f"  %4 = ftm.view(base=%2, sizes=[{a + b}], strides=[4], offset=0) : f32[{a + b}]\n"
            f"  %5 = aten::mul.Tensor(self=%4, other=%3) : f32[{a + b}]\n  return %5\n"
        )

    families = TraceFamilies((lambda _: None, lambda _, __: None, lambda _, __: None))

    def proposed(text: str) -> DynamicCandidate:
        marked = _marked(text, (0, 0, 1), trains=True)
        return families.propose(Trace.parse(text), SizeGuess(marked, True, infer_sizes))[0]

    for a, b in ((11, 3), (8, 5)):
        proposed(boxes(a, b))
    best = proposed(boxes(1, 7))
    assert best.first_sight
    for b in (2, 5, 12):
        assert best.relation.values(_numbers(boxes(1, b))) is not None


def test_a_fractional_argument_is_no_size() -> None:
    general = _general(
        "trace\n  %0 = param i64[4]\n"
        "  %1 = aten::arange.start_step(start=0, end=3.0, step=1, dtype=f32) : f32[3]\n"
        "  %2 = aten::neg(self=%0) : i64[4]\n  return %1, %2\n",
        (1,),
    )
    assert "end=3.0, step=1, dtype=f32) : f32[3]\n" in general
