"""Tiling of contractions by a cost model: tile sizes, loop order, and which tiles stay resident.

A contraction is ``C[b, m, n] = sum_k A[b, m, k] * B[b, k, n]`` where each of m, n, k is a *group*
of loop dimensions: a convolution's k is (channel, window row, window column). A tile of a group
covers the inner dimensions, a sub-range of one dimension (the *cut*), and one index of each outer
dimension. Example: of k = (64, 3, 3), the tile of 8 channels is ``TileCut(dim=0, size=8,
elements=72, blocks=8)``.

The loop nest is fixed: batch, then the tiles of C (m then n, or n then m), then k. It accumulates
in a C tile that is stored once. The model chooses

- the cut of each group, and whether m or n is the outer loop,
- how long operand tiles stay resident: the outer operand through the inner loop, the inner one for
  the whole batch entry,
- whether an operand that is transposed in memory is transposed by DMA or by the matrix unit,
- the loop that is split among cores.

It evaluates all combinations at once, as numpy arrays over the grid of candidates, and takes the
cheapest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ftm_backend.midend.lowering.gemm.im2col_operand import WindowSide
from ftm_backend.symbolic import size_hint
from ftm_backend.target import cost_rules
from ftm_backend.target.element_types import slot_bytes
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

if TYPE_CHECKING:
    from ftm_backend.midend.schedule.gemm.col2im_geometry import Col2ImGeometry

__all__ = ["GemmTiling", "OperandTraffic", "TileCut", "TilingProblem", "cuts", "pitch", "plan"]

_SPLITS = ("batch", "outer", "inner")


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
    epilogue_tiles: int = 0
    """Tiles of C's extents that the epilogue needs besides C."""
    epilogue_extra_bytes: int = 0
    """Bytes per element by which these tiles exceed tiles of the accumulator's type."""
    epilogue_operands: int = 0
    """Number of these tiles that are loaded."""
    epilogue_broadcasts: int = 0
    """Further tensors that the epilogue loads, constant along m or n: a row or column of a tile."""
    epilogue_bytes: int = 0
    """Bytes that the epilogue transfers per element of C, without the store of C."""
    epilogue_c_layout_bytes: int = 0
    """Bytes of these whose tensors have C's layout, so that their runs have the same length."""
    epilogue_interval: float = 2.0
    """Cycles of the epilogue's body per vector of C."""
    sums: int = 0
    """Number of partial sums of each row of a block (fused reductions)."""
    a_windows: tuple[WindowSide, ...] = ()
    """Sides of A's window box, if its rows overlap. Positions count the dimensions of m, then k."""
    interleaved: bool = False
    """Whether n's last dimension but one has extent 2 and interleaves C's columns.

    ``c`` then has this dimension in m.
    """
    col2im: Col2ImGeometry | None = None
    """Geometry of a fused col2im: m is (channel, tap) and n is (feature map, window).

    Blocks hold all taps of some channels and all windows of some feature maps.
    """
    split_rows: bool = False
    """Whether B is in memory as n_outer x (k x n_inner), with n_inner shorter than a DMA granule.

    If cores share B, its blocks stay in this layout in GSM, and rows are assembled on chip.
    """
    b_prologue_tiles: int = 0
    """Tensors that B's fused prologue loads for each block; 0: B itself is loaded."""
    b_broadcasts: int = 0
    """Further ones that are constant along n or along k."""
    b_prologue_interval: float = 0.0
    """Cycles of the prologue per vector of the block."""
    a_prologue_tiles: int = 0
    """Tensors that A's fused prologue loads for each window box; 0: A itself is loaded."""
    a_broadcasts: int = 0
    """Further ones that are constant along some sides of the box."""
    a_prologue_interval: float = 0.0
    """Cycles of the prologue per vector of the box."""
    can_split_k: bool = False
    """Whether k may be split: C starts at zero, and no epilogue reads indices or sums rows."""
    dynamic_dims: tuple[int, int, int] | None = None
    """The outermost dimension with a symbolic extent in each of m, n and k; None: all are static.

    A resident tile inside such a dimension is counted twice: buffers are allocated for
    ``upper_bound``, which is at most twice the hint.
    """

    @property
    def epilogue_load_fraction(self) -> float:
        """Fraction of the epilogue's traffic that is loads."""
        moved = self.epilogue_operands + max(self.epilogue_tiles - self.epilogue_operands, 1) - 1
        return self.epilogue_operands / moved if moved else 0.0


@dataclass(frozen=True)
class TileCut:
    """A tile of a group: a sub-range of dimension ``dim``, and all of the dimensions inside it."""

    dim: int
    size: int
    elements: int
    """Elements of the tile: ``size`` times the inner extents."""
    blocks: int
    """Number of tiles that cover the group."""


