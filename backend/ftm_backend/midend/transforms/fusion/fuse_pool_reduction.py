"""Pass ``fuse-pool-reduction``: compute partial sums in the kernel of a pooling.

Example: batch norm's backward needs ``sum(dy)`` and ``sum(dy * x_hat)`` per channel. If ``dy``
comes from max pooling's backward, that kernel already holds ``dy`` and ``x_hat`` in the scratchpad,
a slab of rows at a time. So it also emits one partial sum per plane, and a small kernel adds them
up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ftm_backend.ir.linalg.affine import Affine, row_major, volume
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, Value
from ftm_backend.midend.analysis.body_cost import interval
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.lowering.loop_nest.plane_sums import (
    SumPlacement,
    is_sum_of,
    place_sum,
)
from ftm_backend.midend.schedule.loop_nest.line_buffer_plan import plan_line_buffer
from ftm_backend.midend.transforms.fusion.fuse_ops import KernelBuilder
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup, place_on_cores
from ftm_backend.symbolic import is_integer
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["fuse_pool_reduction"]


@dataclass(frozen=True, eq=False)
class _Match:
    """A pooling kernel, a kernel that sums its result, and where each sum is accumulated."""

    strips: Kernel
    sums: Kernel
    kept: dict[Statement, SumPlacement]


def fuse_pool_reduction(module: KernelModule, machine: MachineParameters) -> KernelModule:
    """Move sums into line-buffered pooling kernels, except inside of sequential loops."""
    for strips in [k for k in module.kernels if k.kind == "strips" and k.repeat is None]:
        for sums in [k for k in module.kernels if k.kind == "nest" and k.repeat is None]:
            found = _match(module, strips, sums)
            if found is not None and _pays(found, machine):
                _join(module, found, machine)
                break
    return module


def _match(module: KernelModule, strips: Kernel, sums: Kernel) -> _Match | None:
    """Return which sums can move from kernel ``sums`` into kernel ``strips``.

    None if another statement of ``sums`` reads the pooling's result, or if a sum reads a tensor
    that the pooling does not load.
    """
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
    readers = [k for k in module.kernels if made in k.inputs and k is not sums]
    if not readers and made not in {tensor.value for tensor in module.function.results}:
        return None  # the pooling's result would not be stored
    plan = plan_line_buffer(replace(strips, domain=None), consecutive_planes=True)
    kept = {s: None if plan is None else place_sum(plan, last, s) for s in parts}
    found = {s: each for s, each in kept.items() if each is not None}
    return (
        _Match(strips, sums, found)
        if len(found) == len(kept) and len({each.levels for each in found.values()}) == 1
        else None
    )


def _pays(found: _Match, machine: MachineParameters) -> bool:
    """Return whether the sums cost fewer cycles than the traffic that they save."""
    read = {(o.value, o.index) for s in found.kept for o in s.operands}
    moved = sum(ELEMENT_BYTES[v.dtype] * volume(v.shape) for v in dict.fromkeys(v for v, _ in read))
    (one, *_) = found.kept
    each = interval(machine, [s.results[0].yields for s in found.kept], len(read)) / machine.lanes(
        one.results[0].value.dtype
    )
    return moved / cost_rules.bytes_per_cycle(machine, machine.cores) > prod(one.loops) * each


def _join(module: KernelModule, found: _Match, machine: MachineParameters) -> None:
    """Rewrite the sums as partial sums, and rebuild both kernels."""
    parts: list[Statement] = []
    totals: list[Statement] = []
    for statement in found.sums.statements:
        if statement not in found.kept:
            totals.append(statement)
            continue
        each = _in_parts(statement, found.kept[statement])
        parts.append(each[0])
        totals += each[1:]
        at = module.function.body.index(statement)
        module.function.body[at : at + 1] = each
        for made in each:
            made.results[0].value.producer = made
    builder = KernelBuilder(module.function, machine)
    statements = [*found.strips.statements, *parts]
    replaced = {found.strips: statements, found.sums: totals}
    builder.hold(s for k in module.kernels if (s := replaced.get(k, k.statements)))
    rest = FusionGroup("nest", totals)
    place_on_cores(rest, machine)
    formed = {found.strips: FusionGroup("summed-strips", statements), found.sums: rest}
    kept = [kernel for kernel in module.kernels if kernel is not found.sums or totals]
    module.kernels = [
        _formed(builder, kernel, formed[kernel]) if kernel in formed else kernel for kernel in kept
    ]


def _formed(builder: KernelBuilder, before: Kernel, group: FusionGroup) -> Kernel:
    kernel = builder.kernel(group)
    kernel.name = before.name
    return kernel


def _in_parts(statement: Statement, kept: SumPlacement) -> Sequence[Statement]:
    """Return the sum of each plane and, if planes are summed too, the sum of these."""
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
    each = Statement(
        statement.op,
        statement.loops,
        reduced,
        statement.operands,
        [made],
        origins=statement.origins,
    )

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
        "linalg.generic",
        shape,
        tuple(statement.reduced[k] for k in loops),
        [read.payload],
        [total],
        origins=statement.origins,
    )
