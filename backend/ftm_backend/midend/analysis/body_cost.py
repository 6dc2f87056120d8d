"""Analysis: size and cycles per vector of an elementwise body, before it is lowered to a map."""

from __future__ import annotations

from collections.abc import Iterable

from ftm_backend.ir.linalg.function import Node, Statement, walk
from ftm_backend.target import op_costs
from ftm_backend.target.element_types import BY_TOKEN
from ftm_backend.target.instruction_table import STRIPS
from ftm_backend.target.presets import MachineParameters

__all__ = ["MOST_OPERATIONS", "interval", "operations"]

MOST_OPERATIONS = 4096
"""Most element operations of a fused body.

A longer body is bound by compute, so that fusion saves nothing, and it compiles slowly. Map rules
emit at most 13 lines per operation, so a body of this size does not run out of register names.
"""

_ROWS = {element: row for row in STRIPS for element in row.elements}


def interval(machine: MachineParameters, nodes: Iterable[Node], tiles: int) -> float:
    """Return the initiation interval of a body: cycles per vector.

    Operations that have no row in the instruction table (comparisons, conversions) count as a
    multiply-add. Additions count even if they will be fused into a multiply-add.

    Args:
        machine: The target.
        nodes: Results of the body.
        tiles: Number of tiles that it loads and stores.
    """
    slot_uses: dict[str, float] = {"VLDST": float(tiles)}
    for node in walk(list(nodes)):
        if not node.op.startswith(("arith.", "math.")):
            continue
        row, kind = _ROWS.get(node.op), BY_TOKEN[node.dtype].suffix
        has_cost = row is not None and kind in row.types
        for slot, count in (
            op_costs.cost(row.name, kind).slots if row is not None and has_cost else (("VMAC", 1),)
        ):
            slot_uses[slot] = slot_uses.get(slot, 0.0) + count
    products = slot_uses.get("VMAC", 0.0) + slot_uses.get("VMAC1", 0.0)
    return max(
        products / machine.fma_units,
        slot_uses.get("VMAC1", 0.0),
        slot_uses.get("VIEU", 0.0),
        slot_uses["VLDST"] / machine.vector_memory_ports,
        1.0,
    )


def operations(statements: Iterable[Statement]) -> int:
    """Return the element operations of a body that computes all results of the statements."""
    return sum(len(walk(result.yields for result in statement.results)) for statement in statements)