@dataclass(frozen=True)
class GemmTiling:
    """A tiling and its modelled cost. Times are in cycles of the busiest core."""

    m: TileCut
    n: TileCut
    k: TileCut
    m_outer: bool
    outer_resident: bool
    """Whether the outer loop's operand keeps its tiles of k through the inner loop."""
    inner_resident: bool
    """Whether the inner loop's operand keeps all its tiles for the whole batch entry."""
    trans_a: bool
    trans_b: bool
    depth: int
    """Slots of the ring buffer of each operand that is not resident (2: double buffering)."""
    split: str
    """The loop that is split among cores: ``"batch"``, ``"outer"``, ``"inner"`` or ``"none"``.

    ``"none"``: core 0 computes everything.
    """
    cycles: float
    compute_cycles: float
    dma_cycles: float


# --- candidates


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


def _panels(extents: Sequence[int], cut: TileCut, quantum: int) -> int:
    """Return the micro-kernel blocks of ``quantum`` elements in all of the group's tiles."""
    extents = tuple(extents) or (1,)
    extent, inside, outside = (
        extents[cut.dim],
        prod(extents[cut.dim + 1 :]),
        prod(extents[: cut.dim]),
    )
    full, tail = divmod(extent, cut.size)
    return outside * (full * ceil(cut.size * inside / quantum) + ceil(tail * inside / quantum))


# --- costs


def _moving(
    machine: MachineParameters, elements: float, run: Any, inner: Any, item: int, rate: Any
) -> Any:
    """Return the cycles to transfer ``elements`` elements by DMA.

    Args:
        machine: The target.
        elements: Number of elements.
        run: Contiguous elements in memory; 0: single elements.
        inner: Elements of a row of the tile.
        item: Bytes of an element.
        rate: Bytes per cycle.
    """
    if run == 0:
        return elements * np.maximum(machine.dma_element_cycles, item / rate)
    length = np.minimum(run, inner)
    lines = np.ceil(length * item / machine.dma_granule) * machine.dma_granule
    return elements / length * lines / rate


def _operand(
    machine: MachineParameters,
    x: OperandTraffic,
    elements: float,
    first: Any,
    second: Any,
    rate: Any,
) -> tuple[Any, Any]:
    """Return the cycles to load an operand once, in tiles of ``first`` x ``second`` elements.

    The second result is for loading it transposed.
    """
    item = ELEMENT_BYTES[x.dtype]
    return (
        _moving(machine, elements, x.runs[1], second, item, rate),
        _moving(machine, elements, x.runs[0], first, item, rate),
    )


