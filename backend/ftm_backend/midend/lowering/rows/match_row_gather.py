"""Pattern of a gather of whole rows: ``table[ids[i], j]`` with contiguous elements along ``j``.

The flat element index is a sum. Along the *column* loops, the terms that depend on data are
constant, and the other terms step through consecutive elements. The rest is the address of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Node, Operand, Statement, Value, walk
from ftm_backend.midend.lowering.gemm.block_transfers import nodes_above
from ftm_backend.symbolic import guarded_equal, size_hint

__all__ = ["RowGather", "match_gather"]

SHORTEST_ROW = 8
"""Shortest rows for which DMA's indexed transfers pay over gathers of single elements in a map."""


@dataclass(frozen=True, eq=False)
class RowGather:
    """An elementwise statement whose only gather reads rows.

    Row ``r`` starts at element ``base + row_stride * identity(r)`` of ``table``. ``identity`` is a
    node over the row loops. Within a row, ``columns`` step through consecutive elements.
    """

    statement: Statement
    gather: Node
    table: Value
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    identity: Node
    row_stride: int
    base: int

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Tensors that the body loads besides the table and the row indices."""
        return tuple(n.payload for n in _body(self.statement, self.gather) if n.op == "in")

    @property
    def positions(self) -> tuple[Affine, ...]:
        """Index functions in the body and in the row indices."""
        inside = [*_body(self.statement, self.gather), *walk([self.identity])]
        return tuple(dict.fromkeys(n.payload for n in inside if n.op == "index"))


def _body(statement: Statement, gather: Node) -> list[Node]:
    """Return the nodes of the bodies without those of the gather's index."""
    return nodes_above([result.yields for result in statement.results], {id(gather)})


def _terms(node: Node) -> list[Node]:
    if node.op == "arith.addi":
        return [term for operand in node.operands for term in _terms(operand)]
    return [node]


def _depends(nodes: Sequence[Node], loop: int) -> bool:
    """Whether any of ``nodes`` depends on ``loop``."""
    for node in walk(nodes):
        index = (
            node.payload.index if node.op == "in" else node.payload if node.op == "index" else None
        )
        if index is not None and index.coeffs[loop]:
            return True
    return False


def match_gather(statement: Statement) -> RowGather | None:
    """Match a gather of rows; None if the statement is something else."""
    if statement.is_reduction or len(statement.gathers) != 1 or 0 in statement.loops:
        return None
    gathers = [n for n in walk(r.yields for r in statement.results) if n.op == "gather"]
    if len(gathers) != 1:
        return None
    (gather,) = gathers
    address, data = _address(gather, len(statement.loops))
    if not data:
        return None
    loops = [k for k, extent in enumerate(statement.loops) if not guarded_equal(extent, 1)]
    columns, length = _columns(statement, loops, address, data)
    if length < SHORTEST_ROW:
        return None
    rows = [k for k in loops if k not in columns]
    index = statement.results[0].index
    rows.sort(key=lambda k: abs(index.coeffs[k]), reverse=True)
    row_address = Affine(0, tuple(0 if k in columns else c for k, c in enumerate(address.coeffs)))
    identity, stride = _row_number(data, row_address)
    return RowGather(
        statement,
        gather,
        gather.payload,
        tuple(rows),
        tuple(columns),
        identity,
        stride,
        address.const,
    )


def _address(gather: Node, rank: int) -> tuple[Affine, list[Node]]:
    """Return the part of a gather's address that is affine in the loops, and the computed terms."""
    address, data = Affine.constant(0, rank), []
    for term in _terms(gather.operands[0]):
        if term.op == "index":
            address = address + term.payload
        elif term.op == "constant":
            address = address.shifted(term.payload)
        else:
            data.append(term)
    return address, data


def _columns(
    statement: Statement, loops: list[int], address: Affine, data: list[Node]
) -> tuple[list[int], int]:
    """Return the loops along a row that lies in one piece, outermost first, and its length."""
    columns: list[int] = []
    length = 1
    # In the order of the size hints: the order of a loop of extent 1 is arbitrary, and a column's
    # stride is the product of the previous columns' extents.
    for loop in sorted(loops, key=lambda k: size_hint(address.coeffs[k])):
        if guarded_equal(address.coeffs[loop], length) and not _depends(data, loop):
            columns.insert(0, loop)
            length *= statement.loops[loop]
    return columns, length


def _row_number(data: list[Node], row_address: Affine) -> tuple[Node, int]:
    """Return the computed part of the address, and its factor."""
    if len(data) == 1 and row_address.is_constant:
        node = data[0]
        if node.op == "arith.muli" and node.operands[1].op == "constant":
            return node.operands[0], node.operands[1].payload
        return node, 1
    total = data[0]
    for term in data[1:]:
        total = Node("arith.addi", "i64", (total, term), {})
    if not row_address.is_constant:
        total = Node("arith.addi", "i64", (total, Node("index", "i64", payload=row_address)), {})
    return total, 1
