"""Candidate tile sizes of m, n and k for the planner of packed row panels (``panel_search``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ftm_backend.midend.schedule.gemm.tiling_problem import TileCut, cuts
from ftm_backend.target import cost_rules
from ftm_backend.target.element_types import Numbers

if TYPE_CHECKING:
    from ftm_backend.midend.schedule.gemm.col2im_geometry import Col2ImGeometry
    from ftm_backend.midend.schedule.gemm.tiling_problem import TilingProblem
    from ftm_backend.target.presets import MachineParameters

__all__ = [
    "LARGEST",
    "CandidateSizes",
    "Cuts",
    "axis",
    "col2im_tile_sizes",
    "cuts_of",
    "sizes",
    "tile_extents",
]

Cuts = tuple[tuple[TileCut, ...], tuple[TileCut, ...], tuple[TileCut, ...]]
"""Cuts of m, of n and of k."""

LARGEST = {"m": 768, "n": 4096, "k": 4096}
"""Most elements of a tile along each group."""
PARTS_GROWTH, PARTS_QUANTUM = 1.25, 4
"""Most growth, and quantum, of sizes of k that is split: few sizes give all parts equal blocks."""
CHUNKS_PER_CORE = (1, 2, 3, 4)
"""Candidate numbers of chunks of C whose partial sums a core adds up if k is split."""
LARGE_FEATURE_MAP = 1024
"""From this many windows of a feature map, blocks of some of its rows are candidates."""


class CandidateSizes(NamedTuple):
    """Sampling of the search space.

    Attributes:
        growth: Ratio of one candidate size to the next.
        chunks: Candidate numbers of chunks of a panel.
        quanta: Whether sizes are multiples of the micro-kernel's rows and columns.
    """

    growth: float
    chunks: tuple[int, ...]
    quanta: bool


def axis(values: Sequence[Numbers], position: int) -> Numbers:
    """Reshape values for broadcasting along one axis of the grid (m, chunks, n, k)."""
    shape = [1, 1, 1, 1]
    shape[position] = len(values)
    return np.array(values).reshape(shape)


def cuts_of(
    problem: TilingProblem,
    machine: MachineParameters,
    groups: tuple[int, int],
    dot_products: bool,
    sampling: CandidateSizes,
) -> Cuts:
    """Return the candidate cuts of m, n and k for one grid of cores.

    Args:
        problem: The contraction to tile.
        machine: Gives the shapes of the micro-kernels.
        groups: Rows and columns of the grid of cores.
        dot_products: Whether the micro-kernel computes dot products along k.
        sampling: Density of the candidates.
    """
    rows, columns = groups
    shares = 1 if problem.entries >= rows else rows
    share = cost_rules.pieces(prod(problem.n), columns)
    widths = (cost_rules.DOT_COLUMNS,) if dot_products else machine.mm_widths(problem.accumulator)
    n_quantum = min(widths, key=lambda width: cost_rules.pieces(share, width) * width)
    quanta = (machine.mm_rows, n_quantum, 16) if sampling.quanta else (1, 1, 1)
    m = sizes(problem.m, quanta[0], LARGEST["m"], shares, sampling.growth)
    n = sizes(problem.n, quanta[1], LARGEST["n"], columns, sampling.growth)
    if problem.k_groups == 1:
        k = sizes(problem.k, quanta[2], LARGEST["k"], 1, sampling.growth)
    else:
        growth = min(sampling.growth, PARTS_GROWTH)
        k = sizes(problem.k, PARTS_QUANTUM, LARGEST["k"], problem.k_groups, growth)
        k = tuple(cut for cut in k if cut.blocks >= problem.k_groups)
        m = tuple({*m, *_even_chunks(problem.m or (1,), machine.cores // columns)})
    if problem.col2im:
        m, n = col2im_tile_sizes(
            problem.col2im,
            (problem.m[0], problem.n[0]),
            quanta[0],
            (shares, columns),
            sampling.growth,
        )
    if problem.sums:
        m, n = (
            (_even_cuts(m, problem.m), n) if problem.transpose_c else (m, _even_cuts(n, problem.n))
        )
    return m, n, k


def _even_chunks(extents: Sequence[int], cores: int) -> Iterator[TileCut]:
    """Yield cuts that give all cores as many chunks of C, when they add up partial sums."""
    inside = prod(extents[1:])
    for share in CHUNKS_PER_CORE:
        size = cost_rules.pieces(extents[0], cores * share)
        if size * inside <= LARGEST["m"]:
            yield TileCut(0, size, size * inside, cost_rules.pieces(extents[0], size))


def _even_cuts(candidates: tuple[TileCut, ...], extents: Sequence[int]) -> tuple[TileCut, ...]:
    """Keep the cuts that leave no smaller last block; all cuts if there are none.

    Row sums need it: each partial sum then covers the same number of elements.
    """
    sides = extents or (1,)
    return tuple(cut for cut in candidates if sides[cut.dim] % cut.size == 0) or candidates


@lru_cache(maxsize=4096)
def sizes(
    extents: tuple[int, ...], quantum: int, largest: int, shares: int, growth: float
) -> tuple[TileCut, ...]:
    """Return cuts of a group whose sizes grow by ``growth``.

    Cuts of a single dimension are balanced: each of ``shares`` cores gets as many tiles.
    """
    extents = extents or (1,)
    if len(extents) == 1:
        return _balanced_cuts(extents[0], quantum, largest, shares, growth)
    chosen_cuts: list[TileCut] = []
    for each in cuts(extents, quantum, largest):
        if not chosen_cuts or each.elements >= growth * chosen_cuts[-1].elements:
            chosen_cuts.append(each)
    return tuple(chosen_cuts)


def _balanced_cuts(
    extent: int, quantum: int, largest: int, shares: int, growth: float
) -> tuple[TileCut, ...]:
    """Return cuts of a single dimension, for ``shares`` cores and, if large, for one."""
    pieces = cost_rules.pieces
    candidates: dict[int, TileCut] = {}
    target = float(quantum)
    while True:
        for each in {max(1, int(extent / (shares * target))), pieces(extent, int(shares * target))}:
            size = min(extent, pieces(pieces(extent, shares * each), quantum) * quantum)
            candidates.setdefault(size, TileCut(0, size, size, pieces(extent, size)))
        if shares * target >= extent:
            if shares == 1:
                break
            shares = 1
        if target >= largest:
            break
        target = max(target * growth, target + 1)
    fitting = [cut for cut in candidates.values() if cut.elements <= largest]
    if len(candidates) == 1:
        fitting = list(candidates.values())
    return tuple(sorted(fitting, key=lambda cut: cut.size))


def col2im_tile_sizes(
    geometry: Col2ImGeometry,
    extents: tuple[int, int],
    quantum: int,
    shares: tuple[int, int],
    growth: float,
) -> tuple[tuple[TileCut, ...], tuple[TileCut, ...]]:
    """Return cuts of rows and columns for a product whose result goes through col2im.

    Rows are cut at channels. Columns are cut at feature maps, and large feature maps at rows.

    Args:
        geometry: The windows.
        extents: Numbers of channels and of feature maps.
        quantum: Rows of the micro-kernel.
        shares: Numbers of cores that share each of the two.
        growth: Ratio of one size to the next.
    """
    taps, windows = prod(geometry.shape.taps), prod(geometry.shape.windows)
    channels = sizes(
        (extents[0],),
        quantum // gcd(quantum, taps),
        max(LARGEST["m"] // taps, 1),
        shares[0],
        growth,
    )
    columns: list[TileCut] = []
    if windows <= LARGEST["n"]:
        columns += [
            geometry.whole_feature_maps(extents[1], cut.size)
            for cut in sizes((extents[1],), 1, LARGEST["n"] // windows, shares[1], growth)
        ]
    if windows > LARGE_FEATURE_MAP:
        steps = geometry.shape.steps[0]
        candidates = [
            geometry.cut(extents[1], cut.size) for cut in sizes((steps,), 1, steps, 1, growth)
        ]
        columns += [
            cut
            for number, cut in enumerate(candidates)
            if cut.elements <= LARGEST["n"] or (number == 0 and not columns)
        ]
    return tuple(TileCut(0, cut.size, cut.size * taps, cut.blocks) for cut in channels), tuple(
        sorted(columns, key=lambda cut: cut.elements)
    )


def tile_extents(extents: Sequence[int], cut: TileCut) -> tuple[int, ...]:
    """Return the extent of a tile in each dimension of its group."""
    return tuple(
        1 if at < cut.dim else cut.size if at == cut.dim else extent
        for at, extent in enumerate(extents)
    )
