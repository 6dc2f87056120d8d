"""Lowering of attention's backward: slices of keys stay on chip (`backward_steps`).

A program runs on any number of cores. On fewer cores than a planned group has, one core computes
all slices of the group, one after the other.
"""

from __future__ import annotations

from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.lowering.attention.backward_steps import BackwardSteps
from ftm_backend.midend.lowering.attention.backward_workspace import (
    BackwardSizes,
    exchange_buffers,
    round_buffers,
)
from ftm_backend.midend.schedule.attention.backward_tiling import backward_plan
from ftm_backend.midend.schedule.attention.match_backward import (
    AttentionBackwardPattern,
    match_attention_backward,
)

__all__ = ["lower", "workspace"]


def workspace(kernel: Kernel) -> list[tuple[str, int]]:
    """Return the DDR buffers of a kernel as (dtype, elements)."""
    pattern, sizes = _planned(kernel)
    waiting = round_buffers(pattern, sizes) or round_buffers(pattern, sizes.one_core())
    return exchange_buffers(pattern, sizes) + waiting


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Emit the kernel's function body at the insertion point.

    Raises:
        ValueError: The kernel's statements are no backward of attention that fits on chip.
    """
    pattern, sizes = _planned(kernel)
    count = len(exchange_buffers(pattern, sizes))
    exchanged, waiting = kernel.workspaces[:count], kernel.workspaces[count:]
    if sizes.cores == 1:
        BackwardSteps(pattern, b, sizes, exchanged, waiting).build(kernel)
        return
    _, cores = kernel.core(b)
    with b.if_(b.compare("lt", sizes.cores - 1, cores)):
        BackwardSteps(pattern, b, sizes, exchanged, waiting).build(kernel)
    with b.if_(b.compare("lt", cores, sizes.cores)):
        BackwardSteps(pattern, b, sizes.one_core(), [], waiting).build(kernel)


def _planned(kernel: Kernel) -> tuple[AttentionBackwardPattern, BackwardSizes]:
    pattern = match_attention_backward(kernel.statements)
    if pattern is None:
        raise ValueError(
            "statements of an attention-backward kernel are no gradients of an attention"
        )
    plan = backward_plan(pattern, kernel.machine, 1 if kernel.one_core else kernel.machine.cores)
    if plan is None:
        raise ValueError("gradients of an attention do not fit on chip")
    return pattern, plan.sizes
