"""Lines of statements, without those that have none any more."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

__all__ = ["GONE", "without_empty"]

GONE = cst.Expr(cst.Name("gone"))
"""The only statement of a line whose statements have all gone; libcst drops lines without any, and
their comments. It is known by its identity."""


def lines_above(statement: cst.BaseStatement) -> Sequence[cst.EmptyLine]:
    """Comments and blank lines above a statement: simple and compound ones have them, their common
    class does not say so."""
    if isinstance(statement, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
        return statement.leading_lines
    return []


def without_empty(
    body: Sequence[cst.BaseStatement],
) -> tuple[list[cst.BaseStatement], list[cst.EmptyLine]]:
    """`body` without the lines that have no statement any more; comments above them stay, above
    what follows."""
    kept: list[cst.BaseStatement] = []
    above: list[cst.EmptyLine] = []
    for statement in body:
        if isinstance(statement, cst.SimpleStatementLine) and statement.body[0] is GONE:
            above += [line for line in statement.leading_lines if line.comment]
            continue
        if above:
            statement = statement.with_changes(leading_lines=[*above, *lines_above(statement)])
            above = []
        kept.append(statement)
    return kept, above
