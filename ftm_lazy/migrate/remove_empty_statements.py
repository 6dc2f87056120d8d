"""Removal of statement lines that have become empty, with their comments kept."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

GONE = cst.Expr(cst.Name("gone"))
"""Placeholder statement of an empty line, compared by identity.

libcst would drop a line without statements together with its comments.
"""


def lines_above(statement: cst.BaseStatement) -> Sequence[cst.EmptyLine]:
    """Return the comments and blank lines above a statement.

    Simple and compound statements have them, but their base class does not declare them.
    """
    if isinstance(statement, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
        return statement.leading_lines
    return []


def without_empty(
    body: Sequence[cst.BaseStatement],
) -> tuple[list[cst.BaseStatement], list[cst.EmptyLine]]:
    """Remove the lines whose statement is `GONE`.

    Returns:
        The remaining lines, each with the comments of removed lines before it; and the comments of
        removed lines at the end.
    """
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


class EmptyLineRemover(cst.CSTTransformer):
    """Removes empty lines from blocks."""

    def leave_IndentedBlock(  # noqa: N802
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        """Remove empty lines from a block."""
        body, footer = without_empty(updated_node.body)
        if len(body) == len(updated_node.body):
            return updated_node
        body = body or [cst.SimpleStatementLine([cst.Pass()])]
        return updated_node.with_changes(body=body, footer=[*footer, *updated_node.footer])
