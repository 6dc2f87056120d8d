"""What is checked is checked under ``python -O`` as well: ``assert`` tells the type checker what
holds, and refuses nothing. Nothing else depends on the option."""

from __future__ import annotations

import ast

import pytest

from layers import dependencies

SOURCES = sorted(
    path
    for folder in ("ftm_lazy", "backend/ftm_backend")
    for path in (dependencies.ROOT / folder).rglob("*.py")
)


def narrows(test: ast.expr) -> bool:
    """Whether a condition is about types alone: ``is not None``, ``isinstance``, and such
    together."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return all(narrows(part) for part in test.values)
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], ast.IsNot)
    return (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and test.func.id == "isinstance"
    )


def test_asserts_only_narrow_types() -> None:
    wrong = [
        f"{path.relative_to(dependencies.ROOT)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Assert) and not narrows(node.test))
        or (isinstance(node, ast.Name) and node.id == "__debug__")
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("x is not None", True),
        ("isinstance(x, int) and y is not None", True),
        ("x > 0", False),
        ("not x", False),
        ("x is not None or y", False),
    ],
)
def test_conditions_are_told_apart(text: str, right: bool) -> None:
    assert narrows(ast.parse(text, mode="eval").body) == right
