"""The two phases of attention's gradients, in blocks: neither scores nor their gradients leave the chip.

The first phase holds a block of queries still and walks the keys.  It carries the largest score, the sum of exponentials and the *dot*
(``sum_n P * part``) of each query along, as attention itself does, with the two sums that the gradient of the queries is made of; it
leaves what it knows of each row in memory.  The second phase holds a block of keys still and walks the queries, whose rows are known.

What is held still is turned once.  Then what is walked is the operand of all products whose elements are broadcast one by one, and is
read as it lies; what is summed has the columns of what is held still.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf, prod
from typing import NamedTuple

from ftm_backend.linalg.affine import Affine
from ftm_backend.linalg.ir import Node, Value
from ftm_backend.linalg.nodes import constant, identity
from ftm_backend.midend.attention_backward_form import AttentionBackward, Gradient
from ftm_backend.midend.attention_blocks import Factor, Made
from ftm_backend.midend.attention_elements import OEQ, replaced
from ftm_backend.midend.contraction_blocks import Blocks, Places, TileBody
from ftm_backend.midend.kernel import Kernel, core_share
from ftm_backend.tile.builder import Index, TileBuilder
from ftm_backend.tile.tree import Tile

__all__ = ["Keys", "Phase", "Queries", "Sizes"]


class Sizes(NamedTuple):
    """Rows of what is held still and of what is walked in a block; where the latter waits to be broadcast from."""

    still: int
    walked: int
    space: str


class Step(NamedTuple):
    """Where a step is: its number, its unit, the blocks within the batch entry, the places of both."""

    number: Index
    unit: Index
    walked: Index
    places: Places


class Phase:
    """What both phases do: fetch a step ahead, turn what is held still, multiply.

    axes: of what is held still and of what is walked; factors: those of the two products, held still and walked.  The products are
    walked x still; ``sums`` are d or v x still.
    """

    def __init__(self, form: AttentionBackward, b: TileBuilder, sizes: Sizes, axes: tuple[int, int],
                 factors: tuple[tuple[Node, Node], tuple[Node, Node]]) -> None:
        self.form, self.b, self.sizes, self.axes = form, b, sizes, axes
        self.blocks = Blocks(b, form.extents)
        self.batch, self.m, self.n, self.d, self.v = form.axes
        still, walked = sizes.still, sizes.walked
        self.still_blocks, self.walked_blocks = (-(-form.extents[a] // s) for a, s in zip(axes, (still, walked), strict=True))
        inner = [(axis, form.extents[axis]) for axis in (self.d, self.v)]
        self.still = [Factor(self.blocks, x, (axes[0], a), (still, n), "am") for x, (a, n) in zip(factors[0], inner, strict=True)]
        self.walked = [Factor(self.blocks, x, (axes[1], a), (walked, n), sizes.space) for x, (a, n) in zip(factors[1], inner, strict=True)]
        for factor in self.still:
            factor.declare(2 if factor.turned else 1, 1)
        for factor in self.walked:
            factor.declare(2, 1)
        self.turned = [None if f.turned else b.tile(f.node.dtype, n, still) for f, (_, n) in zip(self.still, inner, strict=True)]
        self.products = [b.tile(form.accumulator, walked, still) for _ in inner]

    def element_tile(self, node: Node, like: Tile) -> Tile:
        """Where the elements of a node go that is computed from the products: over one of them if they have its type."""
        return like if node.dtype == like.dtype else self.b.tile(node.dtype, self.sizes.walked, self.sizes.still)

    # --- steps ----------------------------------------------------------------------------------------

    def build(self, kernel: Kernel) -> None:
        """The steps of this core."""
        b = self.b
        units = prod(self.form.extents[a] for a in self.batch) * self.still_blocks
        self.low, high = core_share(b, kernel, units)
        steps = b.mul(b.sub(high, self.low), self.walked_blocks)
        with self.where([] if isinstance(steps, int) else [("lt", 0, steps)]):
            self._fetch_still(self._at(0))
            self.fetch_walked(self._at(0))
        with b.for_(0, steps) as number:
            step = self._at(number)
            ahead = self._at(b.add(number, 1))
            with self.where([("lt", ahead.number, steps)]):
                self.fetch_walked(ahead)
            with self.where(self._first(step)):
                self._turn(step)
                self.start(step)
                later = self._at(b.add(number, self.walked_blocks))
                with self.where([("lt", later.number, steps)]):
                    self._fetch_still(later)
            self._multiply(step)
            self.block(step)
            with self.where([("eq", step.walked, self.walked_blocks - 1)] if self.walked_blocks > 1 else []):
                self.finish(step)

    @contextmanager
    def where(self, conditions: Sequence[tuple[str, Index, Index]]) -> Iterator[None]:
        """What is built inside happens where all conditions hold."""
        if not conditions:
            yield
            return
        with self.b.if_(self.b.compare(*conditions[0])), self.where(conditions[1:]):
            yield

    def _first(self, step: Step) -> list[tuple[str, Index, Index]]:
        return [("eq", step.walked, 0)] if self.walked_blocks > 1 else []

    def _at(self, number: Index) -> Step:
        b, form = self.b, self.form
        unit, walked = b.add(self.low, b.div(number, self.walked_blocks)), b.rem(number, self.walked_blocks)
        entry, still = b.div(unit, self.still_blocks), b.rem(unit, self.still_blocks)
        places: Places = {axis: (0, form.extents[axis]) for axis in (self.d, self.v)}
        places |= self.blocks.steps(self.batch, entry)
        for axis, at, size in zip(self.axes, (still, walked), self.sizes[:2], strict=True):
            extent, start = form.extents[axis], b.mul(at, size)
            places[axis] = (start, size if extent % size == 0 else b.min(size, b.sub(extent, start)))
        return Step(number, unit, walked, places)

    def _fetch_still(self, step: Step) -> None:
        for factor in self.still:
            factor.fetch(step.places, step.unit)

    def fetch_walked(self, step: Step) -> None:
        """Starts the transfers of what is walked."""
        for factor in self.walked:
            factor.fetch(step.places, step.number)

    # --- computing ------------------------------------------------------------------------------------

    def _turn(self, step: Step) -> None:
        for factor, turned in zip(self.still, self.turned, strict=True):
            factor.build(step.places, step.unit, 0)
            if turned is not None:
                self.b.transpose(*factor.at(step.unit, 0), turned, 0)

    def _multiply(self, step: Step) -> None:
        """Both products."""
        for still, turned, walked, product in zip(self.still, self.turned, self.walked, self.products, strict=True):
            walked.build(step.places, step.number, 0)
            columns = still.at(step.unit, 0) if turned is None else (turned, 0)
            self.b.mm(*walked.at(step.number, 0), *columns, product, 0, trans_a=walked.turned)

    def sum_up(self, step: Step, walked: Factor, elements: Tile, sums: Tile) -> None:
        """Adds ``walked' elements`` to ``sums``."""
        self.b.mm(*walked.at(step.number, 0), elements, 0, sums, 0, acc=True, trans_a=not walked.turned)

    def columns(self, step: Step) -> Index:
        """Of what is held still: how many there are."""
        return step.places[self.axes[0]][1]

    def zero(self, step: Step, sums: Tile) -> None:
        """Begins a sum."""
        kind = self.form.accumulator
        self.b.map(sums.rows, self.columns(step), [], [(sums, 0, "full")], lambda _: [constant(0, kind)])

    def start(self, step: Step) -> None:
        """Begins with a block of what is held still."""
        raise NotImplementedError

    def block(self, step: Step) -> None:
        """What a block of products adds."""
        raise NotImplementedError

    def finish(self, step: Step) -> None:
        """Ends with a block of what is held still."""
        raise NotImplementedError

    def row_access(self) -> Affine:
        """The elements of a tensor that has a number for each row of scores."""
        coeffs, step = [0] * len(self.form.extents), 1
        for axis in (self.m, *reversed(self.batch)):
            coeffs[axis], step = step, step * self.form.extents[axis]
        return Affine(0, tuple(coeffs))


