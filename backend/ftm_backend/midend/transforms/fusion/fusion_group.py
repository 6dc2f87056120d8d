"""A set of statements that become one kernel, and what kind of kernel that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import Statement, has_effect
from ftm_backend.ir.linalg.named_ops import CONV_TRANSPOSE
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.lowering.loop_nest import transpose
from ftm_backend.midend.lowering.rows import gather_scatter as rows
from ftm_backend.midend.lowering.rows import scan
from ftm_backend.midend.lowering.sort import lower as sort
from ftm_backend.midend.schedule.gemm.contraction import match
from ftm_backend.midend.schedule.gemm.kernel_schedule import choose_schedule
from ftm_backend.midend.schedule.loop_nest.capacity_check import ONE_CORE_WORK
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache
from ftm_backend.midend.transforms.fusion.fusion_candidate import ChainCandidate, NestCandidate
from ftm_backend.symbolic import size_hint
from ftm_backend.target.presets import MachineParameters

__all__ = ["FusionGroup", "place_on_cores", "single"]

_KINDS_OF_OPS = {
    "ftm.scan": KernelKind.SCAN,
    "ftm.sort": KernelKind.SORT,
    CONV_TRANSPOSE: KernelKind.COL2IM,
}


@dataclass(eq=False)
class FusionGroup:
    """Statements that become one kernel, in program order.

    Attributes:
        kind: What the kernel computes.
        statements: The statements.
        one_core: The kernel is small and runs on one core.
        is_transpose: The kernel is a copy that will be transposed on chip; nothing joins it.
        nest: What the next statement of a loop nest must fit to.
        chain: What the next statement of a contraction's epilogue must fit to.
        depth: Greater than the depth of every group that this one reads.
        consumed: Less than or equal to the depth of every group that reads this one.
        needs: The statements that it reads.
    """

    kind: KernelKind
    statements: list[Statement]
    one_core: bool = False
    is_transpose: bool = False
    nest: NestCandidate | None = None
    chain: ChainCandidate | None = None
    depth: int = 0
    consumed: int = 1 << 60
    needs: set[Statement] = field(default_factory=set)


def single(statement: Statement, machine: MachineParameters, cache: FusionCache) -> FusionGroup:
    """Return the group of one statement."""
    if statement.op == "ftm.scatter" or rows.match_gather(statement) is not None:
        return FusionGroup(KernelKind.GATHER_SCATTER, [statement])
    if has_effect(statement):
        return FusionGroup(KernelKind.COLLECTIVE, [statement], one_core=True)
    if statement.op in _KINDS_OF_OPS:
        return FusionGroup(_KINDS_OF_OPS[statement.op], [statement])
    if match(statement) is not None:
        return FusionGroup(
            KernelKind.CONTRACTION, [statement], chain=ChainCandidate.begin(statement, cache)
        )
    is_transpose = (
        transpose.match_transpose(
            statement, machine, [result.index for result in statement.results]
        )
        is not None
    )
    return FusionGroup(
        KernelKind.LOOP_NEST,
        [statement],
        is_transpose=is_transpose,
        nest=NestCandidate.begin(statement, cache),
    )


def place_on_cores(group: FusionGroup, machine: MachineParameters) -> None:
    """Decide whether a group runs on one core or on all, if its kind has a rule.

    For a contraction this depends on its stores, so `fuse_ops` decides later.
    """
    rule = _ONE_CORE_RULES.get(group.kind)
    if rule is not None:
        group.one_core = rule(group.statements, machine)


def _is_small_nest(statements: Sequence[Statement], machine: MachineParameters) -> bool:
    """Return whether a loop nest has too little work for several cores."""
    del machine
    work = sum(
        max(size_hint(s.volume), size_hint(volume(s.results[0].value.shape))) for s in statements
    )
    return work < ONE_CORE_WORK


_ONE_CORE_RULES: dict[KernelKind, Callable[[Sequence[Statement], MachineParameters], bool]] = {
    KernelKind.LOOP_NEST: _is_small_nest,
    KernelKind.COL2IM: lambda all_, machine: choose_schedule(KernelKind.COL2IM, all_, machine)[0],
    KernelKind.SCAN: lambda all_, _: scan.one_core(all_[0]),
    KernelKind.SORT: lambda all_, machine: sort.one_core(all_[0], machine),
}
