"""Rule ``fuse-gemm-reduction``: compute partial sums in the kernel of a matmul.

Example: batch norm needs ``sum(y)`` and ``sum((y - p) ** 2)`` for each channel of ``y = conv(x)``.
A channel that does not fit on chip would be read again for that. Instead the convolution's kernel
sums each block of ``y`` before it stores it, then the squared differences from the block's mean
``a``. A small kernel combines the ``n`` elements of each block:

    sum((y - p) ** 2) = sum over blocks of (sum((y - a) ** 2) + n * (a - p) ** 2)

This holds for any ``p``, and squares large values only after subtracting the mean of their block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.body_builder import constant, loop_nest
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, Value
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.lowering.gemm.reduction_epilogue import PartialSums, partial_sums_of
from ftm_backend.midend.lowering.loop_nest.reductions import starts_at_identity
from ftm_backend.midend.schedule.cost import bytes_of, estimate, traffic_cycles
from ftm_backend.midend.schedule.gemm.operand_roles import find_schedule
from ftm_backend.midend.transforms.fusion.fusion_rule import (
    Candidate,
    Cycles,
    FusionContext,
    stores_one_tensor,
)
from ftm_backend.target.presets import MachineParameters

__all__ = ["FusedSum", "candidates", "is_anchor", "move_sums", "summed", "sums_of"]


@dataclass(frozen=True, eq=False)
class FusedSum:
    """A statement that sums the elements of a matmul's result.

    Attributes:
        statement: The sum.
        shift: If present, the statement sums the squared differences from it.
    """

    statement: Statement
    shift: Operand | None


def is_anchor(product: Kernel) -> bool:
    """Return whether a kernel is a matmul that stores one tensor of constant sizes."""
    return product.kind is KernelKind.CONTRACTION and stores_one_tensor(product)


def candidates(context: FusionContext, product: Kernel) -> Iterator[Candidate]:
    """Yield fusions with the sums of each kernel that reads the matmul's result."""
    (made,) = product.outputs
    for user in context.users(product, KernelKind.LOOP_NEST):
        # the kernel of a product sums blocks as it stores them
        sums = sums_of(made, user.statements) if context.is_stored_without(made, user) else []
        found = summed(product, sums, context.machine) if sums else None
        if found is not None:
            parts, extra_cycles = found
            reading = traffic_cycles(context.machine, bytes_of([made]))
            yield Candidate(
                (product, user),
                partial(Cycles, reading, extra_cycles),
                partial(move_sums, context, product, user, sums, parts),
            )


def sums_of(made: Value, statements: Sequence[Statement]) -> list[FusedSum]:
    """Return the sums of ``made`` in ``statements``; empty if one reads it otherwise."""
    found = [_sum(made, s) for s in statements if made in s.reads()]
    return [] if None in found else [each for each in found if each is not None]


def _sum(made: Value, statement: Statement) -> FusedSum | None:
    """Return a statement as a sum of ``made``; None if it is another operation."""
    is_plain = statement.is_reduction and not statement.gathers and not statement.tensors
    if not is_plain or len(statement.results) != 1:
        return None
    (result,) = statement.results
    is_float = {made.dtype, result.value.dtype} in ({"f32"}, {"f64"})
    if not is_float or result.combine != "sum" or not starts_at_identity(result):
        return None
    element, shift = result.yields, None
    if element.op == "arith.mulf":
        deviation = _squared_difference(element)
        if deviation is None:
            return None
        element, shift = deviation
        steps = zip(shift.index.coeffs, statement.reduced, strict=True)
        if shift.value is made or any(step for step, reduced in steps if reduced):
            return None
    is_made = element.op == "in" and element.payload.value is made
    return FusedSum(statement, shift) if is_made else None


def _squared_difference(product: Node) -> tuple[Node, Operand] | None:
    """Match ``(x - shift) * (x - shift)``; return ``x`` and the loaded ``shift``."""
    one, other = product.operands
    if one.op != "arith.subf" or one.operands[1].op != "in":
        return None
    is_square = one is other or (other.op == one.op and _leaves(one) == _leaves(other))
    return (one.operands[0], one.operands[1].payload) if is_square else None


def _leaves(difference: Node) -> list[object]:
    """Return the operands of a difference in a form that can be compared."""
    return [(n.payload.value, n.payload.index) if n.op == "in" else n for n in difference.operands]


