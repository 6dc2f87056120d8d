"""The schedule of a kernel: what of its statements is prologue, product, epilogue and sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ftm_backend.ir.linalg.function import Statement
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.lowering.gemm import col2im
from ftm_backend.midend.lowering.gemm.epilogue import can_fuse_epilogue
from ftm_backend.midend.lowering.gemm.reduction_epilogue import split_off_sums
from ftm_backend.midend.schedule.gemm.contraction import contraction_index
from ftm_backend.midend.schedule.gemm.operand_roles import (
    OperandRoles,
    cheapest_roles,
    find_schedule,
    problem_of,
    with_schedule,
)
from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.transforms.tensor.align_loops import align_all
from ftm_backend.target.presets import MachineParameters

__all__ = [
    "can_follow",
    "choose_schedule",
    "pin_schedule",
    "schedule_statements",
    "scheduled",
]


def schedule_statements(
    kind: KernelKind,
    statements: Sequence[Statement],
    machine: MachineParameters,
    aligned: Sequence[Statement] | None = None,
    chosen: Schedule | None = None,
) -> OperandRoles | None:
    """Return the cheapest schedule of a kernel's statements, or the chosen one.

    Args:
        kind: A kind of kernel that has a schedule.
        statements: The statements.
        machine: The target.
        aligned: The contraction and its epilogue over the same loops, if they are known.
        chosen: The schedule; None for the cheapest one.

    Returns:
        None if no tiles fit on chip, or a prologue cannot be computed there.

    Raises:
        ValueError: The statements are no such kernel.
    """
    if kind is KernelKind.COL2IM:
        roles = col2im.roles_of(statements)
        if chosen is not None:
            return replace(roles, plan=chosen)
        return cheapest_roles([roles], machine) if col2im.has_blocks(statements[0]) else None
    first = contraction_index(statements)
    rest, sums = split_off_sums(statements[first:])
    chain = align_all(rest) if aligned is None else aligned
    found = (
        find_schedule(chain, machine, statements[:first], len(sums))
        if chosen is None
        else with_schedule(chain, machine, chosen, statements[:first])
    )
    if found is None or (sums and (found.plan is None or found.plan.depth == 1)):
        return None
    return replace(found, sums=tuple(sums))


def can_follow(
    kind: KernelKind, chain: Sequence[Statement], statement: Statement, machine: MachineParameters
) -> bool:
    """Whether a statement can be fused into the epilogue of a kernel.

    Args:
        kind: A kind of kernel that has a schedule.
        chain: The product and its present epilogue.
        statement: The statement.
        machine: The target.
    """
    if kind is KernelKind.COL2IM:
        return col2im.can_follow(chain, statement, machine)
    return can_fuse_epilogue(chain, statement)


def scheduled(kernel: Kernel) -> OperandRoles | None:
    """Return a kernel under its schedule, or under the cheapest one if it has none.

    Raises:
        ValueError: The statements are no such kernel.
    """
    machine = kernel.available_machine if kernel.machine.uses_panels else kernel.machine
    return schedule_statements(
        kernel.kind, kernel.statements, machine, kernel.aligned, kernel.schedule
    )


def pin_schedule(kernel: Kernel, text: str) -> None:
    """Give a kernel the schedule of a text; nothing replaces one that the planner did not choose.

    Raises:
        ValueError: The text is no schedule, or one of another contraction.
    """
    try:
        kernel.schedule = Schedule.parse(text)
        roles = scheduled(kernel)
        if roles is None:
            raise ValueError("the statements of the kernel have none")
        kernel.schedule.check(problem_of(roles, kernel.machine))
        given = (kernel.kind, kernel.statements, kernel.machine, kernel.aligned)
        kernel.is_pinned = str(choose_schedule(*given)[1]) != str(kernel.schedule)
    except ValueError as error:
        raise ValueError(f"{kernel.name}: schedule {text!r}: {error}") from error


def choose_schedule(
    kind: KernelKind,
    statements: Sequence[Statement],
    machine: MachineParameters,
    aligned: Sequence[Statement] | None = None,
) -> tuple[bool, Schedule | None]:
    """Return whether a single core is fastest, and the schedule for all cores otherwise.

    The schedule is None, too, if it has symbolic sizes, or if nothing fits on chip.
    """
    roles = schedule_statements(kind, statements, machine, aligned)
    if roles is None:
        return False, None
    if roles.plan is None or roles.plan.cores == 1:
        return True, None
    return False, roles.plan if roles.plan.is_constant else None