class _Stored:
    """A gradient from its sums, ``inner`` x ``outer``, to memory."""

    def __init__(self, phase: Phase, gradient: Gradient, sums: Tile, outer: int, inner: int) -> None:
        indices = [gradient.access(s.index) for o in gradient.epilogue.outputs for s in o.stores]
        self.by_columns = bool(indices) and all(x.coeffs[outer] == 1 and x.coeffs[inner] != 1 for x in indices)
        self.b, self.sums = phase.b, sums
        self.tile = sums if self.by_columns else phase.b.tile(sums.dtype, sums.columns, sums.rows, depth=2)
        sides = ((inner,), (outer,)) if self.by_columns else ((outer,), (inner,))
        epilogue = gradient.epilogue
        self.body = TileBody(phase.blocks, *sides, (self.tile.rows, self.tile.columns), epilogue.operands,
                             [(o.element, o.stores) for o in epilogue.outputs], gradient.access, {id(epilogue.product): self.tile})

    def build(self, step: Step) -> None:
        if not self.by_columns:
            self.b.transpose(self.sums, 0, self.tile, step.unit)
        self.body.build(step.places, step.unit)


class Queries(Phase):
    """The first phase: the gradient of the queries; leaves the largest score, 1 / the sum and the dot of each row in ``known``."""

    def __init__(self, form: AttentionBackward, b: TileBuilder, sizes: Sizes, known: Sequence[Value]) -> None:
        _, m, n, d, _ = form.axes
        super().__init__(form, b, sizes, (m, n), ((form.q, form.grad), (form.k, form.v)))
        self.known, kind, still = known, form.accumulator, sizes.still
        most = (sizes.walked, still)
        axes = (n, m)
        self.score = Made(self.blocks, form.score, [form.scores], axes, most)
        self.least = Node("least", kind)
        shifted = Node("math.exp", kind, (Node("arith.subf", kind, (form.score, self.least)),))
        memo = {id(form.exponential): shifted}
        first, second, along = (replaced(x, memo) for x in (form.first, form.second, form.along))
        self.others = [second, shifted, along]
        self.parts = Made(self.blocks, first, [form.score, form.products, self.least, form.empty], axes, most, also=self.others)
        self.first, self.second = self.element_tile(first, self.products[1]), self.element_tile(second, self.products[0])
        self.largest, self.total, self.dot = (b.tile(kind, 1, still, depth=2) for _ in range(3))
        self.block_largest, self.scale, self.subtracted = (b.tile(kind, 1, still) for _ in range(3))
        self.empty = b.tile("i1", 1, still)
        self.sums = [b.tile(kind, form.extents[d], still) for _ in range(2)]
        self.stored = _Stored(self, form.of_q, self.sums[0], m, d)

    def fetch_walked(self, step: Step) -> None:
        """Keys, values, masks."""
        super().fetch_walked(step)
        self.score.fetch(step.places, step.number)
        self.parts.fetch(step.places, step.number)

    def start(self, step: Step) -> None:
        """No score has been seen."""
        kind = self.form.accumulator
        starts = [constant(identity("max", kind), kind), constant(0, kind), constant(0, kind)]
        rows = [(t, step.unit, "full") for t in (self.largest, self.total, self.dot)]
        self.b.map(1, self.columns(step), [], rows, lambda _: starts)
        for sums in self.sums:
            self.zero(step, sums)

    def block(self, step: Step) -> None:
        """The scores of one block of keys, and what they add."""
        form, places = self.form, step.places
        scores, products = self.products
        largest, given = (self.block_largest, 0, "cmax"), [(scores, 0, "full")]
        if form.score is form.scores:
            self.score.map(places, step.number, given, [largest])
        else:
            self.score.map(places, step.number, given, [(scores, 0, "full"), largest], [form.score])
        self._rescale(step)
        self.parts.map(
            places, step.number, [(scores, 0, "full"), (products, 0, "full"), (self.subtracted, 0, "row"), (self.empty, 0, "row")],
            [(self.first, 0, "full"), (self.second, 0, "full"), (self.total, step.unit, "csum.acc"), (self.dot, step.unit, "csum.acc")],
            self.others)
        for elements, sums in zip((self.first, self.second), self.sums, strict=True):
            self.sum_up(step, self.walked[0], elements, sums)

    def _rescale(self, step: Step) -> None:
        """The largest scores so far; what was summed is scaled to them."""
        kind, now = self.form.accumulator, step.unit

        def rows(arguments: Sequence[Node]) -> list[Node]:
            before, block, total, dot = arguments
            largest = Node("arith.maximumf", kind, (before, block))
            none = _is_lowest(largest)
            scale = Node("math.exp", kind, (Node("arith.subf", kind, (before, largest)),))
            scale = Node("arith.select", kind, (none, constant(1, kind), scale))
            subtracted = Node("arith.select", kind, (none, constant(0, kind), largest))
            return [largest, scale, subtracted, none, *(Node("arith.mulf", kind, (x, scale)) for x in (total, dot))]

        held, total, dot = ((t, now, "full") for t in (self.largest, self.total, self.dot))
        self.b.map(1, self.columns(step), [held, (self.block_largest, 0, "full"), total, dot],
                   [held, *((t, 0, "full") for t in (self.scale, self.subtracted, self.empty)), total, dot], rows)
        if self.walked_blocks > 1:
            for tile in self.sums:
                sums = (tile, 0, "full")
                self.b.map(tile.rows, self.columns(step), [sums, (self.scale, 0, "row")], [sums],
                           lambda x: [Node("arith.mulf", kind, tuple(x))])

    def finish(self, step: Step) -> None:
        """Divides by the sums of the rows; stores what is known of them, and the gradient."""
        b, kind, now = self.b, self.form.accumulator, step.unit

        def rows(arguments: Sequence[Node]) -> list[Node]:
            total, largest, dot = arguments
            if self.form.given:  # the weights of a row without scores are what they are, not parts of a sum
                total = Node("arith.select", kind, (_is_lowest(largest), constant(1, kind), total))
            inverse = Node("arith.divf", kind, (constant(1, kind), total))
            return [inverse, Node("arith.mulf", kind, (dot, inverse))]

        def gradient(arguments: Sequence[Node]) -> list[Node]:
            first, second, dot, inverse = arguments
            taken = Node("arith.subf", kind, (first, Node("arith.mulf", kind, (second, dot))))
            return [Node("arith.mulf", kind, (taken, inverse))]

        held, total, dot = ((t, now, "full") for t in (self.largest, self.total, self.dot))
        b.map(1, self.columns(step), [total, held, dot], [total, dot], rows)
        for value, tile in zip(self.known, (self.largest, self.total, self.dot), strict=True):
            b.store(tile, now, self.blocks.buffer(value), **self.blocks.block(self.row_access(), step.places, (), (self.m,)))
        first, second = ((t, 0, "full") for t in self.sums)
        b.map(self.sums[0].rows, self.columns(step), [first, second, (self.dot, now, "row"), (self.total, now, "row")], [first], gradient)
        self.stored.build(step)


