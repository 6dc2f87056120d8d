"""Parse sizes, and solve equality guards."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, cast

from ftm_backend.symbolic.expression_compiler import OPERATIONS, SymbolicExpressionError, parse
from ftm_backend.symbolic.polynomial import Polynomial, spell
from ftm_backend.symbolic.shape_env import ShapeEnv, current_env
from ftm_backend.symbolic.symint import SymInt

_NAME = re.compile(r"\bs\d+\b")


def new_symbol(symbols: ShapeEnv, value: int, least: int = 2) -> SymInt:
    """Declare another symbol with hint `value`."""
    name = f"s{1 + max((int(name[1:]) for name in symbols.values), default=-1)}"
    symbols.declare(name, value, least)
    return SymInt({(name,): 1}, value, symbols)


def parse_size(text: str) -> int:
    """Parse a size such as ``{4*s0+1}`` in the current environment, or a plain integer.

    Raises:
        SymbolicExpressionError: The text is no size, or no environment is entered.
    """
    if not text.startswith("{"):
        return int(text)
    symbols = current_env()
    if symbols is None:
        raise SymbolicExpressionError(
            f"{text} is a size of a general program, but no sizes are declared"
        )

    found = symbols.parsed.get(text)
    if found is None:
        found = symbols.parsed[text] = _evaluate(parse(text[1:-1], symbols.values), symbols)
    return found


def _evaluate(node: ast.expr, symbols: ShapeEnv) -> Any:
    if isinstance(node, ast.BinOp):
        return OPERATIONS[type(node.op)](
            _evaluate(node.left, symbols), _evaluate(node.right, symbols)
        )
    if isinstance(node, ast.UnaryOp):
        return -_evaluate(node.operand, symbols)
    if isinstance(node, ast.Name):
        return SymInt({(node.id,): 1}, symbols.values[node.id], symbols)
    return cast(ast.Constant, node).value


def solve_equalities(symbols: ShapeEnv) -> dict[str, str]:
    """Solve the equality guards for symbols.

    Returns:
        By eliminated symbol, a polynomial of the other symbols, or its hint as a number. No
        eliminated symbol occurs in another's polynomial.
    """
    found: dict[str, str] = {}
    for guard in symbols.equalities:
        difference = _evaluate(parse(substitute(guard.size, found), symbols.values), symbols)
        if not isinstance(difference, SymInt):
            continue
        polynomial = difference.polynomial
        atoms = [atom for monomial in polynomial for atom in monomial]
        names = [name for atom in atoms for name in _NAME.findall(atom)]
        linear = [
            m[0]
            for m, factor in polynomial.items()
            if len(m) == 1 and abs(factor) == 1 and names.count(m[0]) == 1 and m[0] in names
        ]
        name = max(linear or names, key=lambda name: int(name[1:]))
        solution: Polynomial = (
            {m: -polynomial[name,] * c for m, c in polynomial.items() if m != (name,)}
            if linear
            else {(): symbols.values[name]}
        )
        found = {
            other: substitute(text, {name: spell(solution)}) for other, text in found.items()
        } | {name: spell(solution)}
    return found


def free_symbols(text: str) -> set[str]:
    """Return the symbols that occur in a size's text."""
    return set(_NAME.findall(text))


def substitute(text: str, polynomials: Mapping[str, str]) -> str:
    """Replace symbols in a size's text by polynomials, e.g. those of `solve_equalities`."""
    return _NAME.sub(
        lambda name: f"({polynomials[name[0]]})" if name[0] in polynomials else name[0], text
    )
