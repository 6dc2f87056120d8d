"""A contraction to tile, cuts of its loops into blocks, and candidate cuts.

A contraction is ``C[b, m, n] = sum_k A[b, m, k] * B[b, k, n]`` where each of m, n, k is a *group*
of loop dimensions: a convolution's k is (channel, window row, window column). A tile of a group
covers the inner dimensions, a sub-range of one dimension (the *cut*), and one index of each outer
dimension. Example: of k = (64, 3, 3), the tile of 8 channels is ``TileCut(dim=0, size=8,
elements=72, blocks=8)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, prod
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ftm_backend.midend.lowering.gemm.im2col_geometry import WindowSide
from ftm_backend.symbolic import size_hint
from ftm_backend.target.presets import ELEMENT_BYTES

if TYPE_CHECKING:
    from ftm_backend.midend.schedule.gemm.col2im_geometry import Col2ImGeometry

__all__ = [
    "EpilogueTraffic",
    "OperandTraffic",
    "PrologueTraffic",
    "TileCut",
    "TilingProblem",
    "cuts",
    "pitch",
]


@dataclass(frozen=True)
class OperandTraffic:
    """Memory layout of A, B or C.

    ``runs`` has, for each of the operand's two groups (A: m, k; B: k, n; C: m, n), the number of
    contiguous elements from the innermost dimension; 0 if the innermost stride is not 1.
    """

    dtype: str
    runs: tuple[int, int]
    batched: bool = True
    """Whether it changes along the batch dimensions."""
    coalesces: tuple[bool, bool] = (False, False)
    """For each group: whether rows that cover its whole run are contiguous with the next row."""
    adjacent: int = 1
    """Elements that are contiguous along one of its groups, ascending or descending."""


@dataclass(frozen=True)
class EpilogueTraffic:
    """Tiles, transfers and compute of a fused epilogue."""

    tiles: int = 0
    """Tiles of C's extents that it needs besides C."""
    extra_bytes: int = 0
    """Bytes per element by which these tiles exceed tiles of the accumulator's type."""
    operands: int = 0
    """Number of these tiles that are loaded."""
    broadcasts: int = 0
    """Further tensors that it loads, constant along m or n: a row or column of a tile."""
    bytes: int = 0
    """Bytes that it transfers per element of C, without the store of C."""
    c_layout_bytes: int = 0
    """Bytes of these whose tensors have C's layout, so that their runs have the same length."""
    interval: float = 2.0
    """Cycles of its body per vector of C."""

    @property
    def transfers(self) -> int:
        """Transfers for each block of C, without the store of C."""
        return self.tiles + self.broadcasts

    @property
    def loads(self) -> int:
        """Loads for each block of C."""
        return self.operands + self.broadcasts

    @property
    def load_fraction(self) -> float:
        """Fraction of its traffic that is loads."""
        moved = self.operands + max(self.tiles - self.operands, 1) - 1
        return self.operands / moved if moved else 0.0


@dataclass(frozen=True)
class PrologueTraffic:
    """Tiles, transfers and compute of a fused prologue."""

    tiles: int = 0
    """Tensors that it loads for each block of the operand; 0: the operand itself is loaded."""
    broadcasts: int = 0
    """Further ones that are constant along rows or columns of the block."""
    interval: float = 0.0
    """Cycles of its body per vector of the block."""

    @property
    def full_loads(self) -> int:
        """Loads of whole blocks: of the prologue's tensors, or of the operand."""
        return max(self.tiles, 1)

    @property
    def further_loads(self) -> int:
        """Loads besides the first whole block."""
        return self.full_loads - 1 + self.broadcasts


