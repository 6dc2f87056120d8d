"""Registry of lowerings by kind of kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.lowering import collective
from ftm_backend.midend.lowering.attention import backward as attention_backward
from ftm_backend.midend.lowering.attention import forward as attention
from ftm_backend.midend.lowering.gemm import fused_conv_backward
from ftm_backend.midend.lowering.gemm import lower as contraction
from ftm_backend.midend.lowering.loop_nest import line_buffer, transpose
from ftm_backend.midend.lowering.loop_nest import lower as nest
from ftm_backend.midend.lowering.rows import gather_scatter as rows
from ftm_backend.midend.lowering.rows import scan
from ftm_backend.midend.lowering.sort import lower as sort


def no_workspace(kernel: Kernel) -> list[tuple[str, int]]:
    """Return no buffers."""
    del kernel
    return []


@dataclass(frozen=True)
class KernelLowering:
    """The lowering of a kind of kernel.

    Attributes:
        lower: Emits the body of a kernel's function at the builder's insertion point.
        workspace: Returns (dtype, elements) of the DDR buffers that a kernel needs besides its
            operands. They become ``kernel.workspaces``.
    """

    lower: Callable[[Kernel, TileBuilder], None]
    workspace: Callable[[Kernel], list[tuple[str, int]]] = no_workspace


LOWERINGS: dict[KernelKind, KernelLowering] = {
    KernelKind.COL2IM: KernelLowering(contraction.lower),
    KernelKind.LOOP_NEST: KernelLowering(nest.lower, nest.workspace),
    KernelKind.CONTRACTION: KernelLowering(contraction.lower),
    KernelKind.CONTRACTION_WITH_PROLOGUE: KernelLowering(contraction.lower),
    KernelKind.CONTRACTION_WITH_REDUCTION: KernelLowering(contraction.lower),
    KernelKind.CONV_BACKWARD: KernelLowering(fused_conv_backward.lower),
    KernelKind.ATTENTION: KernelLowering(attention.lower),
    KernelKind.ATTENTION_BACKWARD: KernelLowering(
        attention_backward.lower, attention_backward.workspace
    ),
    KernelKind.GATHER_SCATTER: KernelLowering(rows.lower),
    KernelKind.SCAN: KernelLowering(scan.lower),
    KernelKind.SORT: KernelLowering(sort.lower, sort.workspace),
    KernelKind.LINE_BUFFER: KernelLowering(line_buffer.lower),
    KernelKind.LINE_BUFFER_WITH_REDUCTION: KernelLowering(line_buffer.lower_with_sums),
    KernelKind.TRANSPOSE: KernelLowering(transpose.lower),
    KernelKind.COLLECTIVE: KernelLowering(collective.lower),
}

if LOWERINGS.keys() != set(KernelKind):
    raise LookupError("each kind of kernel needs a lowering")
