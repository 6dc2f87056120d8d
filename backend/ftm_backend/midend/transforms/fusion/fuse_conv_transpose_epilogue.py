"""Rule ``fuse-conv-transpose-epilogue``: apply what follows a transposed convolution on chip.

Example: the gradient of a feature map is added to the gradient of a residual connection and masked
by ReLU, ``(fold(...) + d) * (y > 0)``. The kernel of the transposed convolution holds its result in
the scratchpad after col2im, so it applies both before it stores. Otherwise the next kernel, which
waits for DDR anyway, reads all three tensors again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.midend.analysis.use_def import homes
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.cost import bytes_of, traffic_cycles
from ftm_backend.midend.schedule.gemm.kernel_schedule import can_follow
from ftm_backend.midend.transforms.fusion.fusion_rule import Candidate, Cycles, FusionContext

__all__ = ["candidates", "is_anchor"]


def is_anchor(kernel: Kernel) -> bool:
    """Return whether a kernel is a transposed convolution."""
    return kernel.kind is KernelKind.COL2IM and not kernel.one_core


def candidates(context: FusionContext, fold: Kernel) -> Iterator[Candidate]:
    """Yield fusions with the statements of the one kernel that follows, most statements first."""
    users = [k for value in fold.outputs for k in context.uses.readers(value)]
    if (
        len(set(users)) != 1
        or users[0].kind is not KernelKind.LOOP_NEST
        or users[0].repeat is not None
    ):
        return
    user = users[0]
    following = _following(context, fold, user)
    for number in range(len(following), 0, -1):
        moved = following[:number]
        yield Candidate(
            (fold, user),
            partial(_cycles, context, fold, user, moved),
            partial(
                context.join_consumers,
                fold,
                user,
                KernelKind.COL2IM,
                moved,
                dict.fromkeys(moved, ()),
            ),
        )


def _following(context: FusionContext, fold: Kernel, user: Kernel) -> list[Statement]:
    """Return the statements of ``user`` that can be the epilogue of ``fold``, in order.

    Only the next statement reads the result of one, except for the last.
    """
    uses, kernels = context.uses, context.module.kernels
    later = {value for kernel in kernels[kernels.index(fold) :] for value in kernel.outputs}
    found: list[Statement] = []
    (made,) = fold.statements[-1].writes()
    while made not in uses.escapes and set(uses.readers(made)) <= {user}:
        readers = [statement for statement in user.statements if made in statement.reads()]
        if len(readers) != 1:
            break
        others = [value for value in readers[0].reads() if value is not made]
        are_ready = set(user.inputs).issuperset(others) and later.isdisjoint(homes(others))
        if not are_ready or not uses.are_intact(others, fold, user):
            break
        if not can_follow(
            KernelKind.COL2IM, [*fold.statements, *found], readers[0], context.machine
        ):
            break
        found.append(readers[0])
        (made,) = readers[0].writes()
    return found


def _cycles(
    context: FusionContext, fold: Kernel, user: Kernel, moved: Sequence[Statement]
) -> Cycles:
    """Return the cycles without and with moving statements from ``user`` into ``fold``.

    The traffic that ``user`` saves counts against the longer plan of ``fold``.
    """
    # only the last result is stored
    joined = [
        replace(s, results=[replace(r, stores=[]) for r in s.results])
        for s in (*fold.statements, *moved)
    ]
    left: set[Value] = {v for s in user.statements if s not in moved for v in s.reads()}
    (made,) = moved[-1].writes()
    spared = bytes_of(value for value in user.inputs if value not in left)
    spared += bytes_of([made]) * ((made in user.outputs) - (made in left))
    apart = context.estimate(KernelKind.COL2IM, fold.statements)
    together = context.estimate(KernelKind.COL2IM, joined)
    return Cycles(apart + traffic_cycles(context.machine, spared), together)
