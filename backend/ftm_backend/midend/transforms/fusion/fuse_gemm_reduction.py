"""Pass ``fuse-gemm-reduction``: what sums the results of a product takes parts of the sums where
the product stores its blocks.

A normalization takes the sum of each channel, and of the squares of what its elements differ from
their mean. Where a channel does not fit on chip, a kernel reads the result of a convolution for
that alone. Each block of the product is a part of some channels: it is summed before it is stored,
then its squares are, of what its elements differ from the mean of the part. What is left is to add
up the parts, ``sum (x - p)^2 = sum over parts of (sum (x - a)^2 + n (a - p)^2)`` for the mean ``a``
of the ``n`` elements of a part, whatever ``p`` is. So squares are never summed of what is far from
zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, Value
from ftm_backend.ir.linalg.scalar_nodes import constant
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.lowering.gemm.reduction_epilogue import PartialSums, partial_sums_of
from ftm_backend.midend.lowering.loop_nest.reductions import starts_at_identity
from ftm_backend.midend.schedule.gemm.operand_roles import schedule
from ftm_backend.midend.schedule.gemm.panel_schedule import PanelSchedule
from ftm_backend.midend.schedule.loop_nest.capacity_check import common_domain, fits_tiles
from ftm_backend.midend.transforms.fusion.fuse_ops import KernelFormer, form_anew
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup, place_on_cores
from ftm_backend.symbolic import is_integer
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["FusedSum", "can_be_summed", "fuse_gemm_reduction", "move_sums", "summed", "sums_of"]


@dataclass(frozen=True, eq=False)
class FusedSum:
    """A statement that sums a product's elements, or, where there is a ``shift``, the squares of
    what they differ from that."""

    statement: Statement
    shift: Operand | None


def fuse_gemm_reduction(grouped: KernelModule, machine: MachineParameters) -> KernelModule:
    """Moves such sums of the program itself; those in repeats stay where they are."""
    for product in list(filter(can_be_summed, grouped.kernels)):
        users = [
            k
            for k in grouped.kernels
            if product.outputs[0] in k.inputs and k.kind == "nest" and k.repeat is None
        ]
        for user in users:
            sums = sums_of(product.outputs[0], user.statements)
            stays = _is_stored_without(grouped, product.outputs[0], user)
            found = summed(product, sums, machine) if sums and stays else None
            if found is not None and _pays(product.outputs[0], found[1], machine):
                if move_sums(grouped, product, user, user.statements, sums, found[0], machine):
                    break
    return grouped


def _is_stored_without(grouped: KernelModule, made: Value, user: Kernel) -> bool:
    """Whether a product's result goes to memory even if ``user`` does not read it: its kernel sums
    blocks as it stores them."""
    results = {tensor.value for tensor in grouped.function.results}
    return made in results or any(
        made in kernel.inputs for kernel in grouped.kernels if kernel is not user
    )


def can_be_summed(product: Kernel) -> bool:
    """Whether it is a product's kernel that makes one tensor alone, of sizes that are known."""
    if product.kind != "contraction" or product.repeat is not None or product.one_core:
        return False
    return (
        product.ties == [None]
        and product.made[0] is not None
        and all(map(is_integer, product.outputs[0].shape))
    )


def sums_of(made: Value, statements: Sequence[Statement]) -> list[FusedSum]:
    """What sums a product's elements in statements that read it for nothing else; none
    otherwise."""
    found = [_sum(made, s) for s in statements if made in s.reads()]
    return [] if None in found else [each for each in found if each is not None]


def _sum(made: Value, statement: Statement) -> FusedSum | None:
    """A statement as such a sum."""
    if (
        not statement.is_reduction
        or statement.gathers
        or statement.tensors
        or len(statement.results) != 1
    ):
        return None
    (result,) = statement.results
    if (
        result.combine != "sum"
        or not starts_at_identity(result)
        or {made.dtype, result.value.dtype} not in ({"f32"}, {"f64"})
    ):
        return None
    shift = None
    element = result.yields
    if element.op == "arith.mulf":
        one, other = element.operands
        if one is not other and not (
            one.op == other.op == "arith.subf" and _leaves(one) == _leaves(other)
        ):
            return None
        if one.op != "arith.subf" or one.operands[1].op != "in":
            return None
        element, shift = one.operands[0], one.operands[1].payload
        if shift.value is made or any(
            c for c, reduced in zip(shift.index.coeffs, statement.reduced, strict=True) if reduced
        ):
            return None
    return (
        FusedSum(statement, shift) if element.op == "in" and element.payload.value is made else None
    )


