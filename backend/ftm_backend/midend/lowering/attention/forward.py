"""Lowering of attention's forward (flash attention): scores stay on chip.

A *unit* of work is some blocks of queries (its *parts*) of one batch entry. Its core iterates over
blocks of keys, each loaded once for all parts. For each part and block of keys::

    S = K . Q^T                                   # keys x queries, in AM
    new_maximum = max(maximum, max(S))            # per query: online softmax
    scale = exp(maximum - new_maximum)
    P = exp(S - new_maximum)
    total = total * scale + sum(P)
    O^T = O^T * scale + V^T . P

With this layout the matrix unit broadcasts elements of K and V, so both are read as they are in
memory, and the softmax reduces along columns of a tile, which needs no operations across lanes.

All parts of all blocks of all units of a core are one sequence of *steps*. A step starts loads of
later steps, then computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from ftm_backend.ir.linalg.body_builder import constant, identity
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.kernel_ir.kernel import Kernel, core_share
from ftm_backend.midend.lowering.attention.block_loads import (
    BlockOperand,
    BlockTensors,
    ComputedBlock,
)
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices, TileBody
from ftm_backend.midend.schedule.attention.forward_tiling import AttentionTiling, attention_plan
from ftm_backend.midend.schedule.attention.match_forward import AttentionPattern, match_attention
from ftm_backend.midend.schedule.attention.score_expressions import is_fully_masked, substitute

__all__ = ["lower"]


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Emit the kernel's function body at the insertion point.

    Raises:
        ValueError: The kernel is not an attention that fits on chip.
    """
    pattern = match_attention(kernel.statements)
    plan = None if pattern is None else attention_plan(pattern, kernel.machine)
    if pattern is None or plan is None:
        raise ValueError("statements of an attention kernel make no attention that fits on chip")
    _Lowering(kernel, pattern, plan, b).build()


class _Step(NamedTuple):
    """Indices of a step.

    Attributes:
        number: Position in the core's sequence.
        unit: Unit.
        entry: Batch entry of the unit.
        block: Block of keys.
        part: Block of queries within the unit.
        queries: Block of queries within the batch entry.
        slices: Positions of all blocks.
    """

    number: Index
    unit: Index
    entry: Index
    block: Index
    part: Index
    queries: Index
    slices: Slices


