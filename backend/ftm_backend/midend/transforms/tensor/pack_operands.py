"""Pass ``pack-operands``: a factor whose shortest dimensions lie innermost in memory is copied with
these outermost, where that pays.

DMA fetches long runs or pays for them: weights of a convolution have a few taps innermost, which
its gradient of the input reads backwards. Products of all shapes are planned with the factor as it
lies and with the copy, and the copy's time counts.
"""

from __future__ import annotations

from math import prod

from ftm_backend.ir.linalg.affine import Affine, row_major, volume
from ftm_backend.ir.linalg.function import (
    LinalgFunction,
    Node,
    Operand,
    Statement,
    Tensor,
    copy_statement,
    walk,
)
from ftm_backend.ir.linalg.strided_layout import Strided
from ftm_backend.midend.schedule.gemm.contraction import Contraction, match
from ftm_backend.midend.schedule.gemm.operand_roles import cycles_lower_bound, schedule
from ftm_backend.symbolic import is_integer
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["least_turned_cycles", "pack_operands", "turned_cycles"]


def pack_operands(function: LinalgFunction, machine: MachineParameters) -> LinalgFunction:
    """``function``, rewritten in place; what is in a repeat stays as it is."""
    for position in range(len(function.body) - 1, -1, -1):
        item = function.body[position]
        if isinstance(item, Statement):
            function.body[position : position + 1] = _turned(item, machine)
    return function


def _turned(statement: Statement, machine: MachineParameters) -> list[Statement]:
    """The statement, or a copy of one of its factors and what reads that."""
    found = _product(statement)
    candidates = _candidates(found, machine) if found is not None else []
    if found is None or not candidates:
        return [statement]
    _, best = _cheapest(found, candidates, machine)
    for result in best[-1].results:
        result.value.producer = best[-1]
    return best


def turned_cycles(statement: Statement, machine: MachineParameters) -> float:
    """What the planner says of a product, with a copy of a factor where that pays; 0 of other
    statements."""
    found = _product(statement)
    return 0.0 if found is None else _cheapest(found, _candidates(found, machine), machine)[0]


def least_turned_cycles(statement: Statement, machine: MachineParameters) -> float:
    """What ``turned_cycles`` is not below, without a plan."""
    found = _product(statement)
    if found is None:
        return 0.0
    turned = [
        _through_copy(statement, operand, order)[1]
        for operand, order in _candidates(found, machine)
    ]
    return min(
        cycles_lower_bound([each], machine)
        for each in (statement, *turned)
        if match(each) is not None
    )


def _product(statement: Statement) -> Contraction | None:
    return match(statement) if statement.volume else None


def _candidates(found: Contraction, machine: MachineParameters) -> list[tuple[Operand, list[int]]]:
    """Factors that a copy may help, with the order of its loops."""
    return [
        (operand, order)
        for operand in (found.a, found.b)
        if (order := _order(found, operand, machine))
    ]


def _cheapest(
    found: Contraction, candidates: list[tuple[Operand, list[int]]], machine: MachineParameters
) -> tuple[float, list[Statement]]:
    """Cycles of the product, and its statements: with a copy of one of the candidates where that
    pays."""
    statement = found.statement
    least, best = _cycles(statement, machine), [statement]
    for operand, order in candidates:
        moved = 2 * volume(operand.value.shape) * ELEMENT_BYTES[operand.value.dtype]
        copying = (
            moved / (cost_rules.bytes_per_cycle(machine, machine.cores) * machine.cores)
            + 2 * machine.barrier_cycles
        )
        if least <= copying + statement.volume / (
            machine.cores * machine.fma_units * machine.lanes(found.accumulator)
        ):
            continue  # not even at peak
        copy, turned = _through_copy(statement, operand, order)
        if match(turned) is None:
            continue  # a row of a matrix that lies along its sum by now
        if least <= copying + cycles_lower_bound([turned], machine):
            continue
        cycles = _cycles(turned, machine) + copying
        if cycles < least:
            least, best = cycles, [copy, turned]
    return least, best


def _cycles(statement: Statement, machine: MachineParameters) -> float:
    plan = schedule([statement], machine).plan
    return plan.cycles if plan is not None else 0.0


def _order(found: Contraction, operand: Operand, machine: MachineParameters) -> list[int]:
    """The loops of an operand that is read whole, with those that make too short a run outermost;
    none if it lies well."""
    value, coeffs, loops = operand.value, operand.index.coeffs, found.statement.loops
    if value.border is not None or not all(is_integer(n) for n in (*coeffs, *loops)):
        return []
    walked = sorted(
        (k for k, n in enumerate(loops) if n != 1 and coeffs[k]), key=lambda k: -abs(coeffs[k])
    )
    extents = [loops[k] for k in walked]
    if prod(extents) != volume(value.shape) or [abs(coeffs[k]) for k in walked] != list(
        row_major(extents)
    ):
        return []
    short: list[int] = []
    while walked and (not short or found.group_of(walked[-1]) == found.group_of(short[0])):
        short.insert(0, walked.pop())
    run = prod(loops[k] for k in short)
    backwards = any(coeffs[k] < 0 for k in short)
    granule = machine.dma_granule // ELEMENT_BYTES[value.dtype]
    if not walked or (run >= granule and not backwards):
        return []
    if backwards:  # those that are read forwards, and what is outside of them, lie as they should
        while short and coeffs[short[0]] > 0:
            walked.append(short.pop(0))
    return [*short, *walked] if short else []


def _through_copy(
    statement: Statement, operand: Operand, order: list[int]
) -> tuple[Statement, Statement]:
    """A copy of an operand in which its loops lie in this order, and the statement that reads
    it."""
    coeffs, loops = operand.index.coeffs, statement.loops
    extents = tuple(loops[k] for k in order)
    lowest = operand.index.const + sum(coeffs[k] * (loops[k] - 1) for k in order if coeffs[k] < 0)
    copy = copy_statement(
        Tensor(operand.value, Strided(extents, tuple(abs(coeffs[k]) for k in order), lowest))
    )
    strides = dict(zip(order, row_major(extents), strict=True))
    first = sum(strides[k] * (loops[k] - 1) for k in order if coeffs[k] < 0)
    index = Affine(
        first,
        tuple(
            strides[k] * (1 if c > 0 else -1) if k in strides else 0 for k, c in enumerate(coeffs)
        ),
    )
    return copy, _reading(statement, operand, Operand(copy.results[0].value, index))


def _reading(statement: Statement, old: Operand, new: Operand) -> Statement:
    """The statement with another operand in the place of one."""
    (result,) = statement.results
    done: dict[int, Node] = {}
    for node in walk([result.yields]):
        replaced = (
            node.op == "in" and node.payload.value is old.value and node.payload.index == old.index
        )
        done[id(node)] = Node(
            node.op,
            node.dtype,
            tuple(done[id(n)] for n in node.operands),
            new if replaced else node.payload,
        )
    operands = [
        new if o.value is old.value and o.index == old.index else o for o in statement.operands
    ]
    made = type(result)(
        result.value,
        result.index,
        result.indices,
        done[id(result.yields)],
        result.combine,
        result.init,
    )
    return Statement(
        "linalg.generic",
        statement.loops,
        statement.reduced,
        operands,
        [made],
        list(statement.gathers),
    )
