"""Symbolic sizes: arithmetic agrees with integers, and guards state where it stays valid."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ftm_backend import symbolic
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.symbolic import (
    ShapeEnv,
    SymbolicExpressionError,
    SymFloat,
    SymInt,
    ceildiv,
    compile_expressions,
    divides,
    parse_size,
    parse_symfloat,
    size_hint,
    statically_known_equal,
    statically_known_nonnegative,
    sym_max,
    upper_bound,
)

_HOLDS: dict[str, Callable[[int], bool]] = {
    "==": lambda n: n == 0,
    "!=": lambda n: n != 0,
    ">=": lambda n: n >= 0,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else a,
    "%": lambda a, b: a % b if b else b,
    "ceildiv": lambda a, b: ceildiv(a, b) if b else a,
    "min": min,
    "max": max,
    "if": lambda a, b: a + 1 if a > b else b,
    "eq": lambda a, b: a if a == b else b - 3,
}

expressions = st.recursive(
    st.one_of(st.sampled_from(["s0", "s1"]), st.integers(-70, 70)),
    lambda inner: st.tuples(st.sampled_from(list(_BINARY)), inner, inner),
    max_leaves=9,
)


def _run(expression: Any, values: dict[str, Any]) -> Any:
    """The value of an expression for symbols that are numbers or sizes."""
    if isinstance(expression, tuple):
        operation, left, right = expression
        return _BINARY[operation](_run(left, values), _run(right, values))
    return values[expression] if isinstance(expression, str) else expression


@example(("//", "s0", ("-", "s0", "s1")), (2, 0), [(2, 3)])
@given(
    expressions,
    st.tuples(st.integers(2, 300), st.integers(0, 90)),
    st.lists(st.tuples(st.integers(0, 300), st.integers(-9, 90))),
)
def test_where_the_guards_hold_the_result_is_that_of_integers(
    expression: Any, hand: tuple[int, int], others: list[tuple[int, int]]
) -> None:
    with ShapeEnv({"s0": (hand[0], 2), "s1": (hand[1], 0)}) as symbols:
        made = _run(expression, {name: parse_size("{" + name + "}") for name in symbols.values})
        text = made.text if isinstance(made, SymInt) else str(made)
        back = parse_size("{" + text + "}")
    assert size_hint(made) == size_hint(back) == _run(expression, {"s0": hand[0], "s1": hand[1]})
    guards = list(symbols.guards.values())
    holds = compile_expressions([guard.size for guard in guards], ("s0", "s1"))
    result = compile_expressions([text], ("s0", "s1"))
    for values in [hand, *others]:
        try:
            admitted = all(
                _HOLDS[g.relation](n) for g, n in zip(guards, holds(*values), strict=True)
            )
        except ZeroDivisionError:
            admitted = False
        if admitted:
            assert result(*values)[0] == _run(expression, {"s0": values[0], "s1": values[1]})
        else:
            assert values != hand


@given(
    expressions,
    st.tuples(st.integers(2, 300), st.integers(0, 90)),
    st.lists(st.tuples(st.integers(2, 300), st.integers(0, 90))),
)
def test_bounds_hold_for_all_values(
    expression: Any, hand: tuple[int, int], others: list[tuple[int, int]]
) -> None:
    """For all values that satisfy the guards: a quotient requires a divisor above 0."""
    with ShapeEnv({"s0": (hand[0], 2), "s1": (hand[1], 0)}) as symbols:
        made = _run(expression, {"s0": parse_size("{s0}"), "s1": parse_size("{s1}")})
    if not isinstance(made, SymInt):
        return
    low, high = made.bounds
    guards = list(symbols.guards.values())
    numbers, holds = (
        compile_expressions([made.text], ("s0", "s1")),
        compile_expressions([g.size for g in guards], ("s0", "s1")),
    )
    for values in [hand, *others]:
        with contextlib.suppress(ZeroDivisionError):
            if all(_HOLDS[g.relation](n) for g, n in zip(guards, holds(*values), strict=True)):
                assert low <= numbers(*values)[0] <= high, (made.text, values)


def test_bounds_see_through_quotients() -> None:
    with ShapeEnv({"s0": (36, 2)}) as symbols:
        s = parse_size("{s0}")
        two, one = 2 * (ceildiv(16 * s, 64) * 64), ceildiv(32 * s, 64) * 64
        assert (two - one).bounds == (0, 64)
        assert (ceildiv(s, 16) * 16 - s).bounds == (0, 15)
        assert (s - s // 4 * 4).bounds == (0, 3)
        assert statically_known_nonnegative(two - one)
        before = dict(symbols.guards)
        assert sym_max(one, two) is two
        assert sym_max(two, one) is two
        assert symbols.guards == before


def test_spelling_is_one_for_each_value() -> None:
    with ShapeEnv({"s0": (37, 2)}) as symbols:
        s = parse_size("{s0}")
        assert str(s * 64 // 16) == "{4*s0}"
        assert str(ceildiv(s, 16)) == str((s + 15) // 16) == "{((s0+15)/16)}"
        assert str(math.prod((s, 3, s))) == "{3*s0*s0}"
        assert str((s * s + s) // (s + 1)) == "{s0}"
        assert str((s * s) // s) == "{s0}"
        assert f"{s * 4 + 1:+d}" == "+{4*s0+1}"
        assert s - s == 0
        assert (16 * s) // (32 * s) == 0
        assert str((16 * s + 5) % (16 * s + 6)) == "{16*s0+5}"
        assert not symbols.equalities


def test_what_every_number_decides_is_no_guard() -> None:
    with ShapeEnv({"s0": (37, 2)}) as symbols:
        s, before = parse_size("{s0}"), dict(symbols.guards)
        assert s > 0
        assert s * 64 != 0
        assert s * s >= s
        assert s + 1 != s
        assert not divides(4, s)
        assert divides(4, 12 * s)
        assert not statically_known_equal(s, 37)
        assert statically_known_nonnegative(s - 2)
        assert not statically_known_nonnegative(s - 3)
        assert symbols.guards == before


def test_a_size_has_a_least_and_a_greatest_value() -> None:
    with ShapeEnv({"s0": (37, 2), "s1": (3, 0)}) as symbols:
        assert {str(g) for g in symbols.guards.values()} == {
            "s0-2 >= 0",
            "-s0+2147483648 >= 0",
            "s1+0 >= 0",
        }


def test_an_upper_bound_is_twice_the_number_at_hand() -> None:
    with ShapeEnv({"s0": (37, 2)}) as symbols:
        assert upper_bound(ceildiv(parse_size("{s0}"), 32)) == 4
        assert "-((s0+31)/32)+4 >= 0" in {str(g) for g in symbols.guards.values()}
        assert upper_bound(parse_size("{s0}") % 5) == 4


def test_taking_a_number_is_a_guard_of_equality() -> None:
    with ShapeEnv({"s0": (5, 2)}) as symbols:
        assert list(range(9))[parse_size("{s0}")] == 5
    assert [str(g) for g in symbols.equalities] == ["-s0+5 == 0"]
    assert symbols.equalities[0].place.endswith(f"test_arithmetic.py:{_line('range(9)')}")


def _line(words: str) -> int:
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if words in line)


@given(st.integers(2, 2000), st.integers(2, 2000))
def test_floating_numbers_have_the_same_bits(hand: int, other: int) -> None:
    def share(n: Any) -> Any:
        return 0.1 * (n / (n * 3 - 1)) + 2 * (1 / n) - 0.25

    with ShapeEnv({"s0": (hand, 2)}):
        made = share(parse_size("{s0}"))
        assert isinstance(made, SymFloat)
        assert made.value == share(hand) == parse_symfloat(repr(made)).value
    assert compile_expressions([made.text], ("s0",), real=True)(other)[0] == share(other)


@pytest.mark.parametrize(
    "text",
    ["{s0", "{s0.real}", "{f(s0)}", "{s1}", "{}", "{2**s0}", "{s0//2}", "{[1]}", "{1.5}", "{'a'}"],
)
def test_texts_that_are_no_sizes(text: str) -> None:
    with ShapeEnv({"s0": (5, 2)}), pytest.raises(SymbolicExpressionError):
        parse_size(text)


def test_sizes_need_symbols() -> None:
    with pytest.raises(SymbolicExpressionError, match="no sizes are declared"):
        parse_size("{s0}")
    assert parse_size("17") == 17
    assert Trace.parse("trace\n  %0 = param f32[2]\n  return %0\n").symbols is None
    text = (
        "trace\n  size s0 = 37, 2\n  size s1 = -4, -9, own\n  %0 = param f32[{s0}]\n  return %0\n"
    )
    trace = Trace.parse(text)
    assert str(trace) == text
    found = trace.symbols
    assert found is not None
    assert found.values == {"s0": 37, "s1": -4}
    assert {str(g) for g in found.guards.values()} == {
        "s0-2 >= 0",
        "-s0+2147483648 >= 0",
        "s1+9 >= 0",
    }


def test_guards_do_not_need_assertions() -> None:
    program = """
from ftm_backend.symbolic import ShapeEnv, parse_size, upper_bound
with ShapeEnv({"s0": (5, 2)}) as symbols:
    upper_bound(parse_size("{s0}"))
    parse_size("{s0}").bit_length()
print(*map(str, symbols.guards.values()), sep=chr(10))
"""
    printed = subprocess.run(
        [sys.executable, "-O", "-c", program],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert {"-s0+10 >= 0", "s0-4 >= 0", "-s0+7 >= 0"} <= set(printed.stdout.splitlines())


def test_threads_have_symbols_of_their_own():
    def others() -> None:
        seen.append(symbolic.current_env())
        with symbolic.ShapeEnv({"s7": (5, 2)}):
            entered.set()
            left.wait(10.0)
            seen.append(int(symbolic.parse_size("{s7}")))

    seen: list[object] = []
    entered, left = threading.Event(), threading.Event()
    with symbolic.ShapeEnv({"s0": (3, 2)}):
        thread = threading.Thread(target=others)
        thread.start()
        assert entered.wait(10.0) and int(symbolic.parse_size("{s0}")) == 3
        left.set()
        thread.join()
    assert seen == [None, 5]