class _Lowering:
    def __init__(
        self, kernel: Kernel, pattern: AttentionPattern, plan: AttentionTiling, b: TileBuilder
    ) -> None:
        self.kernel, self.pattern, self.plan, self.b = kernel, pattern, plan, b
        self.batch, self.m, self.n, self.d, self.v = pattern.axes
        self.sizes = {self.m: plan.m, self.n: plan.n}
        self.m_blocks, self.n_blocks = (
            -(-pattern.extents[a] // self.sizes[a]) for a in (self.m, self.n)
        )
        self.entry_units = -(-self.m_blocks // plan.parts)
        self.blocks = BlockTransfers(b, pattern.extents)
        self._declare()

    def _declare(self) -> None:
        b, pattern, plan, blocks = self.b, self.pattern, self.plan, self.blocks
        d = pattern.extents[self.d]
        v = pattern.extents[self.v]
        acc_dtype = pattern.accumulator
        parts = plan.parts
        self.q = BlockOperand(blocks, pattern.q, (self.m, self.d), (plan.m, d), "am")
        self.q.declare(2 * parts if self.q.transposed else parts, parts if self.q.transposed else 1)
        self.q_transposed = b.tile(pattern.q.dtype, d, plan.m, depth=parts)
        self.keys = BlockOperand(blocks, pattern.k, (self.n, self.d), (plan.n, d), plan.space)
        self.values = BlockOperand(blocks, pattern.v, (self.n, self.v), (plan.n, v), plan.space)
        for operand in (self.keys, self.values):
            operand.declare(2, 1)
        most = (plan.n, plan.m)
        self.products = b.tile(pattern.product.dtype, *most)
        self.tensors = BlockTensors(blocks, (self.n, self.m), most)
        self.score = ComputedBlock(self.tensors, pattern.score, [pattern.product])
        self.scores = (
            self.products
            if pattern.score.dtype == pattern.product.dtype
            else b.tile(acc_dtype, *most)
        )
        self.least = Node("least", acc_dtype)
        self.exponential = Node(
            "math.exp", acc_dtype, (Node("arith.subf", acc_dtype, (pattern.score, self.least)),)
        )
        weight = substitute(pattern.weight, {id(pattern.exponential): self.exponential})
        self.weight = ComputedBlock(
            self.tensors, weight, [pattern.score, self.least, pattern.empty]
        )
        self.weights = (
            self.scores
            if pattern.weight.dtype == acc_dtype
            else b.tile(pattern.weight.dtype, *most)
        )
        self.largest, self.total = (b.tile(acc_dtype, 1, plan.m, depth=parts) for _ in range(2))
        self.block_largest, self.scale, self.subtracted = (
            b.tile(acc_dtype, 1, plan.m) for _ in range(3)
        )
        self.empty = b.tile("i1", 1, plan.m)
        self.sums = b.tile(acc_dtype, v, plan.m, depth=parts)
        self.by_columns = self._stored_by_columns()
        self.result = self.sums if self.by_columns else b.tile(acc_dtype, plan.m, v, depth=2)
        sides = ((self.v,), (self.m,)) if self.by_columns else ((self.m,), (self.v,))
        epilogue = pattern.epilogue
        self.body = TileBody(
            blocks,
            *sides,
            (self.result.rows, self.result.columns),
            epilogue.operands,
            [(o.element, o.stores) for o in epilogue.outputs],
            pattern.access,
            {id(epilogue.product): self.result},
        )

    def _stored_by_columns(self) -> bool:
        """Whether the stored result is contiguous along columns (m) and not along rows (v)."""
        indices = [
            self.pattern.access(s.index) for o in self.pattern.epilogue.outputs for s in o.stores
        ]
        return bool(indices) and all(
            x.coeffs[self.m] == 1 and x.coeffs[self.v] != 1 for x in indices
        )

    # --- steps

    def build(self) -> None:
        """Emit the steps of this core."""
        b, parts = self.b, self.plan.parts
        units = prod(self.pattern.extents[a] for a in self.batch) * self.entry_units
        self.low, high = core_share(b, self.kernel, units)
        steps = b.mul(b.sub(high, self.low), self.n_blocks * parts)
        with self.b.where(*([] if isinstance(steps, int) else [("lt", 0, steps)])):
            self._fetch_queries(self._at(0))
            self._fetch_keys_and_values(self._at(0), first=True)
            self._fetch_score_tensors(self._at(0))
            for part in range(1, parts):
                self._fetch_queries(self._at(part))
        with b.for_(0, steps) as number:
            self._step(self._at(number), steps)

    def _step(self, step: _Step, steps: Index) -> None:
        b, ends, parts = self.b, self.n_blocks > 1, self.plan.parts
        with self.b.where(*([("eq", step.part, 0)] if parts > 1 else [])):
            self._fetch_ahead(
                self._at(b.add(step.number, parts)), steps, self._fetch_keys_and_values
            )
        if self.tensors.reads:
            self._fetch_ahead(self._at(b.add(step.number, 1)), steps, self._fetch_score_tensors)
        with self.b.where(*([("eq", step.block, 0)] if ends else [])):
            with self.b.where(*self._has_part(step)):
                self._begin_queries(step)
            self._fetch_ahead(
                self._at(b.add(step.number, self.n_blocks * parts)), steps, self._fetch_queries
            )
        with self.b.where(*self._has_part(step)):
            self._process_block(step)
            with self.b.where(*([("eq", step.block, self.n_blocks - 1)] if ends else [])):
                self._finish_queries(step)

    def _fetch_ahead(self, step: _Step, steps: Index, fetch: Callable[[_Step], None]) -> None:
        with self.b.where(("lt", step.number, steps)):
            fetch(step)

    def _at(self, number: Index) -> _Step:
        b, parts = self.b, self.plan.parts
        unit = b.add(self.low, b.div(number, self.n_blocks * parts))
        block, part = b.rem(b.div(number, parts), self.n_blocks), b.rem(number, parts)
        entry = b.div(unit, self.entry_units)
        queries = b.add(b.mul(b.rem(unit, self.entry_units), parts), part)
        slices: Slices = {axis: (0, self.pattern.extents[axis]) for axis in (self.d, self.v)}
        slices |= self.blocks.index_slices(self.batch, entry)
        for axis, at in ((self.m, queries), (self.n, block)):
            size, extent = self.sizes[axis], self.pattern.extents[axis]
            start = b.mul(at, size)
            slices[axis] = (
                start,
                size if extent % size == 0 else b.min(size, b.sub(extent, start)),
            )
        return _Step(number, unit, entry, block, part, queries, slices)

    def _has_part(self, step: _Step) -> list[tuple[str, Index, Index]]:
        """Return the condition that the part exists: the last unit of an entry may have fewer."""
        return [("lt", step.queries, self.m_blocks)] if self.m_blocks % self.plan.parts else []

    def _slot(self, step: _Step) -> Index:
        """Return the slot of a step's keys and values.

        If one block has all keys of a batch entry, it stays for all of the entry's units.
        """
        return step.entry if self.n_blocks == 1 else self.b.div(step.number, self.plan.parts)

    def _has_new_keys(self, step: _Step) -> list[tuple[str, Index, Index]]:
        """Return the condition that a step's keys and values differ from the previous step's."""
        if self.n_blocks > 1:
            return [("eq", step.part, 0)] if self.plan.parts > 1 else []
        return [("eq", step.queries, 0)] if self.m_blocks > 1 else []

    def _fetch_keys_and_values(self, step: _Step, first: bool = False) -> None:
        """Start the loads of keys and values."""
        with self.b.where(*([] if first or self.n_blocks > 1 else self._has_new_keys(step))):
            self.keys.fetch(step.slices, self._slot(step))
            self.values.fetch(step.slices, self._slot(step))

    def _fetch_score_tensors(self, step: _Step) -> None:
        """Start the loads of tensors per score, such as masks."""
        with self.b.where(*self._has_part(step)):
            self.tensors.fetch(step.slices, step.number)

    def _queries(self, step: _Step) -> Index:
        return self.b.add(self.b.mul(step.unit, self.plan.parts), step.part)

    def _fetch_queries(self, step: _Step) -> None:
        with self.b.where(*self._has_part(step)):
            self.q.fetch(step.slices, self._queries(step))

    # --- compute

    def _begin_queries(self, step: _Step) -> None:
        """Emit what precedes a block of queries."""
        b, columns, acc_dtype = self.b, step.slices[self.m][1], self.pattern.accumulator
        self.q.build(step.slices, self._queries(step), step.number)
        if not self.q.transposed:
            b.transpose(
                *self.q.at(self._queries(step), step.number), self.q_transposed, step.number
            )
        starts = [constant(identity("max", acc_dtype), acc_dtype), constant(0, acc_dtype)]
        b.map(
            1,
            columns,
            [],
            [(t, step.number, "full") for t in (self.largest, self.total)],
            lambda _: starts,
        )
        b.map(
            step.slices[self.v][1],
            columns,
            [],
            [(self.sums, step.number, "full")],
            lambda _: [constant(0, acc_dtype)],
        )

    def _compute_keys_and_values(self, step: _Step) -> None:
        """Compute new keys and values that are not plain tensors."""
        made = [x for x in (self.keys, self.values) if x.computed]
        conditions = self._has_new_keys(step)
        if not made:
            return
        if conditions and self.n_blocks == 1:  # also in the core's first step
            (_, a, b), first = conditions[0], self.b.compare("eq", step.number, 0)
            conditions = [("lt", 0, self.b.add(first, self.b.compare("eq", a, b)))]
        with self.b.where(*conditions):
            for operand in made:
                operand.build(step.slices, self._slot(step), 0)

    def _process_block(self, step: _Step) -> None:
        """Emit the scores of one block of keys, and update the running statistics and result."""
        b, pattern, slices = self.b, self.pattern, step.slices
        self._compute_keys_and_values(step)
        keys, values = (x.at(self._slot(step), 0) for x in (self.keys, self.values))
        queries = (
            self.q.at(self._queries(step), step.number)
            if self.q.transposed
            else (self.q_transposed, step.number)
        )
        b.mm(*keys, *queries, self.products, 0, trans_a=self.keys.transposed)
        self.tensors.transpose(step.number)
        largest, given = (self.block_largest, 0, "cmax"), [(self.products, 0, "full")]
        if pattern.score is pattern.product:
            self.score.map(slices, step.number, given, [largest])
        else:
            self.score.map(
                slices, step.number, given, [(self.scores, 0, "full"), largest], [pattern.score]
            )
        self._rescale(step)
        self.weight.map(
            slices,
            step.number,
            [(self.scores, 0, "full"), (self.subtracted, 0, "row"), (self.empty, 0, "row")],
            [(self.weights, 0, "full"), (self.total, step.number, "csum.acc")],
            [self.exponential],
        )
        b.mm(
            *values,
            self.weights,
            0,
            self.sums,
            step.number,
            acc=True,
            trans_a=not self.values.transposed,
        )

    def _rescale(self, step: _Step) -> None:
        """Emit the new maxima, and rescale the sums to them."""
        columns, acc_dtype = step.slices[self.m][1], self.pattern.accumulator

        def rows(arguments: Sequence[Node]) -> list[Node]:
            before, block, total = arguments
            largest = Node("arith.maximumf", acc_dtype, (before, block))
            empty = is_fully_masked(largest)
            scale = Node("math.exp", acc_dtype, (Node("arith.subf", acc_dtype, (before, largest)),))
            scale = Node("arith.select", acc_dtype, (empty, constant(1, acc_dtype), scale))
            subtracted = Node("arith.select", acc_dtype, (empty, constant(0, acc_dtype), largest))
            return [
                largest,
                scale,
                subtracted,
                empty,
                Node("arith.mulf", acc_dtype, (total, scale)),
            ]

        now = step.number
        held, total = (self.largest, now, "full"), (self.total, now, "full")
        self.b.map(
            1,
            columns,
            [held, (self.block_largest, 0, "full"), total],
            [held, *((t, 0, "full") for t in (self.scale, self.subtracted, self.empty)), total],
            rows,
        )
        if self.n_blocks > 1:
            self._scale(step, self.scale, 0)

    def _scale(self, step: _Step, factors: TileDecl, slot: Index) -> None:
        """Multiply the running result by a factor per query."""
        sums, acc_dtype = (self.sums, step.number, "full"), self.pattern.accumulator
        self.b.map(
            step.slices[self.v][1],
            step.slices[self.m][1],
            [sums, (factors, slot, "row")],
            [sums],
            lambda x: [Node("arith.mulf", acc_dtype, tuple(x))],
        )

    def _finish_queries(self, step: _Step) -> None:
        """Divide by the sums of the rows, run the epilogue, and store the result."""
        b, acc_dtype = self.b, self.pattern.accumulator

        def inverse(arguments: Sequence[Node]) -> list[Node]:
            total, largest = arguments
            # A row without scores has the weights that the program defines, not quotients.
            if self.pattern.given:
                total = Node(
                    "arith.select",
                    acc_dtype,
                    (is_fully_masked(largest), constant(1, acc_dtype), total),
                )
            return [Node("arith.divf", acc_dtype, (constant(1, acc_dtype), total))]

        total, now = (self.total, step.number, "full"), step.number
        b.map(1, step.slices[self.m][1], [total, (self.largest, now, "full")], [total], inverse)
        self._scale(step, self.total, now)
        if not self.by_columns:
            b.transpose(self.sums, now, self.result, now)
        self.body.build(step.slices, now)
