"""Index expressions: folding must never change a value, and bounds must hold."""

import operator
from math import inf

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ftm_backend.ir.tile.index_expr import Expr, IndexFactory
from ftm_backend.symbolic import (
    ShapeEnv,
    SymbolicExpressionError,
    SymInt,
    compile_expressions,
    parse_size,
)

OPERATIONS = ("add", "sub", "mul", "div", "rem", "min", "max", "lt", "eq", "ne")
REFERENCE = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b if b else 0,
    "rem": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "lt": lambda a, b: int(a < b),
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
}


def build(indices: IndexFactory, operation: str, a: Expr, b: Expr) -> Expr:
    if operation in ("lt", "eq", "ne"):
        return indices.compare(operation, a, b)
    return getattr(indices, operation)(a, b)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9), st.integers(0, 9)),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.integers(-40, 40), min_size=4, max_size=4),
    st.tuples(st.integers(0, 7), st.integers(-3, 11)),
)
def test_values_and_bounds_survive_folding(steps, constants, variables):
    indices = IndexFactory()
    x = indices.variable("x", 1, 0, 7)
    y = indices.variable("y", 2, -3, 11)
    exprs = [indices.of(x), indices.of(y), *(indices.constant(c) for c in constants)]
    values = [*variables, *constants]
    for operation, i, j in steps:
        i, j = i % len(exprs), j % len(exprs)
        exprs.append(build(indices, operation, exprs[i], exprs[j]))
        values.append(REFERENCE[operation](values[i], values[j]))
    for expr, value in zip(exprs, values, strict=True):
        assert expr.low <= value <= expr.high
        for order in ((x, y), (y, x)):
            known = expr
            for atom in order:
                known = indices.substitute(
                    known, atom, indices.constant(variables[0 if atom is x else 1])
                )
            assert known.constant == value, (expr, value)


SYMBOLS = ("s0", "s1")
HOLDS = {"==": operator.eq, "!=": operator.ne, ">=": operator.ge}


def number(size: float, values: tuple[int, int]) -> float:
    """The value of a size for values of the symbols."""
    return (
        compile_expressions([size.text], SYMBOLS)(*values)[0] if isinstance(size, SymInt) else size
    )


def evaluated(expr: Expr, variables: dict[str, int], values: tuple[int, int]) -> float:
    """The value of an expression for values of the variables and the symbols."""
    total = number(expr.const, values)
    for atom, c in expr.terms:
        inner = [evaluated(e, variables, values) for e in atom.args]
        found = REFERENCE[atom.operation](*inner) if inner else variables[atom.name]
        total += number(c, values) * found
    return total


@settings(max_examples=300, deadline=None)
@example(  # the length of the second of two sorted runs; the first has up to 16 elements
    [("mul", 0, 4), ("sub", 2, 6), ("min", 4, 7), ("sub", 7, 8), ("min", 4, 9)],
    [16, 0],
    (3, 0),
    (100, 2),
    [(50, 2), (49, 2)],
)
@given(
    st.lists(
        st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9), st.integers(0, 9)),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.integers(-40, 40), min_size=2, max_size=2),
    st.tuples(st.integers(0, 7), st.integers(-3, 11)),
    st.tuples(st.integers(2, 300), st.integers(0, 90)),
    st.lists(st.tuples(st.integers(2, 300), st.integers(0, 90)), max_size=4),
)
def test_values_and_bounds_of_symbolic_sizes(steps, constants, variables, hint, others):
    """Where the guards hold, an expression of sizes has the value that the numbers give."""
    indices = IndexFactory()
    x, y = indices.variable("x", 1, 0, 7), indices.variable("y", 2, -3, 11)
    with ShapeEnv({"s0": (hint[0], 2), "s1": (hint[1], 0)}) as symbols:
        leaves = [*(parse_size("{" + name + "}") for name in SYMBOLS), *constants]
        exprs = [indices.of(x), indices.of(y), *(indices.constant(c) for c in leaves)]
        chosen = []
        for operation, i, j in steps:
            i, j = i % len(exprs), j % len(exprs)
            chosen.append((operation, i, j))
            try:
                exprs.append(build(indices, operation, exprs[i], exprs[j]))
            except (SymbolicExpressionError, ZeroDivisionError):
                assume(False)
        bounds = [(expr.low, expr.high) for expr in exprs]
    guards = list(symbols.guards.values())
    holds = compile_expressions([guard.size for guard in guards], SYMBOLS)
    for values in [hint, *others]:
        try:
            results = holds(*values)
            if not all(HOLDS[g.relation](n, 0) for g, n in zip(guards, results, strict=True)):
                continue
            expected = [*variables, *values, *constants]
            for operation, i, j in chosen:
                expected.append(REFERENCE[operation](expected[i], expected[j]))
            for expr, (low, high), value in zip(exprs, bounds, expected, strict=True):
                assert evaluated(expr, {"x": variables[0], "y": variables[1]}, values) == value
                assert number(low, values) <= value <= number(high, values)
        except ZeroDivisionError:  # of a quotient that a guard contains
            assert values != hint


def test_equal_expressions_are_one_object():
    indices = IndexFactory()
    x = indices.of(indices.variable("x", 1, 0, 9))
    four = indices.constant(4)
    assert indices.mul(indices.add(x, four), four) is indices.add(
        indices.scale(x, 4), indices.constant(16)
    )
    assert indices.sub(indices.add(x, four), four) is x


def test_a_core_s_share_of_tiles_stays_within_them():
    indices = IndexFactory()
    core, cores = indices.of(indices.core), indices.of(indices.cores)
    first = indices.div(indices.scale(core, 63), cores)
    last = indices.div(indices.scale(indices.add(core, indices.constant(1)), 63), cores)
    assert (first.low, first.high) == (0, 62)
    assert (last.low, last.high) == (0, 63)
    assert core.high == inf


def test_tails_vanish_where_the_extent_divides():
    indices = IndexFactory()
    i = indices.of(indices.variable("i", 1, 0, 63))
    rest = indices.sub(indices.constant(1024), indices.scale(i, 16))
    assert indices.min(rest, indices.constant(16)).constant == 16
    odd = indices.sub(indices.constant(1000), indices.scale(i, 16))
    assert indices.min(odd, indices.constant(16)).constant is None


def test_quotients_and_remainders_split_off_what_divides():
    indices = IndexFactory()
    i = indices.of(indices.variable("i", 1, 0, 7))
    j = indices.of(indices.variable("j", 2, 0, 15))
    flat = indices.add(indices.scale(i, 16), j)
    assert indices.div(flat, indices.constant(16)) is i
    assert indices.rem(flat, indices.constant(16)) is j
