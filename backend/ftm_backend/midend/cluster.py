"""A set of statements that become one kernel, and what kind of kernel that is."""

from __future__ import annotations

from dataclasses import dataclass, field

from ftm_backend.linalg.affine import volume
from ftm_backend.linalg.ir import Statement
from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.alike import Alike
from ftm_backend.midend.contractions import folds
from ftm_backend.midend.contractions import lower as contraction
from ftm_backend.midend.growing import Chain, Nest
from ftm_backend.midend.nests import turn
from ftm_backend.midend.nests.fits import ONE_CORE_WORK
from ftm_backend.midend.rows import lower as rows
from ftm_backend.midend.rows import scan
from ftm_backend.midend.sorts import lower as sort
from ftm_backend.sizes import at_hand

__all__ = ["Cluster", "place_on_cores", "single"]


@dataclass(eq=False)
class Cluster:
    """Statements in program order.  ``depth`` grows along dependences; ``consumed`` bounds it from above.

    ``is_turn``: a copy that will be turned on chip, and is a kernel of its own.
    ``nest`` and ``chain``: what the next statements of a nest, or of a contraction, must fit to.
    """

    kind: str
    statements: list[Statement]
    one_core: bool = False
    is_turn: bool = False
    nest: Nest | None = None
    chain: Chain | None = None
    depth: int = 0
    consumed: int = 1 << 60
    needs: set[Statement] = field(default_factory=set)


def single(statement: Statement, machine: MachineParameters, alike: Alike) -> Cluster:
    """The kernel that holds one statement alone."""
    if statement.op == "ftm.scatter" or rows.match_gather(statement) is not None:
        return Cluster("rows", [statement])
    if statement.op in ("ftm.scan", "ftm.sort"):
        return Cluster(statement.op.removeprefix("ftm."), [statement])
    if statement.op == folds.OP:
        return Cluster("fold", [statement])
    if contraction.match(statement) is not None:
        return Cluster("contraction", [statement], chain=Chain.begin(statement, alike))
    is_turn = turn.match_turn(statement, machine, [result.index for result in statement.results]) is not None
    return Cluster("nest", [statement], is_turn=is_turn, nest=Nest.begin(statement, alike))


def place_on_cores(cluster: Cluster, machine: MachineParameters) -> None:
    """Decides whether the kernel is worth several cores; of a contraction that is known when it is known what it stores."""
    if cluster.kind == "scan":
        cluster.one_core = scan.one_core(cluster.statements[0])
    elif cluster.kind == "sort":
        cluster.one_core = sort.one_core(cluster.statements[0], machine)
    elif cluster.kind == "fold":
        cluster.one_core = folds.one_core(cluster.statements, machine)
    elif cluster.kind == "nest":
        work = sum(max(at_hand(s.volume), at_hand(volume(s.results[0].value.shape))) for s in cluster.statements)
        cluster.one_core = work < ONE_CORE_WORK
