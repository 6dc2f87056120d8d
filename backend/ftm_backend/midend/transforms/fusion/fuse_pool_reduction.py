"""Pass ``fuse-pool-reduction``: what sums elements that a kernel of strips stores takes them there,
before they are stored.

The gradient of a normalization takes two sums of each channel, of the gradient behind it and of
that times what was normalized. A pooling's gradient makes the one and has read the other, in strips
of some planes. So it sums each plane, and what is left is to add up the planes of all images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ftm_backend.ir.linalg.affine import Affine, row_major, volume
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, Value
from ftm_backend.midend.analysis.body_cost import interval
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.lowering.loop_nest.line_buffer_sums import (
    SumPlacement,
    is_sum_of,
    place_sum,
)
from ftm_backend.midend.schedule.loop_nest.line_buffer_plan import plan_line_buffer
from ftm_backend.midend.transforms.fusion.fuse_ops import KernelFormer
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup, place_on_cores
from ftm_backend.symbolic import is_integer
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["fuse_pool_reduction"]


@dataclass(frozen=True, eq=False)
class _Found:
    """A kernel of strips, a kernel that sums what it makes, and how each of these sums goes with
    the strips."""

    strips: Kernel
    sums: Kernel
    kept: dict[Statement, SumPlacement]


def fuse_pool_reduction(grouped: KernelModule, machine: MachineParameters) -> KernelModule:
    """Joins such kernels of the program itself; those in repeats stay as they are."""
    for strips in [k for k in grouped.kernels if k.kind == "strips" and k.repeat is None]:
        for sums in [k for k in grouped.kernels if k.kind == "nest" and k.repeat is None]:
            found = _match(grouped, strips, sums)
            if found is not None and _pays(found, machine):
                _join(grouped, found, machine)
                break
    return grouped


def _match(grouped: KernelModule, strips: Kernel, sums: Kernel) -> _Found | None:
    """What can be joined; None if other statements need what is summed, or a sum needs what is not
    there when the strips are fetched."""
    last, (made, *others) = strips.statements[-1], strips.outputs
    writes_over_input = any(tie is not None for tie in (*strips.ties, *sums.ties))
    if made not in sums.inputs or others or writes_over_input:
        return None
    if (
        not all(map(is_integer, last.loops))
        or len(last.results) != 1
        or len(last.results[0].stores) != 1
    ):
        return None
    parts = [s for s in sums.statements if is_sum_of(last, s)]
    if any(made in s.reads() for s in sums.statements if s not in parts):
        return None
    if not parts or any(v is not made and v not in strips.inputs for s in parts for v in s.reads()):
        return None
    readers = [k for k in grouped.kernels if made in k.inputs and k is not sums]
    if not readers and made not in {tensor.value for tensor in grouped.function.results}:
        return None  # it would not be stored
    plan = plan_line_buffer(replace(strips, domain=None), consecutive_planes=True)
    kept = {s: None if plan is None else place_sum(plan, last, s) for s in parts}
    found = {s: each for s, each in kept.items() if each is not None}
    return (
        _Found(strips, sums, found)
        if len(found) == len(kept) and len({each.levels for each in found.values()}) == 1
        else None
    )


def _pays(found: _Found, machine: MachineParameters) -> bool:
    """Whether summing takes the cores less time than what is not read again takes DDR."""
    read = {(o.value, o.index) for s in found.kept for o in s.operands}
    moved = sum(ELEMENT_BYTES[v.dtype] * volume(v.shape) for v in dict.fromkeys(v for v, _ in read))
    (one, *_) = found.kept
    each = interval(machine, [s.results[0].yields for s in found.kept], len(read)) / machine.lanes(
        one.results[0].value.dtype
    )
    return moved / cost_rules.bytes_per_cycle(machine, machine.cores) > prod(one.loops) * each


def _join(grouped: KernelModule, found: _Found, machine: MachineParameters) -> None:
    """Rewrites the statements of the program, and puts them into kernels."""
    parts: list[Statement] = []
    totals: list[Statement] = []
    for statement in found.sums.statements:
        if statement not in found.kept:
            totals.append(statement)
            continue
        each = _in_parts(statement, found.kept[statement])
        parts.append(each[0])
        totals += each[1:]
        at = grouped.function.body.index(statement)
        grouped.function.body[at : at + 1] = each
        for made in each:
            made.results[0].value.producer = made
    former = KernelFormer(grouped.function, machine)
    statements = [*found.strips.statements, *parts]
    replaced = {found.strips: statements, found.sums: totals}
    former.hold(s for k in grouped.kernels if (s := replaced.get(k, k.statements)))
    rest = FusionGroup("nest", totals)
    place_on_cores(rest, machine)
    formed = {found.strips: FusionGroup("summed-strips", statements), found.sums: rest}
    kept = [kernel for kernel in grouped.kernels if kernel is not found.sums or totals]
    grouped.kernels = [
        _formed(former, kernel, formed[kernel]) if kernel in formed else kernel for kernel in kept
    ]


def _formed(former: KernelFormer, before: Kernel, cluster: FusionGroup) -> Kernel:
    kernel = former.kernel(cluster)
    kernel.name = before.name
    return kernel


def _in_parts(statement: Statement, kept: SumPlacement) -> Sequence[Statement]:
    """The sum of each plane, and what adds these up where the planes are summed, too."""
    if not any(statement.reduced[k] for k in kept.planes):
        return [statement]
    (result,) = statement.results
    rank, loops, dtype = len(statement.loops), (*kept.loops, *kept.planes), result.value.dtype
    shape = tuple(statement.loops[k] for k in loops)
    part = Value(dtype, shape)
    coeffs = [0] * rank
    for k, step in zip(loops, row_major(shape), strict=True):
        coeffs[k] = step
    places = tuple(Affine.loop(k, rank) for k in loops)
    reduced = tuple(k not in loops for k in range(rank))
    made = FunctionResult(part, Affine(0, tuple(coeffs)), places, result.yields, "sum", result.init)
    each = Statement(statement.op, statement.loops, reduced, statement.operands, [made])

    def outside(index: Affine) -> Affine:
        return Affine(index.const, tuple(index.coeffs[k] for k in loops))

    read = Node("in", dtype, payload=Operand(part, Affine(0, row_major(shape))))
    total = FunctionResult(
        result.value,
        outside(result.index),
        tuple(map(outside, result.indices)),
        read,
        "sum",
        result.init,
    )
    return each, Statement(
        "linalg.generic", shape, tuple(statement.reduced[k] for k in loops), [read.payload], [total]
    )
