"""A set of statements that become one kernel, and what kind of kernel that is."""

from __future__ import annotations

from dataclasses import dataclass, field

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import Statement
from ftm_backend.midend.lowering.gemm import col2im
from ftm_backend.midend.lowering.gemm import lower as contraction
from ftm_backend.midend.lowering.loop_nest import transpose
from ftm_backend.midend.lowering.rows import gather_scatter as rows
from ftm_backend.midend.lowering.rows import scan
from ftm_backend.midend.lowering.sort import lower as sort
from ftm_backend.midend.schedule.loop_nest.capacity_check import ONE_CORE_WORK
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache
from ftm_backend.midend.transforms.fusion.fusion_candidate import ChainCandidate, NestCandidate
from ftm_backend.symbolic import size_hint
from ftm_backend.target.presets import MachineParameters

__all__ = ["FusionGroup", "place_on_cores", "single"]


@dataclass(eq=False)
class FusionGroup:
    """Statements in program order. ``depth`` grows along dependences; ``consumed`` bounds it from
    above.

    ``is_turn``: a copy that will be turned on chip, and is a kernel of its own.
    ``nest`` and ``chain``: what the next statements of a nest, or of a contraction, must fit to.
    """

    kind: str
    statements: list[Statement]
    one_core: bool = False
    is_turn: bool = False
    nest: NestCandidate | None = None
    chain: ChainCandidate | None = None
    depth: int = 0
    consumed: int = 1 << 60
    needs: set[Statement] = field(default_factory=set)


def single(statement: Statement, machine: MachineParameters, alike: FusionCache) -> FusionGroup:
    """The kernel that holds one statement alone."""
    if statement.op == "ftm.scatter" or rows.match_gather(statement) is not None:
        return FusionGroup("rows", [statement])
    if statement.op in ("ftm.scan", "ftm.sort"):
        return FusionGroup(statement.op.removeprefix("ftm."), [statement])
    if statement.op == col2im.OP:
        return FusionGroup("fold", [statement])
    if contraction.match(statement) is not None:
        return FusionGroup("contraction", [statement], chain=ChainCandidate.begin(statement, alike))
    is_turn = (
        transpose.match_transpose(
            statement, machine, [result.index for result in statement.results]
        )
        is not None
    )
    return FusionGroup(
        "nest", [statement], is_turn=is_turn, nest=NestCandidate.begin(statement, alike)
    )


def place_on_cores(cluster: FusionGroup, machine: MachineParameters) -> None:
    """Decides whether the kernel is worth several cores; of a contraction that is known when it is
    known what it stores."""
    if cluster.kind == "scan":
        cluster.one_core = scan.one_core(cluster.statements[0])
    elif cluster.kind == "sort":
        cluster.one_core = sort.one_core(cluster.statements[0], machine)
    elif cluster.kind == "fold":
        cluster.one_core = col2im.one_core(cluster.statements, machine)
    elif cluster.kind == "nest":
        work = sum(
            max(size_hint(s.volume), size_hint(volume(s.results[0].value.shape)))
            for s in cluster.statements
        )
        cluster.one_core = work < ONE_CORE_WORK
