"""Lowering of attention's backward: one pass with resident keys, or several passes.

With resident keys (``backward_resident_keys``), a group of cores holds all keys of a batch entry.
Otherwise passes (``backward_multipass``) follow each other, with a barrier between them.
"""

from __future__ import annotations

from math import prod

from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.lowering.attention.backward_exchange import group_workspace
from ftm_backend.midend.lowering.attention.backward_multipass import passes_of
from ftm_backend.midend.lowering.attention.backward_resident_keys import ResidentKeysPass
from ftm_backend.midend.schedule.attention.backward_multipass_tiling import (
    MultipassTiling,
    backward_plan,
)
from ftm_backend.midend.schedule.attention.match_backward import (
    AttentionBackwardPattern,
    match_attention_backward,
)

__all__ = ["lower", "workspace"]


def workspace(kernel: Kernel) -> list[tuple[str, int]]:
    """Return the DDR buffers of a kernel as (dtype, elements).

    They hold row statistics of the first pass for later passes, and what cores of a group exchange.
    """
    pattern, plan = _planned(kernel)
    shared = [] if plan.group is None else group_workspace(pattern, plan.group)
    return (
        shared
        if _is_single_core_group(plan)
        else [(pattern.accumulator, prod(pattern.extents[:-3]))] * len(pattern.known) + shared
    )


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Emit the kernel's function body at the insertion point.

    Raises:
        ValueError: The kernel's statements are no backward of attention that fits on chip.
    """
    pattern, plan = _planned(kernel)
    if plan.group is None:
        _passes(kernel, pattern, plan, b)
    elif _is_single_core_group(plan):
        ResidentKeysPass(pattern, b, plan.group, []).build(kernel)
    else:
        _, cores = kernel.core(b)
        with b.if_(b.compare("lt", plan.group.cores - 1, cores)):
            ResidentKeysPass(pattern, b, plan.group, kernel.workspaces[len(pattern.known) :]).build(
                kernel
            )
        with b.if_(b.compare("lt", cores, plan.group.cores)):
            _passes(kernel, pattern, plan, b)


def _is_single_core_group(plan: MultipassTiling) -> bool:
    """Whether any number of cores is enough for a group."""
    return plan.group is not None and plan.group.cores == 1


def _passes(
    kernel: Kernel, pattern: AttentionBackwardPattern, plan: MultipassTiling, b: TileBuilder
) -> None:
    for number, (pass_type, sizes) in enumerate(zip(passes_of(pattern), plan.sizes, strict=True)):
        if number:
            b.barrier()
        pass_type(pattern, b, sizes, kernel.workspaces[: len(pattern.known)]).build(kernel)


def _planned(kernel: Kernel) -> tuple[AttentionBackwardPattern, MultipassTiling]:
    pattern = match_attention_backward(kernel.statements)
    if pattern is None:
        raise ValueError(
            "statements of an attention-backward kernel are no gradients of an attention"
        )
    plan = backward_plan(pattern, kernel.machine, 1 if kernel.one_core else kernel.machine.cores)
    if plan is None:
        raise ValueError("gradients of an attention do not fit on chip")
    return pattern, plan
