"""Col2im as the epilogue of a product: sum overlapping windows before a block of C is stored.

A transposed convolution is ``T[(c, tap), (n, window)] = W^T . X``, followed by ``Y[n, c, window *
stride + tap * dilation - padding] += T[(c, tap), (n, window)]``. The instruction ``FOLD`` computes
the second step on a block of T in the scratchpad. This module computes the block sizes and the
instruction's arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ftm_backend.ir.tile.builder import Index
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices
from ftm_backend.midend.schedule.gemm.contraction import ContractionForm
from ftm_backend.midend.schedule.gemm.tiling_problem import TileCut
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["Col2Im", "Col2ImGeometry"]


@dataclass(frozen=True)
class Col2ImGeometry:
    """Geometry of a transposed convolution, one entry per spatial dimension.

    A block of columns holds all windows of some feature maps, or the windows that contribute to
    some rows of one feature map. In the second case, windows on the border of two blocks are
    computed twice.
    """

    shape: cost_rules.Col2ImCost
    dilation: tuple[int, ...]
    padding: tuple[int, ...]

    def reach(self) -> tuple[int, int]:
        """Return how many windows before and after a block of rows contribute to it."""
        stride, taps = self.shape.strides[0], self.shape.taps[0]
        before, padding = self.dilation[0] * (taps - 1), self.padding[0]
        return (before - padding) // stride, (stride - 1 + padding) // stride

    def windows(self, rows: int) -> int:
        """Return the most windows of the first dimension that contribute to ``rows`` rows.

        The rows are those of one sub-pixel phase: every ``stride``-th row of the output.
        """
        return min(max(rows + sum(self.reach()), 1), self.shape.windows[0])

    def cut(self, feature_maps: int, rows: int) -> TileCut:
        """Cut columns into blocks of ``rows`` rows of each sub-pixel phase."""
        elements = self.windows(rows) * prod(self.shape.windows[1:])
        return TileCut(
            1, rows, elements, feature_maps * cost_rules.pieces(self.shape.steps[0], rows)
        )

    def whole_feature_maps(self, feature_maps: int, each: int) -> TileCut:
        """Cut columns into blocks of ``each`` feature maps."""
        return TileCut(
            0, each, each * prod(self.shape.windows), cost_rules.pieces(feature_maps, each)
        )

    def columns(self, cut: TileCut) -> int:
        """Return the output elements of the largest block, for one channel."""
        inside = prod(self.shape.sizes[1:])
        return cut.size * inside * (self.shape.sizes[0] if cut.dim == 0 else self.shape.strides[0])

    def elements(self, cut: TileCut) -> int:
        """Return the output elements of the largest block, for one channel and one phase."""
        inside = prod(self.shape.steps[1:])
        return cut.size * inside * (self.shape.steps[0] if cut.dim == 0 else 1)


@dataclass(frozen=True)
class Col2Im:
    """Positions of the blocks of a transposed convolution.

    Attributes:
        geometry: Its windows.
        form: The product; m is (channel, tap), n is (feature map, windows).
        output_slices: The axis of feature maps.
        windows: The axes of windows.
        axes: The axes of output rows and columns.
    """

    geometry: Col2ImGeometry
    form: ContractionForm
    feature_map: int
    windows: tuple[int, int]
    axes: tuple[int, int]

    def sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the axes of the rows and of the columns of the stored block."""
        return self.form.m[:1], (self.feature_map, *self.axes)

    def max_extents(self, m: TileCut, n: TileCut) -> tuple[int, int]:
        """Return the largest extents of the stored block: channels, and elements of each."""
        return m.elements // prod(self.geometry.shape.taps), self.geometry.columns(n)

    def has_short_rows(self, dtype: str, machine: MachineParameters) -> bool:
        """Whether the input is filters x windows in memory, with few windows per filter."""
        form = self.form
        windows, b = prod(form.sizes(form.n[1:])), form.accesses[1]
        return (
            1 < windows < machine.dma_granule // ELEMENT_BYTES[dtype]
            and form.run(b, form.n[1:]) == b.coeffs[form.k[0]] == windows
        )

    def block_slices(self, blocks: BlockTransfers, cut: TileCut, number: Index) -> Slices:
        """Return the offsets and extents of column block ``number``.

        They cover its feature maps, its windows, and its output rows and columns.
        """
        b, shape = blocks.b, self.geometry.shape
        windows: Slices = {
            axis: (0, n) for axis, n in zip(self.windows, shape.windows, strict=True)
        }
        output_slices: Slices = {
            axis: (0, n) for axis, n in zip(self.axes, shape.sizes, strict=True)
        }
        if cut.dim == 0:
            return windows | output_slices | blocks.block_slices((self.feature_map,), cut, number)
        pieces = cost_rules.pieces(shape.steps[0], cut.size)
        row = b.mul(b.rem(number, pieces), cut.size)
        before, after = self.geometry.reach()
        last = shape.windows[0]
        start = b.min(b.max(b.sub(row, before), 0), last - 1)
        end = b.max(b.min(b.add(row, cut.size + after), last), b.add(start, 1))
        first = b.mul(row, shape.strides[0])
        windows[self.windows[0]] = start, b.sub(end, start)
        output_slices[self.axes[0]] = (
            first,
            b.min(cut.size * shape.strides[0], b.sub(shape.sizes[0], first)),
        )
        return windows | output_slices | {self.feature_map: (b.div(number, pieces), 1)}

    def instruction(
        self, blocks: BlockTransfers, slices: Slices
    ) -> tuple[list[Index], list[Index]]:
        """Return the operands of ``FOLD`` for the block at ``slices``.

        Returns:
            The extents (taps, windows, output), and the parameters (dilation, stride, offset).
        """
        b, shape, geometry = blocks.b, self.geometry.shape, self.geometry
        windows, sizes = ([slices[axis][1] for axis in axes] for axes in (self.windows, self.axes))
        before = [
            b.sub(b.add(slices[axis][0], padding), b.mul(slices[window][0], stride))
            for axis, window, padding, stride in zip(
                self.axes, self.windows, geometry.padding, shape.strides, strict=True
            )
        ]
        return [*shape.taps, *windows, *sizes], [*geometry.dilation, *shape.strides, *before]
