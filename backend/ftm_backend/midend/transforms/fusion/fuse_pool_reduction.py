"""Rule ``fuse-pool-reduction``: compute partial sums in the kernel of a pooling.

Example: batch norm's backward needs ``sum(dy)`` and ``sum(dy * x_hat)`` per channel. If ``dy``
comes from max pooling's backward, that kernel already holds ``dy`` and ``x_hat`` in the scratchpad,
a slab of rows at a time. So it also emits one partial sum per plane, and a small kernel adds them
up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from ftm_backend.ir.linalg.affine import Affine, row_major
from ftm_backend.ir.linalg.body_builder import loop_nest, sums
from ftm_backend.ir.linalg.function import Node, Operand, Statement, Value
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.lowering.loop_nest.plane_sums import (
    SumPlacement,
    is_sum_of,
    place_sum,
)
from ftm_backend.midend.schedule.cost import body_cycles, bytes_of, traffic_cycles
from ftm_backend.midend.schedule.loop_nest.line_buffer_plan import plan_line_buffer
from ftm_backend.midend.transforms.fusion.fusion_rule import Candidate, Cycles, FusionContext
from ftm_backend.symbolic import is_integer
from ftm_backend.target.presets import MachineParameters

__all__ = ["candidates", "is_anchor"]

Placements = dict[Statement, SumPlacement]
"""The sums that move, and where each is accumulated."""


def is_anchor(kernel: Kernel) -> bool:
    """Return whether a kernel is a pooling with line buffers that stores one tensor as a whole."""
    if kernel.kind is not KernelKind.LINE_BUFFER or kernel.ties != [None]:
        return False
    last = kernel.statements[-1]
    is_stored_once = len(last.results) == 1 and len(last.results[0].stores) == 1
    return is_stored_once and all(map(is_integer, last.loops))


def candidates(context: FusionContext, strips: Kernel) -> Iterator[Candidate]:
    """Yield fusions with the sums of each kernel that reads the pooling's result."""
    (made,) = strips.outputs
    for user in context.users(strips, KernelKind.LOOP_NEST):
        sums = _sums(strips, user) if context.is_stored_without(made, user) else []
        placements = _placements(strips, sums) if sums else None
        if placements is not None:
            yield Candidate(
                (strips, user),
                partial(_cycles, placements, context.machine),
                partial(_join, context, strips, user, placements),
            )


def _sums(strips: Kernel, user: Kernel) -> list[Statement]:
    """Return the sums of the pooling's result in ``user``.

    Empty if another statement of ``user`` reads the result, or if a sum reads a tensor that the
    pooling does not load.
    """
    last, (made,) = strips.statements[-1], strips.outputs
    sums = [s for s in user.statements if is_sum_of(last, s)]
    loaded = {made, *strips.inputs}
    is_read_otherwise = any(made in s.reads() for s in user.statements if s not in sums)
    are_loaded = all(loaded.issuperset(s.reads()) for s in sums)
    is_tied = any(tie is not None for tie in user.ties)
    return sums if are_loaded and not is_read_otherwise and not is_tied else []


def _placements(strips: Kernel, sums: Sequence[Statement]) -> Placements | None:
    """Return where the kernel accumulates the sums; None if they do not fit into its loops."""
    plan = plan_line_buffer(replace(strips, domain=None), consecutive_planes=True)
    placed = {s: None if plan is None else place_sum(plan, strips.statements[-1], s) for s in sums}
    found = {s: each for s, each in placed.items() if each is not None}
    levels = {each.levels for each in found.values()}
    return found if len(found) == len(sums) and len(levels) == 1 else None


def _cycles(placements: Placements, machine: MachineParameters) -> Cycles:
    """Return the cycles of the traffic that the sums cost now, and of the sums in the kernel."""
    read = {(o.value, o.index) for s in placements for o in s.operands}
    (one, *_) = placements
    elements = [s.results[0].yields for s in placements]
    return Cycles(
        traffic_cycles(machine, bytes_of(dict.fromkeys(value for value, _ in read))),
        body_cycles(machine, elements, len(read), prod(one.loops)),
    )


def _join(context: FusionContext, strips: Kernel, user: Kernel, placements: Placements) -> bool:
    """Rewrite the sums as partial sums, which the pooling's kernel computes."""
    parts, left = [], {}
    for statement in placements:
        part, *left[statement] = _in_parts(statement, placements[statement])
        parts.append(part)
    return context.join_consumers(strips, user, KernelKind.LINE_BUFFER_WITH_REDUCTION, parts, left)


def _in_parts(statement: Statement, kept: SumPlacement) -> Sequence[Statement]:
    """Return the sum of each plane and, if planes are summed too, the sum of these."""
    if not any(statement.reduced[k] for k in kept.planes):
        return [statement]
    (result,) = statement.results
    loops, dtype = (*kept.loops, *kept.planes), result.value.dtype
    shape = tuple(statement.loops[k] for k in loops)
    part = Value(dtype, shape)
    each = sums(part, statement.loops, loops, result.yields, statement.origins)
    read = Node("in", dtype, payload=Operand(part, Affine(0, row_major(shape))))
    total = result.over(loops, read, "sum")
    over_planes = tuple(statement.reduced[k] for k in loops)
    return each, loop_nest(shape, over_planes, [total], statement.origins)
