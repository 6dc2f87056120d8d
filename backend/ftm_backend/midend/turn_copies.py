"""Pass ``turn-copies``: a kernel that does nothing but copy columns to rows turns tiles on chip, see ``turn``."""

from __future__ import annotations

from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.kernel import Grouped
from ftm_backend.midend.nests.turn import match_turn

__all__ = ["turn_copies"]


def turn_copies(grouped: Grouped, machine: MachineParameters) -> Grouped:
    """``grouped`` with these kernels marked; small ones stay what they are."""
    for kernel in grouped.kernels:
        if kernel.kind != "nest" or len(kernel.statements) != 1:
            continue
        (statement,) = kernel.statements
        stores = [store.index for result in statement.results for store in result.stores]
        if match_turn(statement, machine, stores) is not None:
            kernel.kind, kernel.domain = "turn", None
    return grouped