def summed(
    product: Kernel, sums: Sequence[FusedSum], machine: MachineParameters
) -> tuple[PartialSums, float] | None:
    """Return how a matmul's kernel computes the partial sums, and the cycles that they cost.

    Args:
        product: The kernel of the matmul.
        sums: Sums of its result.
        machine: The machine to plan for.

    Returns:
        The partial sums and the additional cycles, or None if a sum does not follow the blocks.
    """
    (made,) = product.outputs
    apart = estimate(KernelKind.CONTRACTION, product.statements, machine)
    count = 1 + any(each.shift for each in sums)
    together = find_schedule(product.aligned, machine, sums=count)
    if together is None or together.plan is None:
        return None
    parts = partial_sums_of(together)
    read = [(each.statement, o) for each in sums for o in each.statement.operands]
    if parts is None or not all(parts.is_reduced_by(s, o) for s, o in read if o.value is made):
        return None
    return parts, together.plan.cycles - apart


def move_sums(
    context: FusionContext,
    product: Kernel,
    user: Kernel,
    sums: Sequence[FusedSum],
    parts: PartialSums,
    others: Iterable[Statement] = (),
) -> bool:
    """Move sums from ``user`` into the kernel of ``product``.

    Args:
        context: The kernels, changed in place.
        product: The kernel of the matmul.
        user: The kernel that has the sums now.
        sums: The sums to move.
        parts: The partial sums that the kernel of the matmul computes.
        others: Other statements that ``user`` loses.

    Returns:
        Whether they were moved: the statements that stay must share a loop nest.
    """
    taken, totals = _rewritten(product.outputs[0], sums, parts)
    left = {statement: (total,) for statement, total in totals.items()}
    return context.join_consumers(
        product, user, KernelKind.CONTRACTION_WITH_REDUCTION, taken, left, others
    )


def _rewritten(
    made: Value, sums: Sequence[FusedSum], parts: PartialSums
) -> tuple[list[Statement], dict[Statement, Statement]]:
    """Return the statements for the partial sums, and for each sum the one that combines them."""
    dtype, squares = made.dtype, any(each.shift for each in sums)
    x = Node("in", dtype, payload=Operand(made, parts.element))
    share, count = constant(1 / parts.count, dtype), constant(float(parts.count), dtype)
    # For squares, the first statement computes the mean of a block instead of its sum.
    first = Value(dtype, parts.shape)
    taken = [parts.of_elements(first, Node("arith.mulf", dtype, (x, share)) if squares else x)]
    second = Value(dtype, parts.shape)
    if squares:
        mean = Node("in", dtype, payload=Operand(first, parts.part))
        difference = Node("arith.subf", dtype, (x, mean))
        square = Node("arith.mulf", dtype, (difference, difference))
        taken.append(parts.of_elements(second, square))
    totals = {}
    for each in sums:
        (result,) = each.statement.results
        rank = len(parts.outer) + 1

        def kept(index: Affine, statement: Statement = each.statement, rank: int = rank) -> Affine:
            """Return a function of the one loop that is not summed as one of the last loop."""
            loop = next(
                k for k, n in enumerate(statement.loops) if n > 1 and not statement.reduced[k]
            )
            return Affine(index.const, (*(0,) * (rank - 1), index.coeffs[loop]))

        whole = Affine(
            0,
            tuple(
                step for step, loop in zip(parts.part.coeffs, _outside(parts), strict=True) if loop
            ),
        )
        operands = [Operand(first, whole)]
        total = Node("in", dtype, payload=operands[0])
        if each.shift is not None:
            operands += [Operand(second, whole), Operand(each.shift.value, kept(each.shift.index))]
            a, q, p = (Node("in", dtype, payload=operand) for operand in operands)
            apart = Node("arith.subf", dtype, (a, p))
            total = Node(
                "arith.addf",
                dtype,
                (q, Node("arith.mulf", dtype, (count, Node("arith.mulf", dtype, (apart, apart))))),
            )
        elif squares:
            total = Node("arith.mulf", dtype, (total, count))
        added = FunctionResult(
            result.value,
            kept(result.index),
            tuple(map(kept, result.indices)),
            total,
            "sum",
            result.init,
        )
        over_blocks = (*(True,) * (rank - 1), False)
        totals[each.statement] = loop_nest(
            parts.shape, over_blocks, [added], each.statement.origins
        )
    return taken, totals


def _outside(parts: PartialSums) -> list[bool]:
    """Return for each loop of a partial sum whether it runs over blocks."""
    return [True] * len(parts.outer) + [False] * len(parts.inner) + [True]
