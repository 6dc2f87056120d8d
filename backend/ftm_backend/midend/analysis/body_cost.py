"""The size of a body of elements, and what it costs for each vector, by the instruction table,
before it is written as a map."""

from __future__ import annotations

from collections.abc import Iterable

from ftm_backend.ir.linalg.function import Node, Statement, walk
from ftm_backend.target import op_costs
from ftm_backend.target.element_types import BY_TOKEN
from ftm_backend.target.instruction_table import STRIPS
from ftm_backend.target.presets import MachineParameters

__all__ = ["MOST_OPERATIONS", "interval", "operations"]

MOST_OPERATIONS = 4096
"""Element operations of a body that fusion may make. A longer one is bound by computing, so that
fusing saves no time, and compiling it takes long. The map rules write at most 13 lines for an
operation, so such a body fits the names of a map's registers."""

_ROWS = {element: row for row in STRIPS for element in row.elements}


def interval(machine: MachineParameters, nodes: Iterable[Node], tiles: int) -> float:
    """Cycles for each vector of ``nodes``, which read and write so many tiles of their extents.

    What is no operation of the table (a comparison, a conversion) is taken as one multiply-add;
    sums that become part of one are counted.
    """
    taken: dict[str, float] = {"VLDST": float(tiles)}
    for node in walk(list(nodes)):
        if not node.op.startswith(("arith.", "math.")):
            continue
        row, kind = _ROWS.get(node.op), BY_TOKEN[node.dtype].suffix
        known = row is not None and kind in row.types
        for slot, count in (
            op_costs.cost(row.name, kind).slots if row is not None and known else (("VMAC", 1),)
        ):
            taken[slot] = taken.get(slot, 0.0) + count
    products = taken.get("VMAC", 0.0) + taken.get("VMAC1", 0.0)
    return max(
        products / machine.fma_units,
        taken.get("VMAC1", 0.0),
        taken.get("VIEU", 0.0),
        taken["VLDST"] / machine.vector_memory_ports,
        1.0,
    )


def operations(statements: Iterable[Statement]) -> int:
    """Element operations of the body that computes all results of the statements."""
    return sum(len(walk(result.yields for result in statement.results)) for statement in statements)
