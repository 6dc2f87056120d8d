"""What a second attempt to compile a program does otherwise, because a stage failed in the first
one.

Passes that form kernels ask planners whether a kernel pays and fits. Their answers are estimates:
lowering or the layout of the scratchpad can still fail. Then the fusion is undone instead of the
program refused. Example: ``fuse-gemm-reduction`` moves a sum into the kernel of a product, and
lowering finds no blocks for it. The program is compiled again from its trace without
``fuse-gemm-reduction``.

This module alone decides what is given up, and in which order. Passes know nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.pass_manager import Pass

__all__ = ["NONE", "Restrictions", "after_kernel", "without_pass"]

_SMALLEST_SHARE = 16
"""Tiles of a kernel are planned for half a scratchpad, then a quarter, down to this part of it."""


@dataclass(frozen=True)
class Restrictions:
    """What an attempt must not do.

    skipped: names of passes that are left out. separate: numbers of statements that get kernels of
    their own, as ``fuse-ops`` counts statements. shares: (kernel, n): the tiles of the kernel with
    that name are planned for 1/n of the scratchpads.
    """

    skipped: frozenset[str] = frozenset()
    separate: frozenset[int] = frozenset()
    shares: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        words = [f"without {name}" for name in sorted(self.skipped)]
        words += (
            [f"{len(self.separate)} statements in kernels of their own"] if self.separate else []
        )
        words += [f"{name} in 1/{share} of the scratchpads" for name, share in self.shares]
        return ", ".join(words) or "none"

    def shrink(self, kernels: Iterable[Kernel]) -> None:
        """Has the tiles of kernels planned for the part of the scratchpads that they get."""
        shares = dict(self.shares)
        for kernel in kernels:
            if kernel.name in shares:
                kernel.shrink(shares[kernel.name])


NONE = Restrictions()


def without_pass(before: Restrictions, step: Pass) -> Restrictions | None:
    """What to try after a pass left kernels that break a rule; None if nothing is left to try."""
    if not step.optional or step.name in before.skipped:
        return None
    return replace(before, skipped=before.skipped | {step.name})


def after_kernel(
    before: Restrictions, kernel: Kernel, too_large: bool, passes: Sequence[Pass]
) -> Restrictions | None:
    """What to try after a kernel could not be lowered; None if nothing is left to try.

    too_large: its tiles exceed a scratchpad.
    """
    shares = dict(before.shares)
    share = 2 * shares.get(kernel.name, 1)
    if too_large and share <= _SMALLEST_SHARE:
        return replace(before, shares=tuple({**shares, kernel.name: share}.items()))
    for step in passes:
        if step.name == kernel.formed_by and (restricted := without_pass(before, step)) is not None:
            return restricted
    if len(kernel.numbers) > 1 and not kernel.numbers <= before.separate:
        return replace(before, separate=before.separate | kernel.numbers)
    optional = _names(passes)
    return (
        replace(before, skipped=before.skipped | optional)
        if not optional <= before.skipped
        else None
    )


def _names(passes: Iterable[Pass]) -> frozenset[str]:
    return frozenset(step.name for step in passes if step.optional)
