"""Elementwise parts of attention's backward: row statistics, and elements of the gradients.

Blocks are keys x queries, so a row's statistics are reductions down a column, and numbers of a row
are a tile of one row.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.ir.linalg.body_builder import constant, identity
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.builder import Index, Mapped, TileBuilder
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.lowering.attention.backward_workspace import BackwardSizes, GroupExchange
from ftm_backend.midend.lowering.attention.block_loads import BlockTensors, ComputedBlock
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

__all__ = ["GradientElements", "RowStatistics", "StoredGradient"]


class GradientElements:
    """Maps over the products of a block: S = K Q' and T = V G'.

    Attributes:
        products: Tiles of S and T.
        tensors: Tensors with an element per score, such as masks.
        elements: Tiles of the gradients D and the weights W; those of the products if types match.
        is_kept: Whether exponentials overwrite the scores, so that they are computed once.
    """

    def __init__(
        self, pattern: AttentionBackwardPattern, blocks: BlockTransfers, sizes: BackwardSizes
    ) -> None:
        """Declare the tiles."""
        self.pattern, b = pattern, blocks.b
        _, m, n, _, _ = pattern.axes
        acc_dtype, most, axes = pattern.accumulator, (sizes.keys, sizes.queries), (n, m)
        self.products = [b.tile(acc_dtype, *most) for _ in range(2)]
        least, own_scale, kept = (Node(name, acc_dtype) for name in ("least", "mine", "kept"))
        shifted = Node(
            "math.exp", acc_dtype, (Node("arith.subf", acc_dtype, (pattern.score, least)),)
        )
        along = substitute(pattern.along, {id(pattern.exponential): shifted})
        inner = (pattern.slope, pattern.weight)
        quotients = [
            x
            for x in nodes_above(inner, {id(x) for x in pattern.known})
            if x.operands == (pattern.exponential, pattern.known[1])
        ]
        made = {id(x): Node("arith.mulf", acc_dtype, (kept, own_scale)) for x in quotients}
        scaled = [substitute(x, made) for x in inner]
        left = {id(x) for x in nodes_above(scaled, {id(x) for x in pattern.known})}
        needs_scores = left.intersection(map(id, (pattern.scores, pattern.exponential)))
        self.is_kept = sizes.rounds == 1 and not needs_scores
        # With several rounds, both products are computed again for the gradients.
        self._overwrites_scores = self.is_kept or sizes.rounds > 1
        slope, self.weight = scaled if self.is_kept else inner
        first = pattern.score if self._overwrites_scores else pattern.scores
        self.tensors = BlockTensors(blocks, axes, most)
        self.score = ComputedBlock(self.tensors, pattern.score, [pattern.scores])
        self.sums = [shifted, along] if self.is_kept else [along]
        given = [first, pattern.products, least, pattern.empty]
        self.parts = ComputedBlock(self.tensors, shifted, given, also=[along])
        given = [pattern.scores, pattern.products, *pattern.known]
        if self.is_kept:
            given = [kept, pattern.products, *pattern.known, own_scale]
        self.slope = ComputedBlock(self.tensors, slope, given, also=[self.weight])
        self.elements = [
            product if node.dtype == acc_dtype else b.tile(node.dtype, *most)
            for node, product in zip((slope, self.weight), self.products, strict=True)
        ]

    def find_largest(self, slices: Slices, slot: Index, largest: Mapped) -> None:
        """Emit the largest score of each row."""
        pattern, scores = self.pattern, (self.products[0], 0, "full")
        if pattern.score is pattern.scores or not self._overwrites_scores:
            self.score.map(slices, slot, [scores], [largest])
        else:
            self.score.map(slices, slot, [scores], [scores, largest], [pattern.score])

    def add_up(
        self, slices: Slices, slot: Index, rows: Sequence[Mapped], sums: Sequence[Mapped]
    ) -> None:
        """Emit each row's sum of exponentials, and its dot.

        Args:
            slices: The block.
            slot: Slot of the loaded tiles.
            rows: What is subtracted from the scores of a row, and whether all of them are -inf.
            sums: Where both sums go.
        """
        scores, products = ((t, 0, "full") for t in self.products)
        outs = [scores, *sums] if self.is_kept else sums
        self.parts.map(slices, slot, [scores, products, *rows], outs, self.sums)

    def compute(self, slices: Slices, slot: Index, known: Sequence[Mapped]) -> None:
        """Emit the elements; ``known``: statistics, and the scale of kept exponentials."""
        products = [(t, 0, "full") for t in self.products]
        outs = [(t, 0, "full") for t in self.elements]
        self.slope.map(slices, slot, [*products, *known], outs, [self.weight])


class RowStatistics:
    """Maximum, sum of exponentials and dot of each row, over a slice of keys and over all keys.

    Attributes:
        running: Tiles of the statistics of this core's slices.
        merges: Whether a core has several slices, whose statistics are merged one by one.
    """

    def __init__(
        self, pattern: AttentionBackwardPattern, b: TileBuilder, sizes: BackwardSizes, depth: int
    ) -> None:
        """Declare the tiles; ``depth``: slots of the running statistics."""
        self.pattern, self.b, self.sizes, queries = pattern, b, sizes, sizes.queries
        self.acc_dtype = acc_dtype = pattern.accumulator
        self.merges = sizes.rounds > 1
        self.running = [b.tile(acc_dtype, 1, queries, depth=depth) for _ in range(3)]
        self._of_slice = [b.tile(acc_dtype, 1, queries) for _ in range(3)] if self.merges else []
        self._subtracted, self._inverse, self._scale, self._largest, self._dot = (
            b.tile(acc_dtype, 1, queries) for _ in range(5)
        )
        self._empty = b.tile("i1", 1, queries)

    def begin(self, slot: Index, columns: Index) -> None:
        """Emit the statistics of no keys."""
        starts = [constant(identity("max", self.acc_dtype), self.acc_dtype)]
        starts += [constant(0, self.acc_dtype)] * 2
        self.b.map(1, columns, [], [(t, slot, "full") for t in self.running], lambda _: starts)

    def add_slice(
        self, elements: GradientElements, slices: Slices, slot: Index, columns: Index
    ) -> None:
        """Emit the statistics of one slice, from the products of a block.

        They are slot ``slot`` of the running ones, or are merged into it.
        """
        b, acc_dtype = self.b, self.acc_dtype
        at = 0 if self.merges else slot
        largest, *sums = self._of_slice if self.merges else self.running
        elements.find_largest(slices, slot, (largest, at, "cmax"))

        def subtracted(arguments: Sequence[Node]) -> list[Node]:
            (top,) = arguments
            none = is_fully_masked(top)
            return [Node("arith.select", acc_dtype, (none, constant(0, acc_dtype), top)), none]

        outs = [(self._subtracted, 0, "full"), (self._empty, 0, "full")]
        b.map(1, columns, [(largest, at, "full")], outs, subtracted)
        rows = [(self._subtracted, 0, "row"), (self._empty, 0, "row")]
        elements.add_up(slices, slot, rows, [(t, at, "csum") for t in sums])
        if self.merges:
            running = [(t, slot, "full") for t in self.running]
            b.map(
                1, columns, [*running, *((t, 0, "full") for t in self._of_slice)], running, _merged
            )

    def finish(
        self, slot: Index, columns: Index, exchange: GroupExchange | None, is_kept: bool
    ) -> list[Mapped]:
        """Emit the statistics over all keys, with 1 / sum.

        Args:
            slot: Slot of this core's statistics.
            columns: Rows of the block.
            exchange: Holds the statistics of all cores of a group.
            is_kept: Whether the scale of this core's exponentials is needed.

        Returns:
            The numbers that `GradientElements.compute` needs.
        """
        b, acc_dtype = self.b, self.acc_dtype
        own = [(t, slot, "full") for t in self.running]
        largest, total, dot = own
        if exchange is not None:
            tops, *sums = ((t, 0, "full") for t in exchange.rows)
            largest, total, dot = (
                (t, 0, "full") for t in (self._largest, self._inverse, self._dot)
            )
            b.map(self.sizes.cores, columns, [tops], [(self._largest, 0, "cmax")], list)

            def scaled(arguments: Sequence[Node]) -> list[Node]:
                top, total, dot, whole = arguments
                scale = _scale(top, whole)
                return [Node("arith.mulf", acc_dtype, (x, scale)) for x in (total, dot)]

            outs = [(self._inverse, 0, "csum"), (self._dot, 0, "csum")]
            b.map(self.sizes.cores, columns, [tops, *sums, (self._largest, 0, "row")], outs, scaled)

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
                inverse
                if exchange is None
                else Node("arith.mulf", acc_dtype, (_scale(top, whole), inverse))
            )
            return [inverse, Node("arith.mulf", acc_dtype, (dot, inverse)), scale]

        outs = [(t, 0, "full") for t in (self._inverse, self._dot, self._scale)]
        b.map(1, columns, [own[0], largest, total, dot], outs, known)
        rows = [largest, (self._inverse, 0, "full"), (self._dot, 0, "full")]
        rows += [(self._scale, 0, "full")] if is_kept else []
        return [(tile, at, "row") for tile, at, _ in rows]


def _merged(arguments: Sequence[Node]) -> list[Node]:
    """Return the statistics of two sets of keys from those of each set."""
    top, *sums, other_top, other_total, other_dot = arguments
    dtype = top.dtype
    whole = Node("arith.maximumf", dtype, (top, other_top))
    scale, other_scale = _scale(top, whole), _scale(other_top, whole)
    return [
        whole,
        *(
            Node(
                "arith.addf",
                dtype,
                (
                    Node("arith.mulf", dtype, (x, scale)),
                    Node("arith.mulf", dtype, (y, other_scale)),
                ),
            )
            for x, y in zip(sums, (other_total, other_dot), strict=True)
        ),
    ]


def _scale(part: Node, whole: Node) -> Node:
    """Return the factor that rescales a sum of exponentials from maximum ``part`` to ``whole``."""
    scale = Node("math.exp", part.dtype, (Node("arith.subf", part.dtype, (part, whole)),))
    return Node(
        "arith.select", part.dtype, (is_fully_masked(whole), constant(1, part.dtype), scale)
    )


class StoredGradient:
    """Epilogue and store of a gradient from its tile, ``outer`` x ``inner``.

    The tile is transposed first if the stored gradient is contiguous along ``outer``.
    """

    def __init__(
        self,
        blocks: BlockTransfers,
        gradient: OperandGradient,
        sums: TileDecl,
        outer: Sequence[int],
        inner: Sequence[int],
    ) -> None:
        """Declare the tiles."""
        self.b, self.sums = blocks.b, sums
        self.by_columns = len(outer) == 1 and gradient.stored_by_columns(outer[0], inner[0])
        self.tile = sums
        if self.by_columns:
            self.tile = self.b.tile(sums.dtype, sums.columns, sums.rows)
        epilogue = gradient.epilogue
        self.body = TileBody(
            blocks,
            *((inner, outer) if self.by_columns else (outer, inner)),
            (self.tile.rows, self.tile.columns),
            epilogue.operands,
            [(o.element, o.stores) for o in epilogue.outputs],
            gradient.access,
            {id(epilogue.product): self.tile},
        )

    def build(self, slices: Slices, slot: Index = 0) -> None:
        """Emit the epilogue and the store of slot ``slot`` of the tile."""
        if self.by_columns:
            self.b.transpose(self.sums, slot, self.tile, 0)
        self.body.build(slices, 0 if self.by_columns else slot)
