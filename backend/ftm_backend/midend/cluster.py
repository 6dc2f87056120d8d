"""A set of statements that become one kernel, and what kind of kernel that is."""

from __future__ import annotations

from dataclasses import dataclass, field

from ftm_backend.linalg.affine import volume
from ftm_backend.linalg.ir import Statement
from ftm_backend.machine.presets import ELEMENT_BYTES, MachineParameters
from ftm_backend.midend.contractions import folds
from ftm_backend.midend.contractions import lower as contraction
from ftm_backend.midend.nests import turn
from ftm_backend.midend.nests.domain import Domain, Shape
from ftm_backend.midend.rows import lower as rows
from ftm_backend.midend.rows import scan
from ftm_backend.midend.sorts import lower as sort
from ftm_backend.sizes import at_hand

ONE_CORE_WORK = 20_000
"""Element operations below which a nest kernel runs on one core: a barrier costs as much as this work."""

_VECTOR = 64  # columns that a turned tile should have
_MOST_STATEMENTS = 48
_MOST_OPERANDS = 24


@dataclass(eq=False)
class Cluster:
    """Statements in program order.  ``depth`` grows along dependences; ``consumed`` bounds it from above.

    ``is_turn``: a copy that will be turned on chip, and is a kernel of its own.
    ``domain`` is that of a nest, which may be split as statements want that were ``tried`` and are not in it; ``chain``
    has the statements of a contraction over loops that are cut alike.
    """

    kind: str
    statements: list[Statement]
    one_core: bool = False
    is_turn: bool = False
    domain: Domain | None = None
    tried: bool = False
    depth: int = 0
    consumed: int = 1 << 60
    needs: set[Statement] = field(default_factory=set)
    chain: list[Statement] = field(default_factory=list)


def single(statement: Statement, machine: MachineParameters) -> Cluster:
    """The kernel that holds one statement alone."""
    if statement.op == "ftm.scatter" or rows.match_gather(statement) is not None:
        return Cluster("rows", [statement])
    if statement.op in ("ftm.scan", "ftm.sort"):
        return Cluster(statement.op.removeprefix("ftm."), [statement])
    if statement.op == "ftm.conv_transpose":
        return Cluster("fold", [statement])
    if contraction.match(statement) is not None:
        return Cluster("contraction", [statement], chain=[statement])
    domain = Domain()
    domain.add(statement)
    is_turn = turn.match_turn(statement, machine, [result.index for result in statement.results]) is not None
    return Cluster("nest", [statement], is_turn=is_turn, domain=domain)


def place_on_cores(cluster: Cluster, machine: MachineParameters) -> None:
    """Decides whether the kernel is worth several cores; of a contraction that is known when it is known what it stores."""
    if cluster.kind == "scan":
        cluster.one_core = scan.one_core(cluster.statements[0])
    elif cluster.kind == "sort":
        cluster.one_core = sort.one_core(cluster.statements[0], machine)
    elif cluster.kind == "fold":
        cluster.one_core = folds.one_core(cluster.statements[0], machine)
    elif cluster.kind == "nest":
        work = sum(max(at_hand(s.volume), at_hand(volume(s.results[0].value.shape))) for s in cluster.statements)
        cluster.one_core = work < ONE_CORE_WORK


def common_domain(statements: list[Statement], machine: MachineParameters) -> Domain | None:
    """The domain of a nest of these statements; None when they do not belong into one kernel."""
    if len(statements) > _MOST_STATEMENTS:
        return None
    domain = Domain()
    for statement in statements:
        if not domain.add(statement):
            return None
    return domain if acceptable(domain, machine) else None


def acceptable(domain: Domain, machine: MachineParameters) -> bool:
    """Whether tiles can carry a domain, within the scratchpad and along memory."""
    statements = list(domain.loops)
    if len(statements) > _MOST_STATEMENTS:
        return False
    operands = {(o.value, o.index) for s in statements for o in s.operands if o.value.producer not in domain.loops}
    if len(operands) > _MOST_OPERANDS:
        return False
    shape = domain.shape()
    if shape is None:
        return False
    return not shape.resident or _fits(domain, shape, machine)


def _fits(domain: Domain, shape: Shape, machine: MachineParameters) -> bool:
    """Whether tiles of all held elements fit, with a vector's width of free ones where those are columns."""
    held = set(shape.held)
    width = at_hand(volume([leaf.extent for leaf in held]))
    free = at_hand(volume([leaf.extent for leaf in shape.free]))
    total = 0
    for s in domain.loops:
        if not held.issubset(domain.span(s)):
            continue
        total += sum(ELEMENT_BYTES[o.value.dtype] for o in s.operands if o.value.producer not in domain.loops)
        total += sum(ELEMENT_BYTES[r.value.dtype] for r in s.results if not domain.reduced(s))
    if free < machine.cores and width * len(domain.loops) > ONE_CORE_WORK:
        return False
    across = min(free, _VECTOR) if shape.turned else 1
    return width * across * total * 2 <= machine.am_bytes