def pitch(columns: Any, dtype: str) -> Any:
    """Return the leading dimension, in elements, of an operand tile with ``columns`` columns.

    A multiple of 512 bytes gets 64 bytes of padding. Otherwise rows that the matrix unit reads at
    once would conflict in the same banks.

    Args:
        columns: A number, or an array of numbers.
        dtype: Element type.
    """
    item = ELEMENT_BYTES[dtype]
    # The hint decides for all values of a symbolic size: the padding is cheap.
    return columns + (size_hint(columns) * item % 512 == 0) * (64 // item)


def _slot(rows: Any, columns: Any, dtype: str) -> Any:
    return slot_bytes(rows, columns, ELEMENT_BYTES[dtype])


@lru_cache(maxsize=4096)
def plan(problem: TilingProblem, machine: MachineParameters) -> GemmTiling:
    """Return the cheapest tiling under the model. All extents must be at least 1.

    Raises:
        ValueError: No tiling fits the scratchpads.
    """
    mr, nr = machine.mm_rows, machine.mm_columns(problem.accumulator)
    ms = cuts(problem.m, mr, 1536)
    ns = cuts(problem.n, nr, 2048)
    ks = cuts(problem.k, 16, 2048)
    grid = _Grid(problem, machine, ms, ns, ks)
    best = sorted(
        (*grid.evaluate(True), *grid.evaluate(False)), key=lambda candidates: candidates[0]
    )
    if best[0][0] == float("inf"):
        raise ValueError(f"no tiling of {problem} fits the scratchpads of machine {machine.name!r}")
    return best[0][1]()


class _Grid:
    """All combinations of candidates as arrays with the axes (division, m, n, k).

    A division is a loop and the number of cores that share it.
    """

    def __init__(
        self,
        problem: TilingProblem,
        machine: MachineParameters,
        ms: list[TileCut],
        ns: list[TileCut],
        ks: list[TileCut],
    ) -> None:
        """Compute the parts of the costs that do not depend on the loop order."""
        self.problem, self.machine, self.cuts = problem, machine, (ms, ns, ks)

        def axis(values: list[int], position: int) -> Any:
            return np.array(values, dtype=np.float64).reshape(
                [-1 if i == position else 1 for i in range(3)]
            )

        self.m_tile, self.n_tile, self.k_tile = (
            axis([c.elements for c in cs], i) for i, cs in enumerate(self.cuts)
        )
        self.m_blocks, self.n_blocks, self.k_blocks = (
            axis([c.blocks for c in cs], i) for i, cs in enumerate(self.cuts)
        )
        self.m_panels = axis([_panels(problem.m, c, machine.mm_rows) for c in ms], 0)
        dynamic_dims = problem.dynamic_dims or (len(problem.m), len(problem.n), len(problem.k))
        m_most, n_most, k_most = (
            axis([c.blocks * (2 if c.blocks > 1 and c.dim >= first else 1) for c in cs], i)
            for i, (cs, first) in enumerate(zip(self.cuts, dynamic_dims, strict=True))
        )
        # Tile counts of a product of groups: at most twice the counts for the size hints, too.
        self.a_held = np.minimum(m_most * k_most, 2 * self.m_blocks * self.k_blocks)
        self.b_held = np.minimum(n_most * k_most, 2 * self.n_blocks * self.k_blocks)
        self.k_held = k_most
        self.n_panels = axis(
            [_panels(problem.n, c, machine.mm_columns(problem.accumulator)) for c in ns], 1
        )
        self.n_vectors = axis(
            [_panels(problem.n, c, machine.lanes(problem.accumulator)) for c in ns], 1
        )
        # Room for the larger layout: an operand may be kept transposed.
        a, b = problem.a.dtype, problem.b.dtype
        self.a_slot = np.maximum(
            _slot(self.m_tile, pitch(self.k_tile, a), a),
            _slot(self.k_tile, pitch(self.m_tile, a), a),
        )
        self.b_slot = np.maximum(
            _slot(self.k_tile, pitch(self.n_tile, b), b),
            _slot(self.n_tile, pitch(self.k_tile, b), b),
        )
        self.batch = prod(problem.batch)
        self.m, self.n, self.k = prod(problem.m), prod(problem.n), prod(problem.k)
        self.divisions = [("none", 1)] + [
            (split, machine.cores) for split in _SPLITS if machine.cores > 1
        ]
        self.cores = self._divided([cores for _, cores in self.divisions])
        self._moving()

    def _divided(self, values: list[Any]) -> Any:
        return np.array(values).reshape(-1, 1, 1, 1)

    def _moving(self) -> None:
        """Set the cycles to load A and B once (plain, transposed), to store C, and of the epilogue.

        The epilogue's are those of its transfers.
        """
        p, machine = self.problem, self.machine
        bandwidth = np.minimum(machine.core_bandwidth, machine.ddr_bandwidth / self.cores)
        rate = bandwidth / machine.clock_hz
        self.load_a = _operand(machine, p.a, self.m * self.k, self.m_tile, self.k_tile, rate)
        self.load_b = _operand(machine, p.b, self.k * self.n, self.k_tile, self.n_tile, rate)
        self.store = _moving(
            machine, self.m * self.n, p.c.runs[1], self.n_tile, ELEMENT_BYTES[p.c.dtype], rate
        )
        self.epilogue = self.m * self.n * p.epilogue_bytes * machine.clock_hz / bandwidth

    def evaluate(self, m_outer: bool) -> list[tuple[float, Callable[[], GemmTiling]]]:
        """Return the cheapest point of each division for one loop order.

        Returns:
            Pairs of its cycles and a function that makes its plan.
        """
        p, machine = self.problem, self.machine
        depth = machine.tile_buffers
        outer_blocks, inner_blocks = (
            (self.m_blocks, self.n_blocks) if m_outer else (self.n_blocks, self.m_blocks)
        )
        shares: dict[str, Any] = {}
        for split, of in {
            "batch": self.batch,
            "outer": outer_blocks,
            "inner": inner_blocks,
        }.items():
            chosen = self._divided([split == loop for loop, _ in self.divisions])
            shares[split] = np.where(chosen, np.ceil(of / self.cores) / of, 1.0)
        batches, outers, inners = (
            self.batch * shares["batch"],
            outer_blocks * shares["outer"],
            inner_blocks * shares["inner"],
        )

        # Scratchpad: keep the inner operand whole if it fits, else the outer operand's tiles of k,
        # else single tiles.
        a_slot, b_slot = self.a_slot, self.b_slot
        c_bytes = (
            _slot(self.m_tile, self.n_tile, p.accumulator) * (depth + p.epilogue_tiles)
            + self.m_tile * self.n_tile * p.epilogue_extra_bytes
        )
        room_a, room_b = machine.sm_bytes, machine.am_bytes - c_bytes
        whole_a, whole_b = a_slot * self.a_held, b_slot * self.b_held
        if m_outer:
            outer_held, inner_held = a_slot * self.k_held <= room_a, whole_b <= room_b
        else:
            outer_held, inner_held = b_slot * self.k_held <= room_b, whole_a <= room_a
        fits = (a_slot * depth <= room_a) | (
            (outer_held if m_outer else inner_held) & (a_slot <= room_a)
        )
        fits = fits & (
            (b_slot * depth <= room_b)
            | ((inner_held if m_outer else outer_held) & (b_slot <= room_b))
        )

        # Number of times that each operand is loaded and read. Shares scale totals to the busiest
        # core.
        inner_op = p.b if m_outer else p.a
        outer_passes = batches * shares["outer"] * np.where(outer_held, 1.0, inners)
        held_passes = batches if inner_op.batched else np.minimum(batches, 1.0)
        inner_passes = shares["inner"] * np.where(inner_held, held_passes, batches * outers)
        outer_uses, inner_uses = (
            batches * shares["outer"] * inners,
            shares["inner"] * batches * outers,
        )
        a_passes, b_passes = (
            (outer_passes, inner_passes) if m_outer else (inner_passes, outer_passes)
        )
        b_uses = inner_uses if m_outer else outer_uses

        # The matrix unit reads single elements of A, in either order. Vectors of B must be
        # contiguous along n.
        a_plain, a_trans = (cost * a_passes for cost in self.load_a)
        b_plain, b_trans = (cost * b_passes for cost in self.load_b)
        reads_b_in_place = self.m <= machine.mm_few_rows
        transpose_b = b_uses * (
            0.0
            if reads_b_in_place
            else cost_rules.transpose_cycles(machine, p.b.dtype, self.k, self.n)
        )
        trans_a, trans_b = a_trans < a_plain, b_trans + transpose_b < b_plain

        share = shares["batch"] * shares["outer"] * shares["inner"]
        work = self.batch * share
        steps = batches * outers * inners
        # Accumulation has a latency: a small block of C does not fill the FMA pipelines.
        panels = self.m_panels * self.n_panels
        per_k = np.maximum(
            self.m * self.n_vectors / machine.fma_units, panels * machine.fma_latency
        )
        matrix = work * (panels * self.k_blocks * machine.mm_overhead + self.k * per_k) + np.where(
            trans_b, transpose_b, 0
        )
        matrix = matrix + steps * (self.k_blocks + 1) * machine.issue_cycles
        a_tiles, b_tiles = (
            a_passes * self.m_blocks * self.k_blocks,
            b_passes * self.n_blocks * self.k_blocks,
        )
        dma = (
            np.where(trans_a, a_trans, a_plain)
            + np.where(trans_b, b_trans, b_plain)
            + work * (self.store + self.epilogue)
        )
        dma = dma + (a_tiles + b_tiles + steps) * machine.dma_latency
        total = cost_rules.tile_loop_cycles(machine, matrix, dma, steps * self.k_blocks)
        total = np.where(
            fits, total + np.where(self.cores > 1, machine.barrier_cycles, 0.0), np.inf
        )
        best = total.reshape(len(self.divisions), -1).argmin(axis=1)

        def make(division: int, at: tuple[Any, ...]) -> GemmTiling:
            def pick(values: Any) -> Any:
                grid_indices = (division, *at)[total.ndim - values.ndim :]
                return values[
                    tuple(
                        grid_index if extent > 1 else 0
                        for grid_index, extent in zip(grid_indices, values.shape, strict=True)
                    )
                ]

            m, n, k = (cs[i] for cs, i in zip(self.cuts, at, strict=True))
            return GemmTiling(
                m,
                n,
                k,
                m_outer=m_outer,
                outer_resident=bool(pick(outer_held)),
                inner_resident=bool(pick(inner_held)),
                trans_a=bool(pick(trans_a)),
                trans_b=bool(pick(trans_b)),
                depth=depth,
                split=self.divisions[division][0],
                cycles=float(pick(total)),
                compute_cycles=float(pick(matrix)),
                dma_cycles=float(pick(dma)),
            )

        candidates: list[tuple[float, Callable[[], GemmTiling]]] = []
        for division, grid_index in enumerate(best):
            at = np.unravel_index(grid_index, total.shape[1:])
            candidates.append((float(total[division, *at]), partial(make, division, at)))
        return candidates
