"""Rule ``fuse-attention-backward``: fuse the gradients of attention into one kernel.

The search starts at the kernel that computes the gradient of the scores. It follows tensors that
have one element for each score to the kernels around it. The fused kernel recomputes scores and
softmax if other kernels need them too, as the forward pass does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import Value
from ftm_backend.midend.analysis.use_def import homes
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.midend.transforms.fusion.fusion_rule import (
    Candidate,
    Cycles,
    FusionContext,
    statements_of,
)

__all__ = ["candidates", "is_anchor"]

_MOST = 16
"""Largest number of connected kernels that the search considers."""

Order = tuple[list[Kernel], list[Kernel]]
"""The kernels before the fused one, and those after it."""


def is_anchor(kernel: Kernel) -> bool:
    """Return whether a kernel may compute the gradient of the scores."""
    return kernel.kind is KernelKind.LOOP_NEST


def candidates(context: FusionContext, slopes: Kernel) -> Iterator[Candidate]:
    """Yield fusions of the kernels around ``slopes``, if it computes the gradient of the scores.

    Two products read such a gradient: those for the gradients of queries and keys. Only the scores
    and their softmax may be computed twice.
    """
    can_join = partial(_can_join, context)
    for value in slopes.outputs:
        readers = {k for k in context.uses.readers(value) if k.kind is KernelKind.CONTRACTION}
        for makers, lasts in _gradients(context, slopes, value) if len(readers) == 2 else ():
            members = _needed(context, lasts, makers)
            if not readers.issubset(lasts) or not can_join(members):
                continue
            members = context.with_elementwise_producers(members, can_join)
            order, shared = _order(context, members, lasts), _shared(context, members, lasts)
            products = sum(k.kind is KernelKind.CONTRACTION for k in shared)
            if order is not None and slopes not in shared and products <= 1:
                yield Candidate(
                    tuple(members),
                    partial(_cycles, context, members, shared),
                    partial(_join, context, members, lasts, shared, order),
                )


def _gradients(
    context: FusionContext, slopes: Kernel, value: Value
) -> Iterator[tuple[list[Kernel], Sequence[Kernel]]]:
    """Yield the kernels around ``slopes``, and three that may compute the gradients.

    The softmax must depend on the product of the scores alone.
    """
    size = volume(value.shape)
    near = _near(context, slopes, size)
    makers = [
        k
        for k in near
        if any(volume(v.shape) == size and context.uses.readers(v) for v in k.outputs)
    ]
    lasts = [k for k in near if k not in makers and k.kind is KernelKind.CONTRACTION]
    has_maximum = any(r.combine == "max" for s in statements_of(makers) for r in s.results)
    products = sum(k.kind is KernelKind.CONTRACTION for k in _needed(context, [slopes], makers))
    if has_maximum and products == 2:
        # products of the forward pass come first
        for three in combinations(reversed(lasts), 3):
            yield makers, three


def _near(context: FusionContext, kernel: Kernel, size: int) -> list[Kernel]:
    """Return the kernels connected to ``kernel`` by tensors of ``size`` elements, in order.

    Empty if there are more than `_MOST`.
    """
    uses = context.uses
    found, queue = {kernel}, [kernel]
    while queue and len(found) <= _MOST:
        here = queue.pop()
        for value in (*here.inputs, *here.outputs):
            if value in uses.producer and volume(value.shape) == size:
                connected = (uses.producer[value], *uses.readers(value))
                neighbors = [k for k in connected if k not in found and _can_take_part(k)]
                found.update(neighbors)
                queue += neighbors
    return [k for k in context.module.kernels if k in found] if len(found) <= _MOST else []


def _can_take_part(kernel: Kernel) -> bool:
    """Return whether a kernel outside of loops may be a part of attention's gradients."""
    return kernel.repeat is None and kernel.kind in (KernelKind.LOOP_NEST, KernelKind.CONTRACTION)


def _needed(
    context: FusionContext, lasts: Sequence[Kernel], makers: Sequence[Kernel]
) -> list[Kernel]:
    """Return ``lasts`` and those of ``makers`` that they depend on, in order."""
    found, queue = set(lasts), list(lasts)
    while queue:
        before = {context.uses.producer.get(value) for value in queue.pop().inputs}
        new = [k for k in makers if k in before and k not in found]
        found.update(new)
        queue += new
    return [k for k in context.module.kernels if k in found]


def _can_join(context: FusionContext, members: Sequence[Kernel]) -> bool:
    """Return whether the members are the gradients of an attention that fits on chip."""
    is_tied = any(tie is not None for kernel in members for tie in kernel.ties)
    return (
        not is_tied
        and context.plan(KernelKind.ATTENTION_BACKWARD, statements_of(members)) is not None
    )


def _cycles(context: FusionContext, members: Sequence[Kernel], shared: set[Kernel]) -> Cycles:
    fused = context.estimate(KernelKind.ATTENTION_BACKWARD, statements_of(members))
    replaced = [kernel for kernel in members if kernel not in shared]
    return Cycles(context.cycles(replaced), fused + context.machine.barrier_cycles)


def _shared(
    context: FusionContext, members: Sequence[Kernel], lasts: Sequence[Kernel]
) -> set[Kernel]:
    """Return the members that must also stay, because other kernels read their results."""
    shared: set[Kernel] = set()
    for kernel in reversed(members):
        inside = [k for k in members if k not in shared]
        if kernel not in lasts and not context.uses.is_private(kernel, inside):
            shared.add(kernel)
    return shared


def _order(
    context: FusionContext, members: Sequence[Kernel], lasts: Sequence[Kernel]
) -> Order | None:
    """Return the kernels before the fused one and those after it; None on a cycle."""
    kernels = context.module.kernels
    first, end = min(map(kernels.index, lasts)), max(map(kernels.index, lasts)) + 1
    early, late, made = list(kernels[:first]), [], {v for k in lasts for v in k.outputs}
    for kernel in kernels[first:end]:
        if kernel in lasts:
            continue
        if made.isdisjoint(homes(kernel.inputs)):
            early.append(kernel)
        elif kernel in members:
            return None
        else:
            late.append(kernel)
            made.update(kernel.outputs)
    ties = [t for k in kernels[min(map(kernels.index, members)) : end] for t in k.ties]
    return (early, [*late, *kernels[end:]]) if all(t is None for t in ties) else None


def _join(
    context: FusionContext,
    members: Sequence[Kernel],
    lasts: Sequence[Kernel],
    shared: set[Kernel],
    order: Order,
) -> bool:
    """Replace ``members`` by the fused kernel; those in ``shared`` stay as well."""
    before, after = ([k for k in side if k not in members or k in shared] for side in order)
    home, *others = lasts
    context.module.kernels = [*before, home, *others, *after]
    groups = {k: FusionGroup(k.kind, k.statements, k.one_core) for k in shared}
    fused = FusionGroup(KernelKind.ATTENTION_BACKWARD, statements_of(members))
    return context.rebuild({**groups, **dict.fromkeys(others), home: fused})
