"""Rewriting of torch_xla's imports: remove unused ones, import others from ftm_lazy.torch_xla."""

from __future__ import annotations

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import ParentNodeProvider, QualifiedNameProvider, QualifiedNameSource

from ftm_lazy.migrate.inserted_helpers import HELPERS
from ftm_lazy.migrate.remove_empty_statements import (
    GONE,
    EmptyLineRemover,
    lines_above,
    without_empty,
)


class NameUses(cst.CSTVisitor):
    """Collects the local names, such as ``xm``, of torch_xla's modules that are still used."""

    METADATA_DEPENDENCIES = (QualifiedNameProvider, ParentNodeProvider)

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def visit_Import(self, node: cst.Import) -> bool:  # noqa: N802
        """Skip imports, which are not uses."""
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:  # noqa: N802
        """Skip imports, which are not uses."""
        return False

    def visit_Name(self, node: cst.Name) -> None:  # noqa: N802
        """Add a name that torch_xla's import defined."""
        parent = self.get_metadata(ParentNodeProvider, node)
        if isinstance(parent, cst.Attribute) and parent.attr is node:
            return
        for found in self.get_metadata(QualifiedNameProvider, node, ()):
            if (
                found.source is QualifiedNameSource.IMPORT
                and found.name.partition(".")[0] == "torch_xla"
            ):
                self.names.add(node.value)


class ImportRewriter(EmptyLineRemover):
    """Rewrites imports and inserts helpers.

    Args:
        used: Local names of torch_xla's modules that are still used.
        required: Modules that the new code uses.
        helpers: Names of the helpers (`inserted_helpers.HELPERS`) to insert, in order.
    """

    def __init__(self, used: set[str], required: list[str], helpers: list[str]) -> None:
        super().__init__()
        self._used, self._required, self._helpers = used, required, helpers

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        """Rewrite a line that is one import."""
        statement = updated_node.body[0]
        if len(updated_node.body) != 1 or not isinstance(statement, (cst.Import, cst.ImportFrom)):
            return updated_node
        if isinstance(statement, cst.Import):
            replaced = self._import(statement)
        else:
            replaced = self._import_from(statement)
        if replaced is None:
            return updated_node
        if replaced:
            first, *others = [updated_node.with_changes(body=[each]) for each in replaced]
            return cst.FlattenSentinel(
                [first, *(each.with_changes(leading_lines=[]) for each in others)]
            )
        return updated_node.with_changes(body=[GONE])

    def _import(self, statement: cst.Import) -> list[cst.BaseSmallStatement] | None:
        """Return the statements that replace an ``import``; None keeps it."""
        kept, moved, touched = [], [], False
        for alias in statement.names:
            name = alias.evaluated_name
            if name.partition(".")[0] != "torch_xla":
                kept.append(alias)
                continue
            touched = True
            local = alias.evaluated_alias or "torch_xla"
            if local not in self._used:
                continue
            if alias.asname or name == "torch_xla":
                moved.append(f"import ftm_lazy.{name} as {local}")
            else:
                moved += ["import ftm_lazy.torch_xla as torch_xla", f"import ftm_lazy.{name}"]
        if not touched:
            return None
        lines = (cst.parse_statement(text) for text in dict.fromkeys(moved))
        result = [
            small
            for line in lines
            if isinstance(line, cst.SimpleStatementLine)
            for small in line.body
        ]
        if kept:
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            result.insert(0, statement.with_changes(names=kept))
        return result

    def _import_from(self, statement: cst.ImportFrom) -> list[cst.BaseSmallStatement] | None:
        """Return the statements that replace a ``from ... import``; None keeps it."""
        name = get_full_name_for_node(statement.module) if statement.module else ""
        if statement.relative or (name or "").partition(".")[0] != "torch_xla":
            return None
        module = cst.parse_expression(f"ftm_lazy.{name}")
        if isinstance(statement.names, cst.ImportStar):
            return [statement.with_changes(module=module)]
        kept = [
            alias
            for alias in statement.names
            if (alias.evaluated_alias or alias.evaluated_name) in self._used
        ]
        if not kept:
            return []
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return [statement.with_changes(module=module, names=kept)]

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:  # noqa: N802
        """Insert missing imports and helpers after the module's last top-level import."""
        body, footer = without_empty(updated_node.body)
        if len(body) != len(updated_node.body):
            updated_node = updated_node.with_changes(
                body=body, footer=[*footer, *updated_node.footer]
            )
        missing = [name for name in self._required if not _imports(updated_node, name)]
        if not missing and not self._helpers:
            return updated_node
        position = 1 + max(
            (
                i
                for i, each in enumerate(body)
                if _is_import(each) or (i == 0 and _is_docstring(each))
            ),
            default=-1,
        )
        added: list[cst.BaseStatement] = [
            cst.parse_statement(f"import {name}\n") for name in missing
        ]
        newline = updated_node.default_newline
        for name in self._helpers:
            definition = cst.parse_module(
                HELPERS[name][1].lstrip("\n").replace("\n", newline)
            ).body[0]
            added.append(definition.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * 2))
        if self._helpers and position < len(body):
            follower = body[position]
            blank = [line for line in lines_above(follower) if not line.comment]
            body[position] = follower.with_changes(
                leading_lines=[
                    *[cst.EmptyLine(indent=False)] * max(0, 2 - len(blank)),
                    *lines_above(follower),
                ]
            )
        return updated_node.with_changes(body=[*body[:position], *added, *body[position:]])


def _is_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and any(
        isinstance(each, (cst.Import, cst.ImportFrom)) for each in statement.body
    )


def _is_docstring(statement: cst.CSTNode) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )


def _imports(module: cst.Module, name: str) -> bool:
    """Return whether the module has a top-level ``import`` of `name` or of a submodule."""
    for statement in module.body:
        if isinstance(statement, cst.SimpleStatementLine):
            for each in statement.body:
                if isinstance(each, cst.Import) and any(
                    f"{get_full_name_for_node(alias.name)}.".startswith(f"{name}.")
                    and alias.asname is None
                    for alias in each.names
                ):
                    return True
    return False