class Keys(Phase):
    """The second phase: the gradients of keys and values, of rows that are ``known``."""

    def __init__(self, form: AttentionBackward, b: TileBuilder, sizes: Sizes, known: Sequence[Value]) -> None:
        _, m, n, d, v = form.axes
        super().__init__(form, b, sizes, (n, m), ((form.k, form.v), (form.q, form.grad)))
        self.known, kind, still = known, form.accumulator, sizes.still
        self.parts = Made(self.blocks, form.slope, [form.scores, form.products, *form.known], (m, n), (sizes.walked, still),
                          also=[form.weight])
        self.slope, self.weight = self.element_tile(form.slope, self.products[0]), self.element_tile(form.weight, self.products[1])
        self.rows = [b.tile(kind, sizes.walked, 1, depth=2) for _ in known]
        self.sums = [b.tile(kind, form.extents[axis], still) for axis in (d, v)]
        self.stored = [_Stored(self, gradient, sums, n, axis)
                       for gradient, sums, axis in zip((form.of_k, form.of_v), self.sums, (d, v), strict=True)]

    def fetch_walked(self, step: Step) -> None:
        """Queries, gradients, what is known of rows, masks."""
        super().fetch_walked(step)
        for value, tile in zip(self.known, self.rows, strict=True):
            self.blocks.load(value, self.row_access(), tile, step.number, step.places, (self.m,), ())
        self.parts.fetch(step.places, step.number)

    def start(self, step: Step) -> None:
        """Nothing has been summed."""
        for sums in self.sums:
            self.zero(step, sums)

    def block(self, step: Step) -> None:
        """What one block of queries adds."""
        given = [*((t, 0, "full") for t in self.products), *((t, step.number, "col") for t in self.rows)]
        outs = [(self.slope, 0, "full"), (self.weight, 0, "full")]
        self.parts.map(step.places, step.number, given, outs, [self.form.weight])
        for walked, elements, sums in zip(self.walked, (self.slope, self.weight), self.sums, strict=True):
            self.sum_up(step, walked, elements, sums)

    def finish(self, step: Step) -> None:
        """Stores both gradients."""
        for stored in self.stored:
            stored.build(step)


def _is_lowest(largest: Node) -> Node:
    """Whether all scores of a row are -inf, which say nothing about what to subtract."""
    return Node("arith.cmpf", "i1", (largest, constant(-inf, largest.dtype)), OEQ)
