"""What a second attempt to compile a program leaves out after a stage failed.

Fusion passes estimate whether a kernel pays and fits. Lowering or the allocation of scratchpad can
still fail. Then the program is compiled again with less fusion, instead of being refused. Example:
``fuse-gemm-reduction`` moves a sum into a matmul's kernel, and lowering finds no tiles for it. The
next attempt runs without ``fuse-gemm-reduction``.

This module alone decides what to leave out, and in which order. Passes do not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.pass_manager import Pass

__all__ = ["NONE", "Restrictions", "after_kernel", "without_pass"]

_SMALLEST_SHARE = 16
"""Tiles get 1/2 of the scratchpads, then 1/4, down to 1/16."""


@dataclass(frozen=True)
class Restrictions:
    """What an attempt must not do.

    Attributes:
        skipped: Names of passes that are left out.
        separate: Numbers of statements that get kernels of their own, as ``fuse-ops`` counts them.
        shares: Pairs ``(kernel, n)``: the tiles of the kernel may use 1/n of the scratchpads.
    """

    skipped: frozenset[str] = frozenset()
    separate: frozenset[int] = frozenset()
    shares: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        """Describe the restrictions for the log."""
        words = [f"without {name}" for name in sorted(self.skipped)]
        words += (
            [f"{len(self.separate)} statements in kernels of their own"] if self.separate else []
        )
        words += [f"{name} in 1/{share} of the scratchpads" for name, share in self.shares]
        return ", ".join(words) or "none"

    def shrink(self, kernels: Iterable[Kernel]) -> None:
        """Limit the tiles of kernels to their share of the scratchpads."""
        shares = dict(self.shares)
        for kernel in kernels:
            if kernel.name in shares:
                kernel.shrink(shares[kernel.name])


NONE = Restrictions()


def without_pass(before: Restrictions, step: Pass) -> Restrictions | None:
    """Return the next restrictions after a pass left invalid kernels; None if there are none."""
    if not step.optional or step.name in before.skipped:
        return None
    return replace(before, skipped=before.skipped | {step.name})


def after_kernel(
    before: Restrictions, kernel: Kernel, too_large: bool, passes: Sequence[Pass]
) -> Restrictions | None:
    """Return the next restrictions after a kernel could not be lowered.

    In order: smaller tiles, without the pass that built the kernel, without any fusion of its
    statements, without any optional pass. A kernel whose schedule was edited by hand is not
    compiled in another way.

    Args:
        before: The restrictions of the failed attempt.
        kernel: The kernel.
        too_large: Its tiles exceed a scratchpad.
        passes: The passes that ran.

    Returns:
        None if nothing is left to try.
    """
    if kernel.is_pinned:
        return None  # the error names what does not fit
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
