"""Pass ``lower-transposes``: transpose tiles on chip in kernels that only copy columns to rows.

Marks them with kind ``turn``, see ``lowering/loop_nest/transpose.py``. DMA would move such a copy
element by element.
"""

from __future__ import annotations

from ftm_backend.midend.kernel_ir.kernel import KernelModule
from ftm_backend.midend.lowering.loop_nest.transpose import match_transpose
from ftm_backend.target.presets import MachineParameters

__all__ = ["lower_transposes"]


def lower_transposes(module: KernelModule, machine: MachineParameters) -> KernelModule:
    """Mark the kernels of ``module`` that are transposes; small ones stay copies."""
    for kernel in module.kernels:
        if kernel.kind != "nest" or len(kernel.statements) != 1:
            continue
        (statement,) = kernel.statements
        stores = [store.index for result in statement.results for store in result.stores]
        if match_transpose(statement, machine, stores) is not None:
            kernel.kind, kernel.domain = "turn", None
    return module