@dataclass(frozen=True)
class TilingProblem:
    """A contraction to tile. Extents of a group are in order from the outermost dimension."""

    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    a: OperandTraffic
    b: OperandTraffic
    c: OperandTraffic
    accumulator: str
    """Element type of the C tile."""
    depth: int = field(default=2, kw_only=True)
    """Depth of its schedules (`Schedule.depth`)."""
    epilogue: EpilogueTraffic = EpilogueTraffic()
    sums: int = 0
    """Number of partial sums of each row of a block (fused reductions)."""
    a_windows: tuple[WindowSide, ...] = ()
    """Sides of A's window box, if its rows overlap. Positions count the dimensions of m, then k."""
    col2im: Col2ImGeometry | None = None
    """Geometry of a fused col2im: m is (channel, tap) and n is (feature map, window).

    Blocks hold all taps of some channels and all windows of some feature maps.
    """
    split_rows: bool = False
    """Whether B is in memory as n_outer x (k x n_inner), with n_inner shorter than a DMA granule.

    If cores share B, its blocks stay in this layout in GSM, and rows are assembled on chip.
    """
    a_prologue: PrologueTraffic = PrologueTraffic()
    """Fused prologue that computes window boxes of A."""
    b_prologue: PrologueTraffic = PrologueTraffic()
    """Fused prologue that computes blocks of B."""
    can_split_k: bool = False
    """Whether k may be split: C starts at zero, and no epilogue reads indices or sums rows."""
    k_groups: int = 1
    """Parts of k (split-k). Each is a further batch entry, and has partial sums in GSM."""
    dynamic_dims: tuple[int, int, int] | None = None
    """The outermost dimension with a symbolic extent in each of m, n and k; None: all are static.

    A resident tile inside such a dimension is counted twice: buffers are allocated for
    ``upper_bound``, which is at most twice the hint.
    """

    @property
    def transpose_c(self) -> bool:
        """Whether C is transposed before it is stored."""
        is_transposed = self.c.runs[1] == 0 and self.c.runs[0] > 0
        return self.col2im is not None or is_transposed

    @property
    def entries(self) -> int:
        """Batch entries, with one for each part of k."""
        return prod(self.batch) * self.k_groups

    @property
    def b_is_constant(self) -> bool:
        """Whether all entries have the same B."""
        return self.entries == 1 or (self.k_groups == 1 and not self.b.batched)


@dataclass(frozen=True)
class TileCut:
    """A tile of a group: a sub-range of dimension ``dim``, and all of the dimensions inside it."""

    dim: int
    size: int
    elements: int
    """Elements of the tile: ``size`` times the inner extents."""
    blocks: int
    """Number of tiles that cover the group."""

    def around(self, extents: Sequence[int]) -> tuple[int, int, int]:
        """Return the extent of the cut dimension, and the elements inside and outside of it."""
        extents = tuple(extents) or (1,)
        return extents[self.dim], prod(extents[self.dim + 1 :]), prod(extents[: self.dim])


def cuts(extents: Sequence[int], quantum: int, largest: int) -> list[TileCut]:
    """Return the candidate tiles of a group: balanced sub-ranges that grow by about 1.5.

    Args:
        extents: Extents of the group's dimensions, outermost first; all at least 1.
        quantum: Elements that the matrix unit computes at once along the group. Sizes along the
            innermost dimension are multiples.
        largest: Most elements of a tile. The smallest tile is returned even if it has more.
    """
    extents = tuple(extents) or (1,)
    candidates: dict[int, TileCut] = {}
    for dim in range(len(extents) - 1, -1, -1):
        extent, inside, outside = extents[dim], prod(extents[dim + 1 :]), prod(extents[:dim])
        unit = quantum if inside == 1 else 1
        target = 1.0
        while True:
            pieces = ceil(extent / max(1, round(target)))
            size = min(extent, ceil(ceil(extent / pieces) / unit) * unit)
            if size * inside <= largest or not candidates:
                candidates.setdefault(
                    size * inside, TileCut(dim, size, size * inside, outside * ceil(extent / size))
                )
            if size == extent or size * inside > largest:
                break
            target = max(size + 1, target * 1.5)
    return [candidates[key] for key in sorted(candidates)]


_N = TypeVar("_N", int, np.ndarray)


def pitch(columns: _N, dtype: str) -> _N:
    """Return the leading dimension, in elements, of an operand tile with ``columns`` columns.

    A multiple of 512 bytes gets 64 bytes of padding. Otherwise rows that the matrix unit reads at
    once would conflict in the same banks.

    Args:
        columns: A number, or an array of numbers.
        dtype: Element type.
    """
    item = ELEMENT_BYTES[dtype]
    # The hint decides for all values of a symbolic size: the padding is cheap.
    hint = columns if isinstance(columns, np.ndarray) else size_hint(columns)
    return columns + (hint * item % 512 == 0) * (64 // item)