def _leaves(difference: Node) -> list[object]:
    """What a difference is of, if it is one of operands."""
    return [(n.payload.value, n.payload.index) if n.op == "in" else n for n in difference.operands]


def summed(
    product: Kernel, sums: Sequence[FusedSum], machine: MachineParameters
) -> tuple[PartialSums, float] | None:
    """The parts in which a product's kernel sums, and cycles that this takes; None where a sum does
    not go with its blocks."""
    (made,) = product.outputs
    apart, together = (
        schedule(product.aligned, machine),
        schedule(product.aligned, machine, 1 + any(each.shift for each in sums)),
    )
    parts = partial_sums_of(together)
    if (
        parts is None
        or not isinstance(apart.plan, PanelSchedule)
        or not isinstance(together.plan, PanelSchedule)
    ):
        return None
    if not all(
        parts.is_reduced_by(each.statement, o)
        for each in sums
        for o in each.statement.operands
        if o.value is made
    ):
        return None
    return parts, together.plan.cycles - apart.plan.cycles


def _pays(made: Value, taken: float, machine: MachineParameters) -> bool:
    """Whether summing takes the product's kernel less time than what need not be read again."""
    moved = ELEMENT_BYTES[made.dtype] * prod(made.shape)
    return taken < moved / (cost_rules.bytes_per_cycle(machine, machine.cores) * machine.cores)


def move_sums(
    grouped: KernelModule,
    product: Kernel,
    user: Kernel,
    kept: Sequence[Statement],
    sums: Sequence[FusedSum],
    parts: PartialSums,
    machine: MachineParameters,
) -> bool:
    """Rewrites the statements of the program, and puts them into kernels; whether what is left is a
    nest.

    kept: of the user's statements those that stay, the sums among them.
    """
    taken, totals = _rewritten(product.outputs[0], sums, parts)
    left = [totals.get(s, s) for s in kept]
    for total in totals.values():
        total.results[0].value.producer = total
    domain = common_domain(left)
    if domain is None or not fits_tiles(
        domain, machine, KernelFormer(grouped.function, machine).stored
    ):
        for s in totals:
            s.results[0].value.producer = s
        return False
    body = grouped.function.body
    at = min(body.index(s) for s in totals)
    for s, total in totals.items():
        body[body.index(s)] = total
    body[at:at] = taken
    clusters = {
        product: FusionGroup("summed", [*product.statements, *taken]),
        user: FusionGroup("nest", left),
    }
    place_on_cores(clusters[user], machine)
    form_anew(grouped, clusters, machine)
    return True


def _rewritten(
    made: Value, sums: Sequence[FusedSum], parts: PartialSums
) -> tuple[list[Statement], dict[Statement, Statement]]:
    """What sums each part, and for each sum what adds the parts up."""
    dtype, squares = made.dtype, any(each.shift for each in sums)
    element = Operand(made, parts.element)
    x = Node("in", dtype, payload=element)
    share, count = constant(1 / parts.count, dtype), constant(float(parts.count), dtype)
    # Where squares are needed, the sum of a part is its mean.
    first = Value(dtype, parts.shape)
    taken = [
        parts.of_elements(
            dtype, first, Node("arith.mulf", dtype, (x, share)) if squares else x, [element]
        )
    ]
    second = Value(dtype, parts.shape)
    if squares:
        mean = Operand(first, parts.part)
        difference = Node("arith.subf", dtype, (x, Node("in", dtype, payload=mean)))
        taken.append(
            parts.of_elements(
                dtype, second, Node("arith.mulf", dtype, (difference, difference)), [element, mean]
            )
        )
    totals = {}
    for each in sums:
        (result,) = each.statement.results
        rank = len(parts.outer) + 1

        def kept(index: Affine, statement: Statement = each.statement, rank: int = rank) -> Affine:
            """A function of the loops that are not summed, of which one has more than one trip, as
            one of the last loop."""
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
        totals[each.statement] = Statement(
            "linalg.generic", parts.shape, (*(True,) * (rank - 1), False), operands, [added]
        )
    return taken, totals


def _outside(parts: PartialSums) -> list[bool]:
    """Which loops of a part's sum are not within a part."""
    return [True] * len(parts.outer) + [False] * len(parts.inner) + [True]
