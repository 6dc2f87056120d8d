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
from ftm_backend.midend.schedule.attention.score_expressions import is_lowest, replaced

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
        form: AttentionBackwardPattern,
        b: TileBuilder,
        sizes: CoreGroupSizes,
        exchanged: Sequence[Value],
    ) -> None:
        """Declare the tiles; ``exchanged``: the buffers of ``group_workspace``."""
        self.form, self.b, self.sizes = form, b, sizes
        self.batch, self.m, self.n, self.d, self.v = form.axes
        self.blocks, self.together = BlockTransfers(b, form.extents), sizes.cores > 1
        self.member: Index = 0
        self.query_blocks = -(-form.extents[self.m] // sizes.queries)
        self._declare_factors()
        self._declare_elements()
        self._declare_rows()
        self.exchange = (
            GroupExchange(self.blocks, sizes, exchanged, form.accumulator, form.extents[self.d])
            if self.together
            else None
        )
        self._declare_gradients()

    # --- tiles

    def _declare_factors(self) -> None:
        form, b, (keys, queries, *_, slots) = self.form, self.b, self.sizes
        d, v = form.extents[self.d], form.extents[self.v]
        inner = ((self.d, d), (self.v, v))
        self.held = [
            BlockOperand(self.blocks, x, (self.n, a), (keys, n), "am")
            for x, (a, n) in zip((form.k, form.v), inner, strict=True)
        ]
        self.passing = [
            BlockOperand(self.blocks, x, (self.m, a), (queries, n), "am")
            for x, (a, n) in zip((form.q, form.grad), inner, strict=True)
        ]
        for factor in self.held:
            factor.declare(slots, 1)
        for factor in self.passing:
            factor.declare(2, 1)
        self.keys = b.tile(form.k.dtype, keys, d) if self.held[0].turned else None
        """Keys as rows, if they are loaded as columns."""
        self.turned = [b.tile(x.node.dtype, *x.most[::-1]) for x in self.passing]

    def _declare_elements(self) -> None:
        form, (keys, queries, *_) = self.form, self.sizes
        kind, most, axes = form.accumulator, (keys, queries), (self.n, self.m)
        self.products = [self.b.tile(kind, *most) for _ in range(2)]
        self.least, self.mine, kept = Node("least", kind), Node("mine", kind), Node("kept", kind)
        shifted = Node("math.exp", kind, (Node("arith.subf", kind, (form.score, self.least)),))
        along = replaced(form.along, {id(form.exponential): shifted})
        inner = (form.slope, form.weight)
        quotients = [
            x
            for x in nodes_above(inner, {id(x) for x in form.known})
            if x.operands == (form.exponential, form.known[1])
        ]
        made = {id(x): Node("arith.mulf", kind, (kept, self.mine)) for x in quotients}
        exchanged = [replaced(x, made) for x in inner]
        left = {id(x) for x in nodes_above(exchanged, {id(x) for x in form.known})}
        self.kept = not left.intersection(map(id, (form.scores, form.exponential)))
        """Whether exponentials overwrite the scores, so that they are computed once."""
        slope, weight = exchanged if self.kept else inner
        first = form.score if self.kept else form.scores
        self.score = ComputedBlock(self.blocks, form.score, [form.scores], axes, most)
        self.sums = [shifted, along] if self.kept else [along]
        self.parts = ComputedBlock(
            self.blocks,
            shifted,
            [first, form.products, self.least, form.empty],
            axes,
            most,
            also=[along],
        )
        given = (
            [kept, form.products, *form.known, self.mine]
            if self.kept
            else [form.scores, form.products, *form.known]
        )
        self.weight = weight
        self.slope = ComputedBlock(self.blocks, slope, given, axes, most, also=[weight])
        self.elements = [
            product if node.dtype == kind else self.b.tile(node.dtype, *most)
            for node, product in zip((slope, weight), self.products, strict=True)
        ]

    def _declare_rows(self) -> None:
        b, kind, queries = self.b, self.form.accumulator, self.sizes.queries
        self.largest, self.total, self.dot = (b.tile(kind, 1, queries, depth=2) for _ in range(3))
        self.subtracted, self.inverse, self.scale, self.known_largest, self.known_dot = (
            b.tile(kind, 1, queries) for _ in range(5)
        )
        self.empty = b.tile("i1", 1, queries)

    def _declare_gradients(self) -> None:
        form, b, (keys, queries, *_) = self.form, self.b, self.sizes
        kind, d, v = form.accumulator, form.extents[self.d], form.extents[self.v]
        self.of_k, self.of_v = b.tile(kind, keys, d), b.tile(kind, keys, v)
        self.of_q = b.tile(kind, queries, d, depth=2)
        self.stored = [
            self._body(gradient, sums, (self.n,), (axis,))
            for gradient, sums, axis in (
                (form.of_k, self.of_k, self.d),
                (form.of_v, self.of_v, self.v),
            )
        ]
        if self.exchange is not None:
            self.added = b.tile(kind, 1, self.exchange.share * d, depth=2)
            self.stored_q = self._body(form.of_q, self.added, (), (self.m, self.d))
        else:
            self.stored_q = self._body(form.of_q, self.of_q, (self.m,), (self.d,))

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
        b, entries = self.b, prod(self.form.extents[a] for a in self.batch)
        if self.exchange is None:
            self.low, self.high = core_share(b, kernel, entries)
            trips = b.sub(self.high, self.low)
        else:
            core, cores = kernel.core(b)
            teams = b.max(1, b.min(self.sizes.teams, b.div(cores, self.sizes.cores)))
            team, self.member = b.div(core, self.sizes.cores), b.rem(core, self.sizes.cores)
            self.exchange.team, self.exchange.member = team, self.member
            self.low, self.high = (
                b.min(b.div(b.mul(x, entries), teams), entries) for x in (team, b.add(team, 1))
            )
            # All cores execute as many barriers as the busiest ones.
            trips = b.div(b.add(b.sub(teams, 1), entries), teams)
        self.steps = b.mul(trips, self.query_blocks)
        first = self._at(0)
        with self.b.where(
            *self._exists(first),
            *([] if self.together or isinstance(trips, int) else [("lt", 0, trips)]),
        ):
            self._fetch_slice(first)
            self._fetch_queries(first)
        with b.for_(0, self.steps) as number:
            step = self._at(number)
            with self.b.where(*self._exists(step)):
                self._scores(step)
            if self.exchange is not None:
                b.barrier()
                with self.b.where(*self._exists(step)):
                    self.exchange.fetch_rows(number, step.slices[self.m][1])
            ahead = self._at(b.add(number, 1))
            with self.b.where(("lt", ahead.number, self.steps), *self._exists(ahead)):
                self._fetch_queries(ahead)
            before = self._at(b.sub(number, 1))
            if self.exchange is not None:
                with self.b.where(("lt", 0, number), *self._exists(before)):
                    self._fetch_parts(self.exchange, before)
            with self.b.where(*self._exists(step)):
                self._gradients(step)
            if self.exchange is not None:
                with self.b.where(("lt", 0, number), *self._exists(before)):
                    self._add_parts(self.exchange, before)
        if self.exchange is not None:
            b.barrier()
            last = self._at(b.sub(self.steps, 1))
            with self.b.where(*self._exists(last)):
                self._fetch_parts(self.exchange, last)
                self._add_parts(self.exchange, last)

    def _exists(self, step: _Step) -> list[tuple[str, Index, Index]]:
        """Return the condition that this core has such a step; otherwise it only waits."""
        return [("lt", step.entry, self.high)] if self.together else []

    def _at(self, number: Index) -> _Step:
        b, form = self.b, self.form
        entry, block = (
            b.add(self.low, b.div(number, self.query_blocks)),
            b.rem(number, self.query_blocks),
        )
        slices: Slices = {axis: (0, form.extents[axis]) for axis in (self.d, self.v)}
        slices |= self.blocks.index_slices(self.batch, entry)
        for axis, at, size in (
            (self.n, self.member, self.sizes.keys),
            (self.m, block, self.sizes.queries),
        ):
            extent, start = form.extents[axis], b.mul(at, size)
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
        for factor in self.held:
            factor.fetch(step.slices, step.entry)

    def _fetch_queries(self, step: _Step) -> None:
        """Start the loads of queries, of the result's gradient, and of tensors per score."""
        for factor in self.passing:
            factor.fetch(step.slices, step.number)
        for made in (self.score, self.parts, self.slope):
            made.fetch(step.slices, step.number)

    # --- compute

    def _scores(self, step: _Step) -> None:
        """Emit scores, products of their gradients, and the row statistics of this core's keys."""
        b, slices = self.b, step.slices
        with self.b.where(*self._first(step)):
            for factor in self.held:
                factor.build(slices, step.entry, 0)
            if self.keys is not None:
                b.transpose(*self.held[0].at(step.entry, 0), self.keys, 0)
        for held, passing, turned, product in zip(
            self.held, self.passing, self.turned, self.products, strict=True
        ):
            passing.build(slices, step.number, 0)
            b.transpose(*passing.at(step.number, 0), turned, 0)
            columns = passing.at(step.number, 0) if passing.turned else (turned, 0)
            b.mm(*held.at(step.entry, 0), *columns, product, 0, trans_a=held.turned)
        self._know_slice(step)
        if self.exchange is not None:
            self.exchange.send_rows(
                step.number, (self.largest, self.total, self.dot), step.slices[self.m][1]
            )

    def _know_slice(self, step: _Step) -> None:
        """Emit the maximum, sum of exponentials and dot of each row over this core's keys."""
        form, slices, kind = self.form, step.slices, self.form.accumulator
        scores, products = ((t, 0, "full") for t in self.products)
        largest, columns = (self.largest, step.number, "cmax"), slices[self.m][1]
        if form.score is form.scores or not self.kept:
            self.score.map(slices, step.number, [scores], [largest])
        else:
            self.score.map(slices, step.number, [scores], [scores, largest], [form.score])

        def subtracted(arguments: Sequence[Node]) -> list[Node]:
            (top,) = arguments
            none = is_lowest(top)
            return [Node("arith.select", kind, (none, constant(0, kind), top)), none]

        held = (self.largest, step.number, "full")
        self.b.map(
            1, columns, [held], [(self.subtracted, 0, "full"), (self.empty, 0, "full")], subtracted
        )
        sums = [(self.total, step.number, "csum"), (self.dot, step.number, "csum")]
        given = [scores, products, (self.subtracted, 0, "row"), (self.empty, 0, "row")]
        self.parts.map(
            slices, step.number, given, [scores, *sums] if self.kept else sums, self.sums
        )

    def _know_rows(self, step: _Step) -> None:
        """Emit the same over all keys, with 1 / sum, and the scale of this core's exponentials."""
        b, kind, columns, cores = (
            self.b,
            self.form.accumulator,
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
                return [Node("arith.mulf", kind, (x, scale)) for x in (total, dot)]

            sums = [(self.inverse, 0, "csum"), (self.known_dot, 0, "csum")]
            b.map(
                cores, columns, [tops, totals, dots, (self.known_largest, 0, "row")], sums, scaled
            )

        def known(arguments: Sequence[Node]) -> list[Node]:
            top, whole, total, dot = arguments
            # A row without scores has the weights that the program defines, not quotients.
            if self.form.given:
                total = Node("arith.select", kind, (is_lowest(whole), constant(1, kind), total))
            inverse = Node("arith.divf", kind, (constant(1, kind), total))
            scale = (
                Node("arith.mulf", kind, (_scale(top, whole), inverse))
                if self.together
                else inverse
            )
            return [inverse, Node("arith.mulf", kind, (dot, inverse)), scale]

        outs = [(t, 0, "full") for t in (self.inverse, self.known_dot, self.scale)]
        b.map(1, columns, [own[0], largest, total, dot], outs, known)

    def _gradients(self, step: _Step) -> None:
        """Emit what a block of queries adds to the gradients."""
        b, slices = self.b, step.slices
        self._know_rows(step)
        top = (
            (self.known_largest, 0, "row") if self.together else (self.largest, step.number, "row")
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
        keys = self.held[0].at(step.entry, 0) if self.keys is None else (self.keys, 0)
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
                    lambda _: [constant(0, self.form.accumulator)],
                )
        for elements, passing, turned, sums in zip(
            self.elements, self.passing, self.turned, (self.of_k, self.of_v), strict=True
        ):
            rows_of = (turned, 0) if passing.turned else passing.at(step.number, 0)
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
            columns = b.mul(shared, self.form.extents[self.d])
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
    return Node("arith.select", part.dtype, (is_lowest(whole), constant(1, part.dtype), scale))
