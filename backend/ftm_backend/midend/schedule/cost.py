"""Modelled cycles of kernels and of DDR traffic: the cost interface of the midend's passes.

`estimate` plans a kernel and returns the cycles of its plan. Traffic that a rewrite saves or adds
is priced by `traffic_cycles`, at the bandwidth that all cores share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, prod

from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.midend.schedule.gemm.contraction_schedule import find_schedule
from ftm_backend.midend.schedule.gemm.conv_backward_plan import (
    match_conv_backward,
    plan_conv_backward,
)
from ftm_backend.midend.schedule.gemm.kernel_schedule import schedule_statements
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["bytes_of", "contraction_cycles", "estimate", "traffic_cycles"]


def bytes_of(values: Iterable[Value]) -> int:
    """Return the bytes of values in memory."""
    return sum(ELEMENT_BYTES[value.dtype] * prod(value.shape) for value in values)


def traffic_cycles(machine: MachineParameters, moved: float) -> float:
    """Return the cycles that all cores together need to move ``moved`` bytes from or to DDR."""
    return moved / (cost_rules.bytes_per_cycle(machine, machine.cores) * machine.cores)


def contraction_cycles(statement: Statement, machine: MachineParameters) -> float:
    """Return the planned cycles of a contraction without epilogue.

    0 if its result is empty; infinite if no tiles fit on chip.
    """
    roles = find_schedule([statement], machine)
    if roles is None:
        return inf
    return 0.0 if roles.plan is None else roles.plan.cycles


def estimate(
    kind: str, statements: Sequence[Statement], machine: MachineParameters
) -> float | None:
    """Return the modelled cycles of a kernel on a machine whose DMA overlaps compute.

    Args:
        kind: A kind of kernel that has a planner: ``gradients``, or one of `KINDS`.
        statements: The kernel's statements.
        machine: The machine to plan for.

    Returns:
        The cycles, or None if no plan fits on chip.
    """
    if kind == "gradients":
        pattern = match_conv_backward(statements, machine)
        joined = None if pattern is None else plan_conv_backward(pattern, machine)
        return None if joined is None else joined.cycles
    roles = schedule_statements(kind, statements, machine)
    plan = None if roles is None else roles.plan
    return plan.cycles if plan is not None and plan.depth > 1 else None
