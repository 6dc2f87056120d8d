"""Windows that are summed at the places that they see, before a block of C is stored: what ``FOLD``
is told."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ftm_backend.ir.tile.builder import Index
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Places
from ftm_backend.midend.schedule.gemm.contraction import ContractionForm
from ftm_backend.midend.schedule.gemm.tiling import TileCut
from ftm_backend.target import cost_rules

__all__ = ["Col2Im", "Col2ImGeometry"]


@dataclass(frozen=True)
class Col2ImGeometry:
    """Of a transposed convolution, in each dimension of an image.

    A block of its columns takes all windows of some images, or the windows that see some rows of
    one image: those that see rows of two blocks are computed for both.
    """

    shape: cost_rules.Col2ImCost
    dilation: tuple[int, ...]
    padding: tuple[int, ...]

    def reach(self) -> tuple[int, int]:
        """How many windows before the first of as many rows of a phase see these, and how many
        after the last."""
        stride, taps = self.shape.strides[0], self.shape.taps[0]
        before, padding = self.dilation[0] * (taps - 1), self.padding[0]
        return (before - padding) // stride, (stride - 1 + padding) // stride

    def windows(self, rows: int) -> int:
        """The most windows, in the first dimension, that see ``rows`` rows of a phase."""
        return min(max(rows + sum(self.reach()), 1), self.shape.windows[0])

    def cut(self, images: int, rows: int) -> TileCut:
        """Columns in blocks of ``rows`` rows of each phase."""
        elements = self.windows(rows) * prod(self.shape.windows[1:])
        return TileCut(1, rows, elements, images * cost_rules.pieces(self.shape.steps[0], rows))

    def whole(self, images: int, each: int) -> TileCut:
        """Columns in blocks of ``each`` images."""
        return TileCut(0, each, each * prod(self.shape.windows), cost_rules.pieces(images, each))

    def columns(self, cut: TileCut) -> int:
        """Elements of the image for the largest block, of one channel."""
        inside = prod(self.shape.sizes[1:])
        return cut.size * inside * (self.shape.sizes[0] if cut.dim == 0 else self.shape.strides[0])

    def elements(self, cut: TileCut) -> int:
        """The same of one phase."""
        inside = prod(self.shape.steps[1:])
        return cut.size * inside * (self.shape.steps[0] if cut.dim == 0 else 1)


@dataclass(frozen=True)
class Col2Im:
    """Where the blocks of a transposed convolution lie: m is (channel, tap), n is (image, windows);
    ``axes`` walk the image's elements."""

    geometry: Col2ImGeometry
    form: ContractionForm
    image: int
    windows: tuple[int, int]
    axes: tuple[int, int]

    def sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The axes that make rows and columns of what is stored."""
        return self.form.m[:1], (self.image, *self.axes)

    def most(self, m: TileCut, n: TileCut) -> tuple[int, int]:
        """Extents of the sums of a block."""
        return m.elements // prod(self.geometry.shape.taps), self.geometry.columns(n)

    def place(self, blocks: BlockTransfers, cut: TileCut, number: Index) -> Places:
        """Where block ``number`` of the columns lies: its images, windows, and elements of the
        images."""
        b, shape = blocks.b, self.geometry.shape
        windows: Places = {
            axis: (0, n) for axis, n in zip(self.windows, shape.windows, strict=True)
        }
        image: Places = {axis: (0, n) for axis, n in zip(self.axes, shape.sizes, strict=True)}
        if cut.dim == 0:
            return windows | image | blocks.place((self.image,), cut, number)
        pieces = cost_rules.pieces(shape.steps[0], cut.size)
        row = b.mul(b.rem(number, pieces), cut.size)
        before, after = self.geometry.reach()
        last = shape.windows[0]
        start = b.min(b.max(b.sub(row, before), 0), last - 1)
        end = b.max(b.min(b.add(row, cut.size + after), last), b.add(start, 1))
        first = b.mul(row, shape.strides[0])
        windows[self.windows[0]] = start, b.sub(end, start)
        image[self.axes[0]] = (
            first,
            b.min(cut.size * shape.strides[0], b.sub(shape.sizes[0], first)),
        )
        return windows | image | {self.image: (b.div(number, pieces), 1)}

    def instruction(
        self, blocks: BlockTransfers, places: Places
    ) -> tuple[list[Index], list[Index]]:
        """Extents of ``FOLD``'s dimensions and the numbers beside them, for the block at
        ``places``."""
        b, shape, geometry = blocks.b, self.geometry.shape, self.geometry
        windows, sizes = ([places[axis][1] for axis in axes] for axes in (self.windows, self.axes))
        before = [
            b.sub(b.add(places[axis][0], padding), b.mul(places[window][0], stride))
            for axis, window, padding, stride in zip(
                self.axes, self.windows, geometry.padding, shape.strides, strict=True
            )
        ]
        return [*shape.taps, *windows, *sizes], [*geometry.dilation, *shape.strides, *before]
