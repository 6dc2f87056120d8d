"""Pass ``lower-transposes``: a kernel that does nothing but copy columns to rows turns tiles on
chip, see ``turn``."""

from __future__ import annotations

from ftm_backend.midend.kernel_ir.kernel import KernelModule
from ftm_backend.midend.lowering.loop_nest.transpose import match_transpose
from ftm_backend.target.presets import MachineParameters

__all__ = ["lower_transposes"]


def lower_transposes(grouped: KernelModule, machine: MachineParameters) -> KernelModule:
    """``grouped`` with these kernels marked; small ones stay what they are."""
    for kernel in grouped.kernels:
        if kernel.kind != "nest" or len(kernel.statements) != 1:
            continue
        (statement,) = kernel.statements
        stores = [store.index for result in statement.results for store in result.stores]
        if match_transpose(statement, machine, stores) is not None:
            kernel.kind, kernel.domain = "turn", None
    return grouped
