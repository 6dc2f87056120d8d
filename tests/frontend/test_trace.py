"""The trace: its text, its errors, its verifier, its hash."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftm_backend.ir.trace.trace import DType, Node, Ref, ScalarRef, TensorType, Trace, TraceError

EXAMPLE = """trace
  %0 = param f32[64,64]
  %1 = param i64[]
  $0 = scalar f64
  %2 = aten::add.Tensor(self=%0, other=%1, alpha=$0) : f32[64,64]
  %3, %4 = aten::max_pool2d_with_indices(self=%2, kernel_size=[2,2], stride=[], ceil_mode=false) : f32[64,32], none
  %5 = ftm.view(base=%2, sizes=[64,64], strides=[1,64], offset=0) : f32[64,64]
  %6 = ftm.update(base=%2, value=%5, sizes=[64,64], strides=[64,1], offset=0) : f32[64,64]
  %7 = aten::x(self=%6, nan=nan, a=none, b=1e-05, c=-inf, d=nan, e="q\\"\\n", f=bf16, g=[[1],[-2,3.0]], h=-0.0) : i1[0,3]
  return %7, %3, %1, %7
"""


def test_text_round_trips() -> None:
    trace = Trace.parse(EXAMPLE)
    trace.verify()
    assert str(trace) == EXAMPLE
    assert Trace.parse(str(trace)) == trace
    assert trace.types()[4] is None
    assert trace.nodes[0].argument("alpha") == ScalarRef(0)


def test_complex_numbers() -> None:
    """Two scalars are one; with numbers in their place it is spelled as such, since a list of two
    is something else."""
    recorded = Trace(
        [TensorType("c64", (3,))],
        ["f64", "f64"],
        [
            Node.of(
                "aten::mul.Tensor",
                (("self", Ref(0)), ("other", (ScalarRef(0), ScalarRef(1)))),
                (TensorType("c64", (3,)),),
            )
        ],
        [1],
    )
    trace = recorded.with_scalars([0.0, float("-inf")])
    assert "other=complex(0.0,-inf)" in str(trace) and Trace.parse(str(trace)) == trace
    assert recorded.with_scalars([None, None]) == recorded
    with pytest.raises(TraceError, match=r"line 3.*parts of a complex number"):
        Trace.parse(str(trace).replace("0.0,", "0,"))


def test_repeated_lines_keep_their_numbers() -> None:
    """The parser reads repeated lines once, and only their numbers afterwards."""
    text = """trace
  %0 = param f32[4]
  %1 = param f32[4]
  $0 = scalar f64
  $1 = scalar f64
  %2 = aten::x(self=%0, list=[none,%1], deep=[[%1],[7,$0]], pad=[1,%0], e="%0 $0 {s0%3}", n=3) : f32[4]
  %3 = aten::x(self=%2, list=[none,%0], deep=[[%0],[7,$1]], pad=[1,%1], e="%0 $0 {s0%3}", n=3) : f32[4]
  %4 = aten::y(self=%0, list=[none,%1], deep=[[%1],[7,$0]], pad=[1,%0], n=3) : f32[4]
  %5 = aten::y(self=%4, list=[none,%0], deep=[[%2],[7,$1]], pad=[1,%3], n=3) : f32[4]
  %6 = aten::y(self=%5, list=[none,%5], deep=[[%1],[7,$0]], pad=[1,%4], n=4) : f32[4] // %9
  return %6
"""
    for _ in range(2):
        assert str(Trace.parse(text)) == text.replace(" // %9", "")
    with pytest.raises(TraceError, match=r"line 9, column 3: expected %5"):
        Trace.parse(text.replace("%5 = ", "%7 = "))


def test_layout_of_the_text_does_not_matter() -> None:
    loose = EXAMPLE.replace("(", "( ").replace(",", " , ").replace("\n", "  // note\n\n")
    assert Trace.parse(loose) == Trace.parse(EXAMPLE)


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "words"),
    [
        ("%2 = aten", "%9 = aten", 5, 3, "expected %2"),
        ("alpha=$0", "alpha=", 5, 50, "expected a value"),
        ("other=%1", "self=%1", 5, 34, "given twice"),
        ("f32[64,64]\n  %1", "f31[64,64]\n  %1", 2, 14, "expected a type"),
        ("$0 = scalar f64", "$0 = scalar f32", 4, 15, "f64 or i64"),
        ("offset=0) : f32[64,64]\n  %6", "offset=0 : f32[64,64]\n  %6", 7, 66, "expected ')'"),
        ("return %7", "return 7", 10, 10, "expected a value %N"),
        ("%3, %4 =", "%3 =", 6, 8, "1 values on the left and 2 types"),
        ("offset=0) : f32[64,64]\n  %6", "offset=0) : f32[64,64] ?\n  %6", 7, 80, "unexpected '?'"),
    ],
)
def test_errors_name_line_and_column(
    old: str, new: str, line: int, column: int, words: str
) -> None:
    assert old in EXAMPLE
    with pytest.raises(TraceError) as caught:
        Trace.parse(EXAMPLE.replace(old, new, 1))
    message = str(caught.value)
    assert words in message
    assert message.startswith(f"line {line}, column {column}:"), message
    assert message.splitlines()[-1] == "  " + " " * (column - 1) + "^"


@pytest.mark.parametrize("text", ["", "trace\n  %0 = param f32[]\n"])
def test_incomplete_text(text: str) -> None:
    with pytest.raises(TraceError, match="incomplete"):
        Trace.parse(text)


F32 = TensorType("f32", (4,))


def _add(a: int, b: int) -> Node:
    return Node.of("aten::mul.Tensor", (("self", Ref(a)), ("other", Ref(b))), (F32,))


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (Trace([F32], [], [_add(0, 1)], [1]), "%1 is used before it is defined"),
        (Trace([F32, F32], [], [_add(1, 0)], [2]), "%1 is used before %0"),
        (Trace([F32, F32], [], [_add(0, 0)], [2]), "parameter %1 is never used"),
        (Trace([F32], ["f64"], [_add(0, 0)], [1]), "scalar \\$0 is never used"),
        (
            Trace([F32], [], [_add(0, 0), _add(0, 0)], [2]),
            "node 0 .* no result of the trace needs %1",
        ),
        (
            Trace(
                [F32],
                ["f64"],
                [
                    Node.of(
                        "aten::x", (("s", ScalarRef(0)), ("t", ScalarRef(0)), ("u", Ref(0))), (F32,)
                    )
                ],
                [1],
            ),
            "each scalar is used once",
        ),
        (Trace([TensorType("f32", (-1,))], [], [_add(0, 0)], [1]), "negative extent"),
        (Trace([TensorType("q8", (1,))], [], [_add(0, 0)], [1]), "unknown dtype"),
        (
            Trace([F32], [], [Node.of("aten::x", (("u", Ref(0)),), (None, F32)), _add(1, 1)], [3]),
            "undefined tensor",
        ),
    ],
)
def test_verifier_rejects(trace: Trace, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        trace.verify()


@pytest.mark.parametrize(
    ("sizes", "strides", "offset", "shape", "words"),
    [
        ((2, 2), (2, 1), 1, (2, 2), "reaches element 4"),
        ((2, 2), (2,), 0, (2, 2), "2 entries and strides 1"),
        ((2,), (1,), 0, (3,), "sizes give"),
        ((2,), (-1,), 1, (2,), "not negative"),
    ],
)
def test_verifier_keeps_views_inside(
    sizes: Any, strides: Any, offset: int, shape: Any, words: str
) -> None:
    node = Node.of(
        "ftm.view",
        (("base", Ref(0)), ("sizes", sizes), ("strides", strides), ("offset", offset)),
        (TensorType("f32", shape),),
    )
    with pytest.raises(TraceError, match=words):
        Trace([F32], [], [node], [1]).verify()


# --- the hash
# ---------------------------------------------------------------------------------------------


def program(seed: int) -> Trace:
    """A small random program; few choices, so that equal ones are drawn often."""
    rng = random.Random(seed)
    trace = Trace()
    dtype = rng.choice(["f32", "f64"])
    inputs = [TensorType(dtype, (rng.choice([2, 3]),)) for _ in range(rng.randint(1, 2))]
    steps: list[tuple[str, list[Any]]] = []
    known = len(inputs)
    for _ in range(rng.randint(1, 2)):
        operands: list[Any] = [
            rng.randrange(known),
            rng.choice([rng.randrange(known), "scalar", 1, 1.0, True, "1", None]),
        ]
        steps.append((rng.choice(["aten::sub.Tensor", "aten::mul.Tensor"]), operands))
        known += 1
    order = list(range(len(inputs)))
    trace.params = inputs
    for op, (a, b) in steps:
        value: Any = b
        if b == "scalar":
            value = ScalarRef(len(trace.scalars))
            trace.scalars.append("f64")
        elif type(b) is int and b != 1:
            value = Ref(b)
        trace.nodes.append(Node.of(op, (("self", Ref(a)), ("other", value)), (inputs[0],)))
    trace.results = [rng.randrange(known) for _ in range(rng.randint(1, 2))]
    del order
    return trace


def structure(trace: Trace) -> Any:
    """The whole content of a trace, with types of values kept apart (1, 1.0 and True are equal in
    Python)."""

    def tagged(value: Any) -> Any:
        if isinstance(value, tuple):
            return ("tuple", tuple(tagged(v) for v in value))
        return (type(value).__name__, repr(value))

    nodes = tuple(
        (n.op, tuple((k, tagged(v)) for k, v in n.args), tuple(map(repr, n.results)))
        for n in trace.nodes
    )
    return (tuple(map(repr, trace.params)), tuple(trace.scalars), nodes, tuple(trace.results))


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 300), st.integers(0, 300))
def test_hash_is_equal_exactly_for_equal_programs(first: int, second: int) -> None:
    a, b = program(first), program(second)
    assert (a.hash() == b.hash()) == (structure(a) == structure(b))
    assert (a == b) == (structure(a) == structure(b))


def test_equal_programs_are_drawn() -> None:
    """The property above must meet both of its sides."""
    distinct = {program(seed).hash() for seed in range(300)}
    assert 20 < len(distinct) < 300


def test_hash_tells_swapped_operands_and_results() -> None:
    """Programs that a hash of shapes alone takes for the same."""

    def subtract(a: int, b: int) -> Node:
        return Node.of("aten::sub.Tensor", (("self", Ref(a)), ("other", Ref(b))), (F32,))

    sums = [
        Node.of("aten::sum", (("self", Ref(k)), ("dtype", DType("f32"))), (TensorType("f32", ()),))
        for k in (0, 1)
    ]
    traces = [
        Trace([F32, F32], [], [*sums, subtract(0, 1)], [2, 3, 4]),
        Trace([F32, F32], [], [*sums, subtract(1, 0)], [2, 3, 4]),
        Trace([F32, F32], [], [*sums, subtract(0, 0)], [2, 3, 4]),
        Trace([F32, F32], [], [*sums, subtract(0, 1)], [3, 2, 4]),
        Trace([F32, F32], [], [*sums, subtract(0, 1)], [2, 3, 4, 4]),
    ]
    assert len({t.hash() for t in traces}) == len(traces)
