"""Lowering of contraction kernels: matrix products, convolutions and their gradients.

The first statements of a kernel may compute an operand (its prologue), others the epilogue or sums
of the stored blocks. The schedule selects the loops around them.
"""

from __future__ import annotations

from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.lowering.gemm.deferred_epilogue import DeferredEpilogue
from ftm_backend.midend.lowering.gemm.emitter import ContractionEmitter
from ftm_backend.midend.lowering.gemm.nested_loops import NestedLoops
from ftm_backend.midend.lowering.gemm.panel_loop import PanelLoop
from ftm_backend.midend.lowering.gemm.split_k import SplitK
from ftm_backend.midend.schedule.gemm.kernel_schedule import scheduled
from ftm_backend.midend.schedule.gemm.schedule import Schedule

__all__ = ["lower"]


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Emit the kernel's function body at the insertion point.

    Raises:
        ValueError: The kernel is not such a contraction, or does not fit the scratchpads.
    """
    roles = scheduled(kernel)
    if roles is None:
        raise ValueError(
            f"{kernel.name}: no blocks of its contraction"
            f" fit the scratchpads of machine {kernel.machine.name!r}"
        )
    if roles.plan is not None:
        _emitter(roles.plan)(kernel, roles, b).build()


def _emitter(plan: Schedule) -> type[ContractionEmitter]:
    """Return the class that emits a schedule's loops."""
    if plan.depth == 1:
        return NestedLoops
    if plan.k_groups > 1:
        return SplitK
    return DeferredEpilogue if plan.deferred_chunks else PanelLoop
