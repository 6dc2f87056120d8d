"""Pass ``pack-operands``: copy a matmul operand with short runs into row-panel layout.

Example: the weights ``[f, c, 3, 3]`` of a convolution. The gradient of the input reads 9 contiguous
taps at a time, backwards. DMA moves whole granules, so short runs waste bandwidth. The pass plans
the matmul with the operand and with a copy ``[3, 3, f, c]``, and adds the cost of the copy.

Changes the function in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from ftm_backend.ir.linalg.affine import Affine, row_major, volume
from ftm_backend.ir.linalg.body_builder import reading
from ftm_backend.ir.linalg.function import (
    LinalgFunction,
    Operand,
    Statement,
    Tensor,
    copy_statement,
)
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.choose_by_cost import choose
from ftm_backend.midend.schedule.cost import estimate, traffic_cycles
from ftm_backend.midend.schedule.gemm.contraction import Contraction, match
from ftm_backend.midend.schedule.gemm.operand_roles import cycles_lower_bound
from ftm_backend.symbolic import is_integer
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["pack_operands", "packed_cycles", "packed_cycles_lower_bound"]


def pack_operands(function: LinalgFunction, machine: MachineParameters) -> LinalgFunction:
    """Copy such operands, except inside of sequential loops."""
    for position in range(len(function.body) - 1, -1, -1):
        item = function.body[position]
        if isinstance(item, Statement):
            function.body[position : position + 1] = _packed(item, machine)
    return function


def _packed(statement: Statement, machine: MachineParameters) -> list[Statement]:
    """Return the statement, or a copy of one of its operands and the statement that reads it."""
    found = _product(statement)
    candidates = _candidates(found, machine) if found is not None else []
    if found is None or not candidates:
        return [statement]
    keep, copies = _cheapest(found, candidates, machine)
    costs = {"keep": keep, "pack": inf if copies is None else copies[0]}
    if copies is None or choose(machine, "pack-operands", str(statement.loops), costs) == "keep":
        return [statement]
    best = copies[1]
    for result in best[-1].results:
        result.value.producer = best[-1]
    return best


def packed_cycles(statement: Statement, machine: MachineParameters) -> float:
    """Return the planned cycles of a matmul, packed if that is cheaper; 0 for others."""
    found = _product(statement)
    if found is None:
        return 0.0
    keep, copies = _cheapest(found, _candidates(found, machine), machine)
    return keep if copies is None else min(keep, copies[0])


def packed_cycles_lower_bound(statement: Statement, machine: MachineParameters) -> float:
    """Return a lower bound of `packed_cycles` without planning."""
    found = _product(statement)
    if found is None:
        return 0.0
    packed = [
        _through_copy(statement, operand, order)[1]
        for operand, order in _candidates(found, machine)
    ]
    return min(
        cycles_lower_bound([each], machine)
        for each in (statement, *packed)
        if match(each) is not None
    )


def _product(statement: Statement) -> Contraction | None:
    return match(statement) if statement.volume else None


def _candidates(found: Contraction, machine: MachineParameters) -> list[tuple[Operand, list[int]]]:
    """Return the operands that a copy may help, each with the new order of its loops."""
    return [
        (operand, order)
        for operand in (found.a, found.b)
        if (order := _order(found, operand, machine))
    ]


def _cheapest(
    found: Contraction, candidates: list[tuple[Operand, list[int]]], machine: MachineParameters
) -> tuple[float, tuple[float, list[Statement]] | None]:
    """Return the cycles of a matmul, and those of the cheapest one with a copy, and its statements.

    No copy if none can pay; one that costs more if the user wants it.
    """
    statement = found.statement
    keep = estimate(KernelKind.CONTRACTION, [statement], machine)
    least = inf if machine.choice("pack-operands") == "pack" else keep
    best: tuple[float, list[Statement]] | None = None
    for operand, order in candidates:
        moved = 2 * volume(operand.value.shape) * ELEMENT_BYTES[operand.value.dtype]
        copying = traffic_cycles(machine, moved) + 2 * machine.barrier_cycles
        if least <= copying + statement.volume / (
            machine.cores * machine.fma_units * machine.lanes(found.accumulator)
        ):
            continue  # the copy does not pay even at peak speed
        copy, packed = _through_copy(statement, operand, order)
        if match(packed) is None:
            continue  # the result is a dot product, which is no matmul
        if least <= copying + cycles_lower_bound([packed], machine):
            continue
        cycles = estimate(KernelKind.CONTRACTION, [packed], machine) + copying
        if cycles < least:
            least, best = cycles, (cycles, [copy, packed])
    return keep, best


def _order(found: Contraction, operand: Operand, machine: MachineParameters) -> list[int]:
    """Return the loops of an operand in a better order: those of short runs outermost.

    Empty if the operand is not read whole, or its runs are long enough.
    """
    value, coeffs, loops = operand.value, operand.index.coeffs, found.statement.loops
    walked = _walked(operand, loops)
    short: list[int] = []
    while walked and (not short or found.group_of(walked[-1]) == found.group_of(short[0])):
        short.insert(0, walked.pop())
    run = prod(loops[k] for k in short)
    backwards = any(coeffs[k] < 0 for k in short)
    granule = machine.dma_granule // ELEMENT_BYTES[value.dtype]
    if not walked or (run >= granule and not backwards):
        return []
    if backwards:  # loops that are read forwards, and those outside of them, stay
        while short and coeffs[short[0]] > 0:
            walked.append(short.pop(0))
    return [*short, *walked] if short else []


def _walked(operand: Operand, loops: Sequence[int]) -> list[int]:
    """Return the loops that walk through an operand, outermost first; empty if not all of it."""
    value, coeffs = operand.value, operand.index.coeffs
    if value.border is not None or not all(is_integer(n) for n in (*coeffs, *loops)):
        return []
    walked = sorted(
        (k for k, n in enumerate(loops) if n != 1 and coeffs[k]), key=lambda k: -abs(coeffs[k])
    )
    extents = [loops[k] for k in walked]
    is_dense = [abs(coeffs[k]) for k in walked] == list(row_major(extents))
    return walked if is_dense and prod(extents) == volume(value.shape) else []


def _through_copy(
    statement: Statement, operand: Operand, order: list[int]
) -> tuple[Statement, Statement]:
    """Return a copy of an operand with its loops in this order, and its new reader."""
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
    new = Operand(copy.results[0].value, index)
    key = operand.value, operand.index
    return copy, reading(statement, lambda o: new if (o.value, o.index) == key else o)
