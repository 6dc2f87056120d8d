"""Rule ``fuse-attention``: fuse the products and the softmax of attention into one kernel.

Example: ``softmax(q @ k.T + mask) @ v`` has a kernel for each product and one for the softmax,
which pass the scores through DDR. Fused, the scores stay in the scratchpad. Elementwise kernels
that only compute queries, keys, values or the mask for them join the kernel.

The kernels are fused if nothing else reads the values between them, and if a plan for the whole
fits on chip (``schedule/attention``). The gradients of attention are fused before
(``fuse_attention_backward``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ftm_backend.midend.analysis.use_def import homes, overwritten
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.attention.forward_tiling import AttentionTiling
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.midend.transforms.fusion.fusion_rule import (
    Candidate,
    Cycles,
    FusionContext,
    statements_of,
)

__all__ = ["candidates", "is_anchor"]


def is_anchor(kernel: Kernel) -> bool:
    """Return whether a kernel may be the second product of attention."""
    return kernel.kind is KernelKind.CONTRACTION


def candidates(context: FusionContext, last: Kernel) -> Iterator[Candidate]:
    """Yield the fusion of ``last`` with the kernels of its scores and of their producers."""
    can_join = partial(_can_join, context)
    for softmax in _makers(context, last, KernelKind.LOOP_NEST):
        for scores in _makers(context, softmax, KernelKind.CONTRACTION):
            members = [scores, softmax, last]
            if all(_is_private(context, k, members) for k in members[:-1]) and can_join(members):
                members = context.with_elementwise_producers(members, can_join)
                yield Candidate(
                    tuple(members),
                    partial(_cycles, context, members),
                    partial(_join, context, members),
                )


def _makers(context: FusionContext, kernel: Kernel, kind: KernelKind) -> list[Kernel]:
    """Return the kernels of one kind that compute an input of ``kernel``."""
    found = dict.fromkeys(map(context.uses.computing, kernel.inputs))
    return [
        k
        for k in found
        if k is not None and k is not kernel and k.kind == kind and k.repeat is None
    ]


def _is_private(context: FusionContext, kernel: Kernel, members: Sequence[Kernel]) -> bool:
    """Return whether only ``members`` read what a kernel stores, and nothing is in place."""
    return all(tie is None for tie in kernel.ties) and context.uses.is_private(kernel, members)


def _plan(context: FusionContext, members: Sequence[Kernel]) -> AttentionTiling | None:
    found = context.plan(KernelKind.ATTENTION, statements_of(members))
    return found if isinstance(found, AttentionTiling) else None


def _can_join(context: FusionContext, members: Sequence[Kernel]) -> bool:
    """Return whether the kernels are an attention that can be one kernel.

    It must fit on chip, and no kernel between them may overwrite their inputs.
    """
    if _plan(context, members) is None:
        return False
    read = [value for kernel in members for value in kernel.inputs]
    first = min(members, key=context.module.kernels.index)
    others = context.uses.between(first, members[-1])[:-1]
    return overwritten(others).isdisjoint(homes(read))


def _cycles(context: FusionContext, members: Sequence[Kernel]) -> Cycles:
    fused = context.estimate(KernelKind.ATTENTION, statements_of(members))
    return Cycles(context.cycles(members), fused + context.machine.barrier_cycles)


def _join(context: FusionContext, members: Sequence[Kernel]) -> bool:
    *others, last = members
    plan = _plan(context, members)
    one_core = plan is not None and plan.units == 1
    fused = FusionGroup(KernelKind.ATTENTION, statements_of(members), one_core)
    return context.rebuild({**dict.fromkeys(others), last: fused})
