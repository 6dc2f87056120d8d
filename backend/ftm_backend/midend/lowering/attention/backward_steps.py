"""Attention's backward: slices of keys stay on chip while blocks of queries pass.

A group of cores computes a batch entry. Each core holds a slice of the keys and values, and their
gradients, in AM. For each block of queries:

1. Each core computes scores and the products of their gradients (keys x queries, in AM), and the
   maximum, sum and dot of each row over its slice.
2. The group exchanges these statistics through memory, and meets at a barrier.
3. Each core updates dK and dV of its slice, and computes a partial sum of dQ.
4. One step later, after the next barrier, each core adds up the partial sums of some rows of dQ.

A group of one core needs neither exchange nor barrier.

If the slices of a group do not cover the keys, each core has several, one per *round*. All rounds
run twice: the first time for the statistics, then for the gradients. If there are several blocks of
queries, statistics and partial sums of dQ wait in memory for the next round (`QueryBuffers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ftm_backend.ir.linalg.body_builder import constant
from ftm_backend.ir.linalg.function import Node, Value
from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.midend.kernel_ir.kernel import Kernel, core_share
from ftm_backend.midend.lowering.attention.backward_elements import (
    GradientElements,
    RowStatistics,
    StoredGradient,
)
from ftm_backend.midend.lowering.attention.backward_workspace import (
    BackwardSizes,
    GroupExchange,
    QueryBuffers,
)
from ftm_backend.midend.lowering.attention.block_loads import BlockOperand
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices
from ftm_backend.midend.schedule.attention.match_backward import AttentionBackwardPattern

__all__ = ["BackwardSteps"]

Condition = tuple[str, Index, Index]


class _Step(NamedTuple):
    """Indices of a step.

    Attributes:
        number: Position in the core's sequence.
        slice: Slice in the core's sequence.
        entry: Batch entry.
        visit: Slice within the entry; with several rounds, each slice is visited twice.
        block: Block of queries.
        slices: Positions of slice and block.
    """

    number: Index
    slice: Index
    entry: Index
    visit: Index
    block: Index
    slices: Slices


class BackwardSteps:
    """Declares the tiles and emits the steps."""

    def __init__(
        self,
        pattern: AttentionBackwardPattern,
        b: TileBuilder,
        sizes: BackwardSizes,
        exchanged: Sequence[Value],
        waiting: Sequence[Value],
    ) -> None:
        """Declare the tiles.

        Args:
            pattern: The matched pattern.
            b: The builder.
            sizes: Sizes of the plan.
            exchanged: Buffers of the exchange, if groups have several cores.
            waiting: Buffers of what waits for the next round, if anything does.
        """
        self.pattern, self.b, self.sizes = pattern, b, sizes
        self.batch, self.m, self.n, self.d, self.v = pattern.axes
        self.blocks, self.width = BlockTransfers(b, pattern.extents), pattern.extents[self.d]
        self.member: Index = 0
        self.query_blocks = -(-pattern.extents[self.m] // sizes.queries)
        self.visits = 2 * sizes.rounds if sizes.rounds > 1 else 1
        self.has_rounds = sizes.rounds > 1
        # One block of queries stays in its slot. Otherwise a step's store has ended before the load
        # of the next round: either the load needs the same slot, or a later step has used it.
        self.depth = min(2, self.query_blocks) if self.has_rounds else 2
        self._declare_operands()
        self.elements = GradientElements(pattern, self.blocks, sizes)
        self.rows = RowStatistics(pattern, b, sizes, self.depth)
        self.exchange: GroupExchange | None = None
        self.waiting: QueryBuffers | None = None
        if sizes.cores > 1:
            self.exchange = GroupExchange(
                self.blocks, sizes, exchanged, pattern.accumulator, self.width
            )
        if self.has_rounds and self.query_blocks > 1:
            self.waiting = QueryBuffers(self.blocks, sizes, waiting, self.width)
        self._declare_gradients()

    # --- tiles

    def _declare_operands(self) -> None:
        pattern, b, (keys, queries, *_, slots) = self.pattern, self.b, self.sizes
        d, v = pattern.extents[self.d], pattern.extents[self.v]
        inner = ((self.d, d), (self.v, v))
        self.resident = [
            BlockOperand(self.blocks, x, (self.n, a), (keys, n), "am")
            for x, (a, n) in zip((pattern.k, pattern.v), inner, strict=True)
        ]
        self.passing = [
            BlockOperand(self.blocks, x, (self.m, a), (queries, n), "am")
            for x, (a, n) in zip((pattern.q, pattern.grad), inner, strict=True)
        ]
        for operand in self.resident:
            operand.declare(slots, 1)
        for operand in self.passing:
            operand.declare(2, 1)
        self.keys = b.tile(pattern.k.dtype, keys, d) if self.resident[0].transposed else None
        """Keys as rows, if they are loaded as columns."""
        self.transposed = [b.tile(x.node.dtype, *x.max_extents[::-1]) for x in self.passing]

    def _declare_gradients(self) -> None:
        pattern, b, (keys, queries, *_) = self.pattern, self.b, self.sizes
        acc_dtype, d, v = pattern.accumulator, self.width, pattern.extents[self.v]
        self.of_k, self.of_v = b.tile(acc_dtype, keys, d), b.tile(acc_dtype, keys, v)
        self.of_q = b.tile(acc_dtype, queries, d, depth=self.depth)
        self.stored = [
            StoredGradient(self.blocks, gradient, sums, (self.n,), (axis,))
            for gradient, sums, axis in (
                (pattern.of_k, self.of_k, self.d),
                (pattern.of_v, self.of_v, self.v),
            )
        ]
        if self.exchange is not None:
            self.added = b.tile(acc_dtype, 1, self.exchange.share * d, depth=2)
            sides: tuple[Sequence[int], Sequence[int]] = ((), (self.m, self.d))
            self.stored_q = StoredGradient(self.blocks, pattern.of_q, self.added, *sides)
        else:
            sides = ((self.m,), (self.d,))
            self.stored_q = StoredGradient(self.blocks, pattern.of_q, self.of_q, *sides)

    # --- steps

    def build(self, kernel: Kernel) -> None:
        """Emit the steps of this core."""
        b = self.b
        entries = self._share_entries(kernel)
        self.steps = b.mul(entries, self.query_blocks * self.visits)
        first, is_known = self._at(0), isinstance(entries, int)
        has_steps: list[Condition] = [] if self._is_grouped or is_known else [("lt", 0, entries)]
        with b.where(*self._has_step(first), *has_steps):
            self._fetch_slice(first)
            self._fetch_queries(first)
        with b.for_(0, self.steps) as number:
            self._step(self._at(number))
        if self.exchange is not None:
            b.barrier()
            last = self._at(b.sub(self.steps, 1))
            with b.where(*self._has_step(last)):
                self.exchange.fetch_sums(last.number, self._queries(last))
                self._add_up(self.exchange, last)

    @property
    def _is_grouped(self) -> bool:
        """Whether a core works for a numbered group, which has its own buffers."""
        return self.exchange is not None or self.waiting is not None

    def _share_entries(self, kernel: Kernel) -> Index:
        """Find this core's batch entries, and return the number of those that it iterates over."""
        b, entries = self.b, prod(self.pattern.extents[a] for a in self.batch)
        if not self._is_grouped:
            self.low, self.high = core_share(b, kernel, entries)
            return b.sub(self.high, self.low)
        core, cores = kernel.core(b)
        groups = b.max(1, b.min(self.sizes.groups, b.div(cores, self.sizes.cores)))
        group, self.member = b.div(core, self.sizes.cores), b.rem(core, self.sizes.cores)
        if self.exchange is not None:
            self.exchange.buffers.group, self.exchange.member = group, self.member
        if self.waiting is not None:
            self.waiting.group = group
        self.low, self.high = (
            b.min(b.div(b.mul(x, entries), groups), entries) for x in (group, b.add(group, 1))
        )
        # All cores execute as many barriers as the busiest ones.
        return b.div(b.add(b.sub(groups, 1), entries), groups)

    def _step(self, step: _Step) -> None:
        b = self.b
        with b.where(*self._has_step(step)):
            self._scores(step)
        if self.exchange is not None:
            b.barrier()
            with b.where(*self._has_step(step), *self._makes_gradients(step)):
                self.exchange.fetch_rows(step.number, self._queries(step))
        ahead = self._at(b.add(step.number, 1))
        with b.where(("lt", ahead.number, self.steps), *self._has_step(ahead)):
            self._fetch_queries(ahead)
        before = self._at(b.sub(step.number, 1))
        has_sums = [("lt", 0, step.number), *self._has_step(before), *self._ends(before)]
        if self.exchange is not None:
            with b.where(*has_sums):
                self.exchange.fetch_sums(before.number, self._queries(before))
        with b.where(*self._has_step(step)):
            self._gradients(step)
        if self.exchange is not None:
            with b.where(*has_sums):
                self._add_up(self.exchange, before)

    def _at(self, number: Index) -> _Step:
        b, pattern, sizes = self.b, self.pattern, self.sizes
        passed, block = b.div(number, self.query_blocks), b.rem(number, self.query_blocks)
        entry, visit = b.add(self.low, b.div(passed, self.visits)), b.rem(passed, self.visits)
        slices: Slices = {axis: (0, pattern.extents[axis]) for axis in (self.d, self.v)}
        slices |= self.blocks.index_slices(self.batch, entry)
        held = b.add(b.mul(b.rem(visit, sizes.rounds), sizes.cores), self.member)
        for axis, at, size in ((self.n, held, sizes.keys), (self.m, block, sizes.queries)):
            extent, start = pattern.extents[axis], b.mul(at, size)
            slices[axis] = (
                start,
                size if extent % size == 0 else b.min(size, b.sub(extent, start)),
            )
        return _Step(number, passed, entry, visit, block, slices)

    def _queries(self, step: _Step) -> Index:
        return step.slices[self.m][1]

    # --- conditions

    def _has_step(self, step: _Step) -> list[Condition]:
        """Return the condition that this core has such a step; otherwise it only waits."""
        return [("lt", step.entry, self.high)] if self._is_grouped else []

    def _first(self, step: _Step) -> list[Condition]:
        return [("eq", step.block, 0)] if self.query_blocks > 1 else []

    def _last(self, step: _Step) -> list[Condition]:
        return [("eq", step.block, self.query_blocks - 1)] if self.query_blocks > 1 else []

    def _makes_statistics(self, step: _Step) -> list[Condition]:
        return [("lt", step.visit, self.sizes.rounds)] if self.has_rounds else []

    def _makes_gradients(self, step: _Step) -> list[Condition]:
        return [("lt", self.sizes.rounds - 1, step.visit)] if self.has_rounds else []

    def _ends(self, step: _Step) -> list[Condition]:
        """Return the condition that the step's sums of dQ are those of all rounds."""
        return [("eq", step.visit, self.visits - 1)] if self.has_rounds else []

    # --- transfers

    def _fetch_slice(self, step: _Step) -> None:
        """Start the loads of keys and values."""
        for operand in self.resident:
            operand.fetch(step.slices, step.slice)

    def _fetch_next_slice(self, step: _Step) -> None:
        """Start the loads of the next slice, after more urgent transfers."""
        later = self._at(self.b.add(step.number, self.query_blocks if self.sizes.slots > 1 else 1))
        conditions = self._first(step) if self.sizes.slots > 1 else self._last(step)
        with self.b.where(*conditions, ("lt", later.entry, self.high)):
            self._fetch_slice(later)

    def _fetch_queries(self, step: _Step) -> None:
        """Start the loads of queries, of the result's gradient, and of tensors per score.

        Also of what earlier rounds computed for these queries.
        """
        for operand in self.passing:
            operand.fetch(step.slices, step.number)
        self.elements.tensors.fetch(step.slices, step.number)
        if self.waiting is not None:
            place = (step.block, self.member)
            with self.b.where(("lt", 0, step.visit)):
                self.waiting.load_rows(*place, self.rows.running, step.number, self._queries(step))
            with self.b.where(("lt", self.sizes.rounds, step.visit)):
                self.waiting.load_sums(*place, self.of_q, step.number, self._queries(step))

    # --- compute

    def _zero(self, _: Sequence[Node]) -> list[Node]:
        return [constant(0, self.pattern.accumulator)]

    def _scores(self, step: _Step) -> None:
        """Emit scores, products of their gradients, and the row statistics of this core's keys."""
        b, slices = self.b, step.slices
        rows, running = self._queries(step), self.rows.running
        if self.has_rounds:
            with b.where(("eq", step.visit, 0)):
                self.rows.begin(step.number, rows)
            with b.where(("eq", step.visit, self.sizes.rounds)):
                b.map(rows, self.width, [], [(self.of_q, step.number, "full")], self._zero)
        with b.where(*self._first(step)):
            for operand in self.resident:
                operand.build(slices, step.slice, 0)
            if self.keys is not None:
                b.transpose(*self.resident[0].at(step.slice, 0), self.keys, 0)
        for resident, passing, transposed, product in zip(
            self.resident, self.passing, self.transposed, self.elements.products, strict=True
        ):
            passing.build(slices, step.number, 0)
            b.transpose(*passing.at(step.number, 0), transposed, 0)
            columns = passing.at(step.number, 0) if passing.transposed else (transposed, 0)
            b.mm(*resident.at(step.slice, 0), *columns, product, 0, trans_a=resident.transposed)
        self.elements.tensors.transpose(step.number)
        with b.where(*self._makes_statistics(step)):
            if self.has_rounds:
                self._fetch_next_slice(step)
            self.rows.add_slice(self.elements, slices, step.number, rows)
            if self.waiting is not None:
                self.waiting.store_rows(step.block, self.member, running, step.number, rows)
        if self.exchange is not None:
            with b.where(*self._makes_gradients(step)):
                self.exchange.send_rows(step.number, running, rows)

    def _gradients(self, step: _Step) -> None:
        """Emit what a block of queries adds to the gradients."""
        b, slices, elements = self.b, step.slices, self.elements
        with b.where(*self._makes_gradients(step)):
            known = self.rows.finish(
                step.number, self._queries(step), self.exchange, elements.is_kept
            )
            elements.compute(slices, step.number, known)
            slopes = elements.elements[0]
            keys = self.resident[0].at(step.slice, 0) if self.keys is None else (self.keys, 0)
            b.mm(slopes, 0, *keys, self.of_q, step.number, acc=self.has_rounds, trans_a=True)
            self._store_sums(step)
            self._fetch_next_slice(step)
            with b.where(*self._first(step)):
                for sums in (self.of_k, self.of_v):
                    b.map(slices[self.n][1], sums.columns, [], [(sums, 0, "full")], self._zero)
            for made, passing, transposed, sums in zip(
                elements.elements,
                self.passing,
                self.transposed,
                (self.of_k, self.of_v),
                strict=True,
            ):
                rows_of = (transposed, 0) if passing.transposed else passing.at(step.number, 0)
                b.mm(made, 0, *rows_of, sums, 0, acc=True)
            with b.where(*self._last(step)):
                for stored in self.stored:
                    stored.build(slices)

    def _store_sums(self, step: _Step) -> None:
        """Store dQ or send it to the group after the last round, else let it wait."""
        b, rows = self.b, self._queries(step)
        if self.waiting is not None:
            with b.where(("lt", step.visit, self.visits - 1)):
                self.waiting.store_sums(step.block, self.member, self.of_q, step.number, rows)
        with b.where(*self._ends(step)):
            if self.exchange is not None:
                self.exchange.send_sums(step.number, self.of_q, rows)
            else:
                self.stored_q.build(step.slices, step.number)

    def _add_up(self, exchange: GroupExchange, step: _Step) -> None:
        """Add up the partial sums of this core's rows, and store dQ."""
        b, (start, rows) = self.b, step.slices[self.m]
        low, shared = exchange.shared(rows)
        with b.where(("lt", 0, shared)):
            columns = b.mul(shared, self.width)
            sums = [(self.added, step.number, "csum")]
            b.map(self.sizes.cores, columns, [(exchange.arrived, 0, "full")], sums, list)
            self.stored_q.build(step.slices | {self.m: (b.add(start, low), shared)}, step.number)
