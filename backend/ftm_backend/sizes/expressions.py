"""Sizes as texts: checked expressions, and functions that evaluate many of them at once."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from typing import Any, cast

__all__ = ["OPERATIONS", "SPELLED", "SizeError", "evaluator", "parse"]

SPELLED = r"\{[^{}]+\}"
"""A size within another text, as a regular expression."""


class SizeError(ValueError):
    """A text is no size, or a size is used where there are no symbols."""


OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv, ast.Mod: operator.mod,
}


class _Rounding(ast.NodeTransformer):
    """Makes the quotients of sizes round down, and takes the sizes in floating numbers out of their brackets."""

    def __init__(self, real: bool) -> None:
        self._real = real

    def visit_List(self, node: ast.List) -> ast.expr:
        return cast(ast.expr, _Rounding(False).visit(node.elts[0]))

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Div) and not self._real:
            node.op = ast.FloorDiv()
        return node


def parse(text: str, real: bool = False) -> ast.expr:
    """The expression of a text, refused if there is more in it than sums, products, quotients and remainders."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SizeError(f"{text!r} is no size: {error}") from None
    for node in nodes(tree):
        plain = isinstance(node, ast.Constant) and type(node.value) in ((int, float) if real else (int,))
        plain = plain or (real and isinstance(node, ast.List) and len(node.elts) == 1)
        known = isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS
        if not (plain or known or isinstance(node, ast.Name) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub))):
            raise SizeError(f"{text!r} is no size: {ast.unparse(node)!r} is neither a number, a symbol, nor one of + - * / %")
    return tree


def nodes(tree: ast.expr) -> Iterator[ast.expr]:
    """All expressions within one, itself among them."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def evaluator(texts: list[str], symbols: tuple[str, ...], real: bool = False) -> Callable[..., tuple[Any, ...]]:
    """A function of the symbols' values, in this order, that gives the numbers of all ``texts``.

    real: the texts are floating numbers, in which sizes stand in brackets and ``/`` is not rounded.

    Raises:
        SizeError: a text is no size of these symbols.
    """
    trees = [parse(text, real) for text in texts]
    for tree in trees:
        for node in nodes(tree):
            if isinstance(node, ast.Name) and node.id not in symbols:
                raise SizeError(f"there is no size {node.id!r}; there are {', '.join(symbols) or 'none'}")
    trees = [_Rounding(real).visit(tree) for tree in trees]
    arguments = ast.arguments([], [ast.arg(name) for name in symbols], None, [], [], None, [])
    body = ast.Expression(ast.Lambda(arguments, ast.Tuple(trees, ast.Load())))
    code = compile(ast.fix_missing_locations(body), "<sizes>", "eval")
    return cast(Callable[..., tuple[int, ...]], eval(code, {"__builtins__": {}}))
