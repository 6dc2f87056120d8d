"""Attention's backward in one pass of five products: a group of cores holds all keys of an entry.

Each core keeps a slice of the keys and values, and their gradients, in AM, while blocks of queries
pass. For each block of queries:

1. Each core computes scores and the products of their gradients (keys x queries, in AM), and the
   maximum, sum and dot of each row over its slice.
2. The group exchanges these statistics through memory, and meets at a barrier.
3. Each core updates dK and dV of its slice, and computes a partial sum of dQ.
4. One step later, after the next barrier, each core adds up the partial sums of some rows of dQ.

A group of one core needs neither exchange nor barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ftm_backend.ir.linalg.function import Node, Value
from ftm_backend.ir.linalg.scalar_nodes import constant
from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.kernel_ir.kernel import Kernel, core_share
from ftm_backend.midend.lowering.attention.backward_exchange import CoreGroupSizes, GroupExchange
from ftm_backend.midend.lowering.attention.block_loads import BlockOperand, ComputedBlock
from ftm_backend.midend.lowering.gemm.block_transfers import (
    BlockTransfers,
    Slices,
    TileBody,
    nodes_above,
)
from ftm_backend.midend.schedule.attention.match_backward import (
    AttentionBackwardPattern,
    OperandGradient,
)
from ftm_backend.midend.schedule.attention.score_expressions import is_fully_masked, substitute

__all__ = ["ResidentKeysPass"]


class _Step(NamedTuple):
    """Indices of a step: number, batch entry, block of queries, positions of slice and block."""

    number: Index
    entry: Index
    block: Index
    slices: Slices


class ResidentKeysPass:
    """Declares the tiles and emits the steps."""

    def __init__(
        self,
        pattern: AttentionBackwardPattern,
        b: TileBuilder,
        sizes: CoreGroupSizes,
        exchanged: Sequence[Value],
    ) -> None:
        """Declare the tiles; ``exchanged``: the buffers of ``group_workspace``."""
        self.pattern, self.b, self.sizes = pattern, b, sizes
        self.batch, self.m, self.n, self.d, self.v = pattern.axes
        self.blocks, self.is_shared = BlockTransfers(b, pattern.extents), sizes.cores > 1
        self.member: Index = 0
        self.query_blocks = -(-pattern.extents[self.m] // sizes.queries)
        self._declare_operands()
        self._declare_elements()
        self._declare_rows()
        self.exchange = (
            GroupExchange(
                self.blocks, sizes, exchanged, pattern.accumulator, pattern.extents[self.d]
            )
            if self.is_shared
            else None
        )
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

    def _declare_elements(self) -> None:
        pattern, (keys, queries, *_) = self.pattern, self.sizes
        acc_dtype, most, axes = pattern.accumulator, (keys, queries), (self.n, self.m)
        self.products = [self.b.tile(acc_dtype, *most) for _ in range(2)]
        self.least, self.own_scale, kept = (
            Node("least", acc_dtype),
            Node("mine", acc_dtype),
            Node("kept", acc_dtype),
        )
        shifted = Node(
            "math.exp", acc_dtype, (Node("arith.subf", acc_dtype, (pattern.score, self.least)),)
        )
        along = substitute(pattern.along, {id(pattern.exponential): shifted})
        inner = (pattern.slope, pattern.weight)
        quotients = [
            x
            for x in nodes_above(inner, {id(x) for x in pattern.known})
            if x.operands == (pattern.exponential, pattern.known[1])
        ]
        made = {id(x): Node("arith.mulf", acc_dtype, (kept, self.own_scale)) for x in quotients}
        exchanged = [substitute(x, made) for x in inner]
        left = {id(x) for x in nodes_above(exchanged, {id(x) for x in pattern.known})}
        self.kept = not left.intersection(map(id, (pattern.scores, pattern.exponential)))
        """Whether exponentials overwrite the scores, so that they are computed once."""
        slope, weight = exchanged if self.kept else inner
        first = pattern.score if self.kept else pattern.scores
        self.score = ComputedBlock(self.blocks, pattern.score, [pattern.scores], axes, most)
        self.sums = [shifted, along] if self.kept else [along]
        self.parts = ComputedBlock(
            self.blocks,
            shifted,
            [first, pattern.products, self.least, pattern.empty],
            axes,
            most,
            also=[along],
        )
        given = (
            [kept, pattern.products, *pattern.known, self.own_scale]
            if self.kept
            else [pattern.scores, pattern.products, *pattern.known]
        )
        self.weight = weight
        self.slope = ComputedBlock(self.blocks, slope, given, axes, most, also=[weight])
        self.elements = [
            product if node.dtype == acc_dtype else self.b.tile(node.dtype, *most)
            for node, product in zip((slope, weight), self.products, strict=True)
        ]

    def _declare_rows(self) -> None:
        b, acc_dtype, queries = self.b, self.pattern.accumulator, self.sizes.queries
        self.largest, self.total, self.dot = (
            b.tile(acc_dtype, 1, queries, depth=2) for _ in range(3)
        )
        self.subtracted, self.inverse, self.scale, self.known_largest, self.known_dot = (
            b.tile(acc_dtype, 1, queries) for _ in range(5)
        )
        self.empty = b.tile("i1", 1, queries)

    def _declare_gradients(self) -> None:
        pattern, b, (keys, queries, *_) = self.pattern, self.b, self.sizes
        acc_dtype, d, v = pattern.accumulator, pattern.extents[self.d], pattern.extents[self.v]
        self.of_k, self.of_v = b.tile(acc_dtype, keys, d), b.tile(acc_dtype, keys, v)
        self.of_q = b.tile(acc_dtype, queries, d, depth=2)
        self.stored = [
            self._body(gradient, sums, (self.n,), (axis,))
            for gradient, sums, axis in (
                (pattern.of_k, self.of_k, self.d),
                (pattern.of_v, self.of_v, self.v),
            )
        ]
        if self.exchange is not None:
            self.added = b.tile(acc_dtype, 1, self.exchange.share * d, depth=2)
            self.stored_q = self._body(pattern.of_q, self.added, (), (self.m, self.d))
        else:
            self.stored_q = self._body(pattern.of_q, self.of_q, (self.m,), (self.d,))

    def _body(
        self,
        gradient: OperandGradient,
        sums: TileDecl,
        rows: tuple[int, ...],
        columns: tuple[int, ...],
    ) -> TileBody:
        epilogue = gradient.epilogue
        return TileBody(
            self.blocks,
            rows,
            columns,
            (sums.rows, sums.columns),
            epilogue.operands,
            [(o.element, o.stores) for o in epilogue.outputs],
            gradient.access,
            {id(epilogue.product): sums},
        )

    # --- steps

    def build(self, kernel: Kernel) -> None:
        """Emit the steps of this core."""
        b, entries = self.b, prod(self.pattern.extents[a] for a in self.batch)
        if self.exchange is None:
            self.low, self.high = core_share(b, kernel, entries)
            entry_count = b.sub(self.high, self.low)
        else:
            core, cores = kernel.core(b)
            groups = b.max(1, b.min(self.sizes.groups, b.div(cores, self.sizes.cores)))
            group, self.member = b.div(core, self.sizes.cores), b.rem(core, self.sizes.cores)
            self.exchange.group, self.exchange.member = group, self.member
            self.low, self.high = (
                b.min(b.div(b.mul(x, entries), groups), entries) for x in (group, b.add(group, 1))
            )
            # All cores execute as many barriers as the busiest ones.
            entry_count = b.div(b.add(b.sub(groups, 1), entries), groups)
        self.steps = b.mul(entry_count, self.query_blocks)
        first = self._at(0)
        with self.b.where(
            *self._has_step(first),
            *([] if self.is_shared or isinstance(entry_count, int) else [("lt", 0, entry_count)]),
        ):
            self._fetch_slice(first)
            self._fetch_queries(first)
        with b.for_(0, self.steps) as number:
            step = self._at(number)
            with self.b.where(*self._has_step(step)):
                self._scores(step)
            if self.exchange is not None:
                b.barrier()
                with self.b.where(*self._has_step(step)):
                    self.exchange.fetch_rows(number, step.slices[self.m][1])
            ahead = self._at(b.add(number, 1))
            with self.b.where(("lt", ahead.number, self.steps), *self._has_step(ahead)):
                self._fetch_queries(ahead)
            before = self._at(b.sub(number, 1))
            if self.exchange is not None:
                with self.b.where(("lt", 0, number), *self._has_step(before)):
                    self._fetch_parts(self.exchange, before)
            with self.b.where(*self._has_step(step)):
                self._gradients(step)
            if self.exchange is not None:
                with self.b.where(("lt", 0, number), *self._has_step(before)):
                    self._add_parts(self.exchange, before)
        if self.exchange is not None:
            b.barrier()
            last = self._at(b.sub(self.steps, 1))
            with self.b.where(*self._has_step(last)):
                self._fetch_parts(self.exchange, last)
                self._add_parts(self.exchange, last)

    def _has_step(self, step: _Step) -> list[tuple[str, Index, Index]]:
        """Return the condition that this core has such a step; otherwise it only waits."""
        return [("lt", step.entry, self.high)] if self.is_shared else []

    def _at(self, number: Index) -> _Step:
        b, pattern = self.b, self.pattern
        entry, block = (
            b.add(self.low, b.div(number, self.query_blocks)),
            b.rem(number, self.query_blocks),
        )
        slices: Slices = {axis: (0, pattern.extents[axis]) for axis in (self.d, self.v)}
        slices |= self.blocks.index_slices(self.batch, entry)
        for axis, at, size in (
            (self.n, self.member, self.sizes.keys),
            (self.m, block, self.sizes.queries),
        ):
            extent, start = pattern.extents[axis], b.mul(at, size)
            slices[axis] = (
                start,
                size if extent % size == 0 else b.min(size, b.sub(extent, start)),
            )
        return _Step(number, entry, block, slices)

    def _first(self, step: _Step) -> list[tuple[str, Index, Index]]:
        return [("eq", step.block, 0)] if self.query_blocks > 1 else []

    def _last(self, step: _Step) -> list[tuple[str, Index, Index]]:
        return [("eq", step.block, self.query_blocks - 1)] if self.query_blocks > 1 else []

    # --- transfers

    def _fetch_slice(self, step: _Step) -> None:
        """Start the loads of keys and values."""
        for operand in self.resident:
            operand.fetch(step.slices, step.entry)

    def _fetch_queries(self, step: _Step) -> None:
        """Start the loads of queries, of the result's gradient, and of tensors per score."""
        for operand in self.passing:
            operand.fetch(step.slices, step.number)
        for made in (self.score, self.parts, self.slope):
            made.fetch(step.slices, step.number)

    # --- compute

    def _scores(self, step: _Step) -> None:
        """Emit scores, products of their gradients, and the row statistics of this core's keys."""
        b, slices = self.b, step.slices
        with self.b.where(*self._first(step)):
            for operand in self.resident:
                operand.build(slices, step.entry, 0)
            if self.keys is not None:
                b.transpose(*self.resident[0].at(step.entry, 0), self.keys, 0)
        for resident, passing, transposed, product in zip(
            self.resident, self.passing, self.transposed, self.products, strict=True
        ):
            passing.build(slices, step.number, 0)
            b.transpose(*passing.at(step.number, 0), transposed, 0)
            columns = passing.at(step.number, 0) if passing.transposed else (transposed, 0)
            b.mm(*resident.at(step.entry, 0), *columns, product, 0, trans_a=resident.transposed)
        self._slice_statistics(step)
        if self.exchange is not None:
            self.exchange.send_rows(
                step.number, (self.largest, self.total, self.dot), step.slices[self.m][1]
            )

    def _slice_statistics(self, step: _Step) -> None:
        """Emit the maximum, sum of exponentials and dot of each row over this core's keys."""
        pattern, slices, acc_dtype = self.pattern, step.slices, self.pattern.accumulator
        scores, products = ((t, 0, "full") for t in self.products)
        largest, columns = (self.largest, step.number, "cmax"), slices[self.m][1]
        if pattern.score is pattern.scores or not self.kept:
            self.score.map(slices, step.number, [scores], [largest])
        else:
            self.score.map(slices, step.number, [scores], [scores, largest], [pattern.score])

        def subtracted(arguments: Sequence[Node]) -> list[Node]:
            (top,) = arguments
            none = is_fully_masked(top)
            return [Node("arith.select", acc_dtype, (none, constant(0, acc_dtype), top)), none]

        resident = (self.largest, step.number, "full")
        self.b.map(
            1,
            columns,
            [resident],
            [(self.subtracted, 0, "full"), (self.empty, 0, "full")],
            subtracted,
        )
        sums = [(self.total, step.number, "csum"), (self.dot, step.number, "csum")]
        given = [scores, products, (self.subtracted, 0, "row"), (self.empty, 0, "row")]
        self.parts.map(
            slices, step.number, given, [scores, *sums] if self.kept else sums, self.sums
        )

    def _row_statistics(self, step: _Step) -> None:
        """Emit the same over all keys, with 1 / sum, and the scale of this core's exponentials."""
        b, acc_dtype, columns, cores = (
            self.b,
            self.pattern.accumulator,
            step.slices[self.m][1],
            self.sizes.cores,
        )
        own = [(t, step.number, "full") for t in (self.largest, self.total, self.dot)]
        largest, total, dot = own
        if self.exchange is not None:
            tops, totals, dots = ((t, 0, "full") for t in self.exchange.rows)
            largest, total, dot = (
                (t, 0, "full") for t in (self.known_largest, self.inverse, self.known_dot)
            )
            b.map(cores, columns, [tops], [(self.known_largest, 0, "cmax")], list)

            def scaled(arguments: Sequence[Node]) -> list[Node]:
                top, total, dot, whole = arguments
                scale = _scale(top, whole)
                return [Node("arith.mulf", acc_dtype, (x, scale)) for x in (total, dot)]

            sums = [(self.inverse, 0, "csum"), (self.known_dot, 0, "csum")]
            b.map(
                cores, columns, [tops, totals, dots, (self.known_largest, 0, "row")], sums, scaled
            )

        def known(arguments: Sequence[Node]) -> list[Node]:
            top, whole, total, dot = arguments
            # A row without scores has the weights that the program defines, not quotients.
            if self.pattern.given:
                total = Node(
                    "arith.select",
                    acc_dtype,
                    (is_fully_masked(whole), constant(1, acc_dtype), total),
                )
            inverse = Node("arith.divf", acc_dtype, (constant(1, acc_dtype), total))
            scale = (
                Node("arith.mulf", acc_dtype, (_scale(top, whole), inverse))
                if self.is_shared
                else inverse
            )
            return [inverse, Node("arith.mulf", acc_dtype, (dot, inverse)), scale]

        outs = [(t, 0, "full") for t in (self.inverse, self.known_dot, self.scale)]
        b.map(1, columns, [own[0], largest, total, dot], outs, known)

    def _gradients(self, step: _Step) -> None:
        """Emit what a block of queries adds to the gradients."""
        b, slices = self.b, step.slices
        self._row_statistics(step)
        top = (
            (self.known_largest, 0, "row") if self.is_shared else (self.largest, step.number, "row")
        )
        known = [
            top,
            *((t, 0, "row") for t in (self.inverse, self.known_dot)),
            *([(self.scale, 0, "row")] if self.kept else []),
        ]
        products = [(t, 0, "full") for t in self.products]
        self.slope.map(
            slices,
            step.number,
            [*products, *known],
            [(t, 0, "full") for t in self.elements],
            [self.weight],
        )
        slopes = self.elements[0]
        keys = self.resident[0].at(step.entry, 0) if self.keys is None else (self.keys, 0)
        b.mm(slopes, 0, *keys, self.of_q, step.number, trans_a=True)
        if self.exchange is not None:
            self.exchange.send_part(step.number, self.of_q, slices[self.m][1])
        else:
            self.stored_q.build(slices, step.number)
        self._fetch_next_slice(step)
        with self.b.where(*self._first(step)):
            for sums in (self.of_k, self.of_v):
                b.map(
                    slices[self.n][1],
                    sums.columns,
                    [],
                    [(sums, 0, "full")],
                    lambda _: [constant(0, self.pattern.accumulator)],
                )
        for elements, passing, transposed, sums in zip(
            self.elements, self.passing, self.transposed, (self.of_k, self.of_v), strict=True
        ):
            rows_of = (transposed, 0) if passing.transposed else passing.at(step.number, 0)
            b.mm(elements, 0, *rows_of, sums, 0, acc=True)
        with self.b.where(*self._last(step)):
            for stored in self.stored:
                stored.build(slices)

    def _fetch_next_slice(self, step: _Step) -> None:
        """Start the loads of the next batch entry's slice, after more urgent transfers."""
        later = self._at(self.b.add(step.number, self.query_blocks if self.sizes.slots > 1 else 1))
        conditions = self._first(step) if self.sizes.slots > 1 else self._last(step)
        with self.b.where(*conditions, ("lt", later.entry, self.high)):
            self._fetch_slice(later)

    def _fetch_parts(self, exchange: GroupExchange, step: _Step) -> None:
        rows = step.slices[self.m][1]
        with self.b.where(("lt", 0, exchange.shared(rows)[1])):
            exchange.fetch_parts(step.number, rows)

    def _add_parts(self, exchange: GroupExchange, step: _Step) -> None:
        """Add up the partial sums of this core's rows, and store dQ."""
        b, (start, rows) = self.b, step.slices[self.m]
        low, shared = exchange.shared(rows)
        with self.b.where(("lt", 0, shared)):
            columns = b.mul(shared, self.pattern.extents[self.d])
            b.map(
                self.sizes.cores,
                columns,
                [(exchange.arrived, 0, "full")],
                [(self.added, step.number, "csum")],
                list,
            )
            self.stored_q.build(step.slices | {self.m: (b.add(start, low), shared)}, step.number)


def _scale(part: Node, whole: Node) -> Node:
    """Return the factor that rescales a sum of exponentials from maximum ``part`` to ``whole``."""
    scale = Node("math.exp", part.dtype, (Node("arith.subf", part.dtype, (part, whole)),))
    return Node(
        "arith.select", part.dtype, (is_fully_masked(whole), constant(1, part.dtype), scale)
    )
