"""Which function lowers which kind of kernel: the one place to add a kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ftm_backend.midend.attentions import backward as attention_backward
from ftm_backend.midend.attentions import lower as attention
from ftm_backend.midend.contractions import folds, gradients
from ftm_backend.midend.contractions import lower as contraction
from ftm_backend.midend.kernel import Kernel
from ftm_backend.midend.nests import lower as nest
from ftm_backend.midend.nests import strips, turn
from ftm_backend.midend.rows import lower as rows
from ftm_backend.midend.rows import scan
from ftm_backend.midend.sorts import lower as sort
from ftm_backend.tile.builder import TileBuilder


def no_workspace(kernel: Kernel) -> list[tuple[str, int]]:
    """For kernels that need no DDR buffers of their own."""
    del kernel
    return []


@dataclass(frozen=True)
class Lowering:
    """``lower(kernel, builder)`` builds the body of the kernel's function at the insertion point.

    ``workspace(kernel)`` lists the (dtype, elements) of DDR buffers that it needs besides its operands; their
    symbols come back as ``kernel.workspaces``.
    """

    lower: Callable[[Kernel, TileBuilder], None]
    workspace: Callable[[Kernel], list[tuple[str, int]]] = no_workspace


LOWERINGS: dict[str, Lowering] = {
    "fold": Lowering(folds.lower),
    "nest": Lowering(nest.lower, nest.workspace),
    "contraction": Lowering(contraction.lower),
    "computed": Lowering(contraction.lower_computed),
    "summed": Lowering(contraction.lower_summed),
    "gradients": Lowering(gradients.lower),
    "attention": Lowering(attention.lower),
    "attention-backward": Lowering(attention_backward.lower, attention_backward.workspace),
    "rows": Lowering(rows.lower),
    "scan": Lowering(scan.lower),
    "sort": Lowering(sort.lower, sort.workspace),
    "strips": Lowering(strips.lower),
    "summed-strips": Lowering(strips.lower_summed),
    "turn": Lowering(turn.lower),
}
