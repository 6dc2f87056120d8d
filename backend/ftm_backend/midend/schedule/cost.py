"""Modelled cycles of kernels, of their bodies, and of DDR traffic: the midend's cost interface.

Example: a rule that moves ReLU into the kernel of a matmul compares `estimate` of the matmul plus
the traffic of ReLU with `estimate` of both statements in one kernel. `plan` finds the cheapest plan
of a kernel, whatever its kind; each plan has its cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf, prod
from typing import Protocol

from ftm_backend.ir.linalg.function import Node, Statement, Value
from ftm_backend.midend.analysis.body_cost import interval
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.attention.backward_tiling import backward_plan
from ftm_backend.midend.schedule.attention.forward_tiling import attention_plan
from ftm_backend.midend.schedule.attention.match_backward import match_attention_backward
from ftm_backend.midend.schedule.attention.match_forward import match_attention
from ftm_backend.midend.schedule.gemm.contraction import match
from ftm_backend.midend.schedule.gemm.conv_backward_plan import (
    match_conv_backward,
    plan_conv_backward,
)
from ftm_backend.midend.schedule.gemm.kernel_schedule import schedule_statements
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = [
    "PLANNERS",
    "Plan",
    "body_cycles",
    "bytes_of",
    "estimate",
    "nest_cycles",
    "plan",
    "product_cycles",
    "traffic_cycles",
]


class Plan(Protocol):
    """How a kernel is computed."""

    @property
    def cycles(self) -> float:
        """Modelled cycles of the busiest core."""


class _NoWork:
    """The plan of a kernel whose result is empty."""

    cycles = 0.0


def _contraction(
    kind: KernelKind, statements: Sequence[Statement], machine: MachineParameters
) -> Plan | None:
    roles = schedule_statements(kind, statements, machine)
    return None if roles is None else roles.plan or _NoWork()


def _conv_backward(statements: Sequence[Statement], machine: MachineParameters) -> Plan | None:
    pattern = match_conv_backward(statements, machine)
    return None if pattern is None else plan_conv_backward(pattern, machine)


def _attention(statements: Sequence[Statement], machine: MachineParameters) -> Plan | None:
    pattern = match_attention(statements)
    return None if pattern is None else attention_plan(pattern, machine)


def _attention_backward(statements: Sequence[Statement], machine: MachineParameters) -> Plan | None:
    pattern = match_attention_backward(statements)
    return None if pattern is None else backward_plan(pattern, machine, machine.cores)


PLANNERS: dict[KernelKind, Callable[[Sequence[Statement], MachineParameters], Plan | None]] = {
    **{kind: partial(_contraction, kind) for kind in KernelKind if kind.has_schedule},
    KernelKind.CONV_BACKWARD: _conv_backward,
    KernelKind.ATTENTION: _attention,
    KernelKind.ATTENTION_BACKWARD: _attention_backward,
}
"""For each kind of kernel that has plans, the function that returns the cheapest one."""


def plan(
    kind: KernelKind, statements: Sequence[Statement], machine: MachineParameters
) -> Plan | None:
    """Return the cheapest plan of a kernel; None if none fits on chip.

    Args:
        kind: A kind of kernel in `PLANNERS`.
        statements: The kernel's statements.
        machine: The machine to plan for.
    """
    return PLANNERS[kind](statements, machine)


def estimate(
    kind: KernelKind, statements: Sequence[Statement], machine: MachineParameters
) -> float:
    """Return the modelled cycles of the cheapest `plan`; infinity if none fits on chip."""
    found = plan(kind, statements, machine)
    return inf if found is None else found.cycles


def product_cycles(statement: Statement, machine: MachineParameters) -> float:
    """Return the modelled cycles of a sum of products, whichever unit executes it.

    If the matrix unit does not, as for a dot product or a convolution with a single channel, its
    elements are summed one by one.
    """
    if match(statement) is None:
        return statement.volume / (machine.cores * machine.lanes(statement.results[0].value.dtype))
    return estimate(KernelKind.CONTRACTION, [statement], machine)


def bytes_of(values: Iterable[Value]) -> int:
    """Return the bytes of values in memory."""
    return sum(ELEMENT_BYTES[value.dtype] * prod(value.shape) for value in values)


def traffic_cycles(machine: MachineParameters, moved: float) -> float:
    """Return the cycles that all cores together need to move ``moved`` bytes from or to DDR."""
    return moved / (cost_rules.bytes_per_cycle(machine, machine.cores) * machine.cores)


def nest_cycles(kernel: Kernel) -> float:
    """Return the modelled cycles of a loop nest: the larger of its traffic's and its bodies'."""
    moved = bytes_of((*kernel.inputs, *kernel.outputs))
    computing = (
        body_cycles(
            kernel.machine,
            [result.yields for result in statement.results],
            len(statement.operands) + len(statement.results),
            statement.volume,
        )
        for statement in kernel.statements
    )
    return max(traffic_cycles(kernel.machine, moved), sum(computing))


def body_cycles(
    machine: MachineParameters, nodes: Sequence[Node], loads: int, elements: float
) -> float:
    """Return the cycles that all cores together need to compute a body for many elements.

    Args:
        machine: The machine.
        nodes: Results of the body.
        loads: Number of tensors that it loads and stores.
        elements: How often it is computed.
    """
    vectors = elements / machine.lanes(nodes[0].dtype) / machine.cores
    return vectors * interval(machine, nodes, loads)
