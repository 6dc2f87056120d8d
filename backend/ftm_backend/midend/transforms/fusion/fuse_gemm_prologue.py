"""Rule ``fuse-gemm-prologue``: compute a matmul operand inside of the matmul's kernel.

Example: ``dw = x.T @ (a * dy + b * y)``, the gradient of a network's first weights behind batch
norm. Nothing else reads the operand in parentheses. Instead of a kernel that stores it, the matmul
loads blocks of ``dy`` and ``y`` and computes the block of the operand on chip.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.cost import bytes_of, traffic_cycles
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.midend.transforms.fusion.fusion_rule import (
    Candidate,
    Cycles,
    FusionContext,
    stores_one_tensor,
)

__all__ = ["candidates", "is_anchor"]


def is_anchor(kernel: Kernel) -> bool:
    """Return whether a loop nest stores one tensor of constant sizes."""
    return kernel.kind is KernelKind.LOOP_NEST and stores_one_tensor(kernel)


def candidates(context: FusionContext, kernel: Kernel) -> Iterator[Candidate]:
    """Yield the fusion with the matmul that alone reads ``kernel``, as its first operation."""
    (made,) = kernel.outputs
    readers = context.uses.readers(made)
    if made in context.uses.escapes or readers != context.users(kernel, KernelKind.CONTRACTION):
        return
    if len(readers) != 1 or readers[0].one_core:
        return
    (product,) = readers
    reads = [s for s in product.statements if made in s.reads()]
    if reads == product.statements[:1] and context.uses.are_intact(kernel.inputs, kernel, product):
        yield Candidate(
            (kernel, product),
            partial(_cycles, context, kernel, product),
            partial(_join, context, kernel, product),
        )


def _cycles(context: FusionContext, kernel: Kernel, product: Kernel) -> Cycles:
    """Return the cycles without and with the fusion; the kernel alone costs its traffic."""
    moved = traffic_cycles(context.machine, bytes_of((*kernel.inputs, *kernel.outputs)))
    apart = context.estimate(KernelKind.CONTRACTION, product.statements)
    together = context.estimate(
        KernelKind.CONTRACTION_WITH_PROLOGUE, [*kernel.statements, *product.statements]
    )
    return Cycles(apart + moved, together)


def _join(context: FusionContext, kernel: Kernel, product: Kernel) -> bool:
    statements = [*kernel.statements, *product.statements]
    fused = FusionGroup(KernelKind.CONTRACTION_WITH_PROLOGUE, statements)
    return context.rebuild({product: fused, kernel: None})
