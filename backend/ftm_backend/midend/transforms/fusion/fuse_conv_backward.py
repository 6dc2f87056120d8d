"""Rule ``fuse-conv-backward``: compute both gradients of a convolution, and the update, at once.

``dx = conv_transpose(dy, w)``, ``dw = x * dy`` and ``w' = w - lr * dw``: the first two read ``dy``,
and the first and the last read ``w``. If the weights are most of the traffic, one kernel reads them
once instead of twice, and the products for ``dx`` run during the transfers for ``dw``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ftm_backend.midend.analysis.use_def import homes
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.midend.transforms.fusion.fusion_rule import Candidate, Cycles, FusionContext

__all__ = ["candidates", "is_anchor"]


def is_anchor(kernel: Kernel) -> bool:
    """Return whether a kernel computes the gradient of a convolution's input."""
    return kernel.kind is KernelKind.COL2IM and not kernel.one_core


def candidates(context: FusionContext, grad_input: Kernel) -> Iterator[Candidate]:
    """Yield fusions with a later kernel that computes the gradient of the weights."""
    read = {tensor.value for tensor in grad_input.statements[0].tensors}
    kernels = context.module.kernels
    for grad_weight in kernels[kernels.index(grad_input) + 1 :]:
        is_product = grad_weight.kind is KernelKind.CONTRACTION and not grad_weight.one_core
        if not is_product or grad_weight.repeat is not None or not read <= {*grad_weight.inputs}:
            continue
        home = _home(context, grad_input, grad_weight)
        if home is not None:
            yield Candidate(
                (grad_input, grad_weight),
                partial(_cycles, context, grad_input, grad_weight),
                partial(_join, context, grad_input, grad_weight, home),
            )


def _home(context: FusionContext, grad_input: Kernel, grad_weight: Kernel) -> Kernel | None:
    """Return the kernel at whose position the fused kernel can run; None if there is none.

    At that position the inputs of both must be computed, and no consumer may come before it.
    """
    uses, stored = context.uses, set(grad_input.outputs)
    between = uses.between(grad_input, grad_weight)[1:-1]
    is_tied = any(tie is not None for tie in (*grad_input.ties, *grad_weight.ties))
    inputs = (*grad_input.inputs, *grad_weight.inputs)
    if is_tied or not uses.are_intact(inputs, grad_input, grad_weight):
        return None
    read = homes(grad_weight.inputs)
    if not stored.isdisjoint(read):
        return None
    if all(stored.isdisjoint(homes(k.inputs)) for k in between):
        return grad_weight
    return grad_input if all(read.isdisjoint(k.outputs) for k in between) else None


def _cycles(context: FusionContext, grad_input: Kernel, grad_weight: Kernel) -> Cycles:
    statements = [*grad_input.statements, *grad_weight.statements]
    one = context.estimate(KernelKind.COL2IM, grad_input.statements)
    other = context.estimate(KernelKind.CONTRACTION, grad_weight.statements)
    return Cycles(one + other, context.estimate(KernelKind.CONV_BACKWARD, statements))


def _join(context: FusionContext, grad_input: Kernel, grad_weight: Kernel, home: Kernel) -> bool:
    statements = [*grad_input.statements, *grad_weight.statements]
    other = grad_input if home is grad_weight else grad_weight
    return context.rebuild({home: FusionGroup(KernelKind.CONV_BACKWARD, statements), other: None})
