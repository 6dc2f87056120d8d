"""Search space of panel schedules: candidate sizes for one grid of cores, with traffic and compute.

``panel_cost`` prices them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, prod
from typing import Any

import numpy as np

from ftm_backend.midend.schedule.gemm.candidate_tile_sizes import (
    CandidateSizes,
    Cuts,
    axis,
    cuts_of,
    taken,
)
from ftm_backend.midend.schedule.gemm.core_partition import BlockExtents
from ftm_backend.midend.schedule.gemm.tiling import TileCut, TilingProblem
from ftm_backend.midend.schedule.gemm.traffic_model import (
    box_cycles,
    box_moved,
    moved,
    prologue_cycles,
    run_bytes,
    sums_cycles,
)
from ftm_backend.target import cost_rules
from ftm_backend.target.element_types import slot_bytes
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["CERTAIN", "SCALARS", "PanelSearchSpace"]

SCALARS = {"step": 60, "alone": 15, "late": 50, "load": 22, "product": 22, "store": 30}
"""Scalar instructions around the tile instructions of a step, and around each of those."""
CERTAIN = 1 - 1e-9
"""Factor of lower bounds: a sum in another order may differ by rounding."""


class PanelSearchSpace:
    """All sizes that may fit, for one grid of cores and one layout of B, as arrays.

    Attributes:
        floor: Lower bound of the cycles of any plan with these sizes: compute alone, or all
            traffic once.
        least: The smallest ``floor``.
        places: For each axis (m, chunks, n, k), the index of each entry's size.
    """

    places: tuple[Any, ...]
    k_groups = 1
    """Parts of k that different cores compute."""

    def __init__(
        self,
        problem: TilingProblem,
        machine: MachineParameters,
        groups: tuple[int, int],
        b_layout: str,
        sampling: CandidateSizes,
    ) -> None:
        """Compute the candidates.

        Args:
            problem: The contraction.
            machine: The target.
            groups: Rows and columns of the grid of cores.
            b_layout: Layout of B; see ``PanelSchedule``.
            sampling: Density of the candidates.
        """
        self.problem, self.machine, self.groups, self.b_layout = problem, machine, groups, b_layout
        self.batch = prod(problem.batch)
        rows, columns = groups
        accumulator = problem.accumulator
        self.transpose_c = (
            problem.zipped
            or problem.folded is not None
            or (problem.c.runs[1] == 0 and problem.c.runs[0] > 0)
        )
        self.cuts = self._cuts(sampling)
        (ms, ns, ks) = self.cuts
        self.of_m = BlockExtents(ms, problem.m, 0)
        self.of_n, self.of_k = (
            BlockExtents(ns, problem.n, 2, problem.folded is not None),
            BlockExtents(ks, problem.k, 3),
        )
        self.mc, self.nt, self.kt = self.of_m.full, self.of_n.full, self.of_k.full
        m_blocks, self.n_blocks, self.k_blocks = (
            self.of_m.blocks,
            self.of_n.blocks,
            self.of_k.blocks,
        )
        self._windows(ms, ks)
        self.panels = self._panels(m_blocks, sampling)
        self.chunks = cost_rules.pieces(m_blocks, self.panels)
        # chunks that a deferred epilogue finishes in each step of the next panel
        self.late = cost_rules.pieces(self.chunks, self.k_blocks)
        self.rows = self.panels * self.batch
        self.row_trips = cost_rules.pieces(self.rows, rows)
        self.column_trips = cost_rules.pieces(self.n_blocks, columns)
        self.of_m.walked(self.row_trips * self.chunks)
        self.of_n.walked(self.column_trips)
        self.of_k.walked(cost_rules.pieces(self.k_blocks, self.k_groups))
        spared = self.row_trips // self.panels * (self.panels * self.chunks - m_blocks)
        self.walked = self.chunks - spared / self.row_trips  # mean number of chunks of a panel
        self._even()
        self._moving()
        self._computing()
        self.c_tile = slot_bytes(self.mc, self.nt, ELEMENT_BYTES[accumulator])
        self.result_tile = (
            slot_bytes(*self._image(), ELEMENT_BYTES[accumulator])
            if problem.folded
            else self.c_tile
        )
        self.b_tile = slot_bytes(self.kt, self.nt, ELEMENT_BYTES[problem.a.dtype])
        computing = self.row_trips * self.column_trips * (self.k_blocks * self.matrix + self.after)
        floor = np.maximum(computing, CERTAIN * self._least_moving())
        self.floor = np.where(
            self.c_tile * self.chunks + 2 * self.b_tile <= machine.am_bytes, floor, inf
        )
        self.least = float(self.floor.min())

    def _cuts(self, sampling: CandidateSizes) -> Cuts:
        """Return the candidate cuts of m, n and k."""
        return cuts_of(
            self.problem,
            self.machine,
            self.groups,
            self.b_layout == "dot",
            self.transpose_c,
            sampling,
        )

    def _panels(self, m_blocks: Any, sampling: CandidateSizes) -> Any:
        """Return the number of row panels of a batch entry."""
        return cost_rules.pieces(m_blocks, np.minimum(axis(sampling.chunks, 1), m_blocks))

    def _image(self) -> tuple[Any, Any]:
        """Return the channels of a col2im block and the elements of its feature maps."""
        folded = self.problem.folded
        assert folded is not None
        self.whole_images = axis([cut.dim == 0 for cut in self.cuts[1]], 2)
        return self.mc // prod(folded.shape.taps), axis(
            [folded.columns(cut) for cut in self.cuts[1]], 2
        )

    def _mean_image(self) -> tuple[Any, Any]:
        """Return the same for the mean block."""
        channels, elements = self._image()
        return channels * (self.of_m.mean / self.mc), elements * (self.of_n.mean / self.nt)

    def _windows(self, ms: Sequence[TileCut], ks: Sequence[TileCut]) -> None:
        """Set the elements of A below the largest block, the box's extents, and even runs of k."""
        p = self.problem
        self.block: Any = self.mc * self.kt
        self.lengths: tuple[Any, ...] = ()
        self.runs: Any = 1
        if p.a_windows:
            self.counts = [taken(p.m, cut) for cut in ms], [taken(p.k, cut) for cut in ks]
            self.lengths = self._lengths(None, None)
            self.block = prod(self.lengths, start=np.ones_like(self.block))
            self.runs = axis([cost_rules.even_runs(counts) for counts in self.counts[1]], 3)

    def _lengths(self, *parts: Any) -> tuple[Any, ...]:
        """Return the extents of the window box below a block.

        Args:
            parts: Fractions of the cut dimension of m and of k that the block covers; None: all.
        """
        p, found = self.problem, []
        for side in p.a_windows:
            length: Any = 1
            for position, step in side.steps:
                group, at = (0, position) if position < len(p.m) else (1, position - len(p.m))
                here, cuts = (0, 3)[group], self.cuts[(0, 2)[group]]
                counts: Any = axis([counts[at] for counts in self.counts[group]], here)
                if parts[group] is not None:
                    counts = counts * np.where(
                        axis([cut.dim == at for cut in cuts], here), parts[group], 1
                    )
                length = length + (counts - 1) * abs(step)
            found.append(
                np.where(length == side.full, side.joined, length) if side.joined else length
            )
        return tuple(found)

    def _moving(self) -> None:
        """Set the DDR bytes and single-element DMA cycles of blocks of A, B and C.

        A has them plain and transposed. C's include the epilogue's transfers.
        """
        p = self.problem
        m, n, k = self.of_m, self.of_n, self.of_k
        self.mean_b = k.mean * n.mean
        self.moved_b, self.elements_b = moved(self.machine, p.b, k, n, self.b_layout != "plain")
        self.moved_b, self.elements_b = (
            self.moved_b * max(p.b_tiles, 1),
            self.elements_b * max(p.b_tiles, 1),
        )
        self.split_rows = p.split_rows and self.b_layout == "plain"
        self.moved_pieces: Any = self.moved_b
        if self.split_rows:
            item, inside = ELEMENT_BYTES[p.b.dtype], prod(p.n[1:])
            self.moved_pieces = (
                n.mean
                // inside
                * k.over(lambda depth: cost_rules.granules(self.machine, depth * inside * item))
            )
            self.pieces = (
                k.mean * (n.mean // inside) * cost_rules.granules(self.machine, inside * item)
            )
        if p.folded:
            (channels, elements), item = self._mean_image(), ELEMENT_BYTES[p.c.dtype]
            of_image = np.where(self.whole_images, channels * prod(p.folded.shape.sizes), elements)
            self.moved_c, self.elements_c = (
                channels * elements / of_image * cost_rules.granules(self.machine, of_image * item),
                0.0,
            )
            stored = channels * elements
        else:
            sides = (m.times(2), n.times(0.5)) if p.zipped else (m, n)
            self.moved_c, self.elements_c = moved(self.machine, p.c, *sides, self.transpose_c)
            stored = m.mean * n.mean
        alike = p.epilogue_c_layout_bytes / ELEMENT_BYTES[p.c.dtype]
        self.beside_c = (
            stored * (p.epilogue_bytes - p.epilogue_c_layout_bytes) + alike * self.moved_c
        )
        if p.a_windows:
            self.mean_lengths = (
                self._lengths(m.mean / m.full, k.mean / k.full)
                if m.ragged or k.ragged
                else self.lengths
            )
            self.mean_block = prod(self.mean_lengths, start=np.ones_like(self.block))
            self.moved_a, self.elements_a = box_moved(
                self.machine, p, self.mean_lengths, self.mean_block
            )
            self.moved_turned, self.elements_turned = self.moved_a, self.elements_a
        else:
            self.mean_block = m.mean * k.mean
            self.moved_a, self.elements_a = moved(self.machine, p.a, m, k, False)
            self.moved_turned, self.elements_turned = moved(self.machine, p.a, m, k, True)

    def _product(self, n: Any, k: Any) -> Any:
        """Return the cycles of the micro-kernel for as many rows as it computes at once."""
        p, mc = self.problem, self.machine
        if p.a_windows:
            return cost_rules.windows_cycles(mc, p.accumulator, mc.mm_rows, n, self.runs, k)
        return (cost_rules.dot_cycles if self.b_layout == "dot" else cost_rules.outer_cycles)(
            mc, p.accumulator, mc.mm_rows, n, k
        )

    def _computing(self) -> None:
        """Set the cycles of a step's products, and of the epilogue of a panel."""
        p, mc, m, n, k = self.problem, self.machine, self.of_m, self.of_n, self.of_k
        scalar = mc.scalar_latency
        if self.b_layout == "dot":  # partial vectors of k cost as much as whole ones
            product = n.over(lambda columns: k.over(lambda depth: self._product(columns, depth)))
        else:
            product = n.over(lambda columns: self._product(columns, k.mean))
        product = m.over(lambda rows: cost_rules.pieces(rows, mc.mm_rows)) * product
        self.matrix = self.walked * (product + mc.issue_cycles + SCALARS["product"] * scalar)
        self.turning = (
            cost_rules.transpose_cycles(mc, p.b.dtype, k.mean, n.mean)
            if self.b_layout == "turned"
            else 0.0
        )
        self.making: Any = self.walked * box_cycles(mc, p, self.mean_lengths) if p.a_tiles else 0.0
        if p.b_tiles:
            self.turning = self.turning + prologue_cycles(mc, p, k.mean, n.mean, self.b_layout)
        self.parameter = slot_bytes(
            np.maximum(*(self._image() if p.folded else (self.mc, self.nt))),
            1,
            ELEMENT_BYTES[p.accumulator],
        )
        rows, columns = self._mean_image() if p.folded else (m.mean, n.mean)
        vectors = rows * cost_rules.pieces(columns, mc.lanes(p.accumulator))
        self.body = (
            p.epilogue_interval * vectors + 40
            if p.epilogue_tiles + p.epilogue_broadcasts
            else 0.0 * vectors
        )
        turning: Any = 0.0
        if p.folded:
            elements = axis([p.folded.elements(cut) for cut in self.cuts[1]], 2) * (n.mean / n.full)
            turning = cost_rules.fold_cycles(mc, p.accumulator, p.folded.shape, rows, elements)
        elif self.transpose_c:
            turning = cost_rules.transpose_cycles(mc, p.accumulator, m.mean, n.mean, p.zipped)
        if p.sums:
            turning = turning + sums_cycles(
                mc, p, *((n.mean, m.mean) if self.transpose_c else (m.mean, n.mean))
            )
        self.after = self.walked * (
            mc.issue_cycles + SCALARS["store"] * scalar + self.body + turning
        )

    def _least_moving(self) -> Any:
        """Return a lower bound of the cycles of all transfers.

        The busiest core loads its part of A and B and stores its part of C at least once, at a
        core's bandwidth. All cores together move all of them at least once, at the cluster's. The
        sums are those of `PricedPlan`, each term at its minimum.
        """
        p, mc = self.problem, self.machine
        columns = np.minimum(self.n_blocks, self.groups[1])
        panels, extra = self.row_trips * self.column_trips, self.beside_c
        moved_a = np.minimum(self.moved_a, self.moved_turned)
        rate = mc.core_bandwidth / mc.clock_hz

        def cycles(moved: Any, elements: Any) -> Any:
            return cost_rules.transfer_cycles(mc, moved / rate, 0.0, elements)

        each = cycles(moved_a, np.minimum(self.elements_a, self.elements_turned))
        own = self.row_trips * self.k_blocks * (self.walked / columns) * each
        # if all cores share B
        moved_b = np.minimum(self.moved_b, self.moved_pieces) / self.groups[0]
        own = own + self.column_trips * self.k_blocks * cycles(
            moved_b, self.elements_b / self.groups[0]
        )
        own = own + panels * self.walked * (
            cycles(self.moved_c, self.elements_c)
            + extra / rate
            + mc.dma_latency * (p.epilogue_tiles + p.epilogue_broadcasts)
        )
        together = self.row_trips * self.k_blocks * self.walked * moved_a * self.even_rows
        together = (
            together
            + self.column_trips
            * self.k_blocks
            * np.minimum(self.moved_b, self.moved_pieces)
            * self.even_columns
        )
        together = (
            together
            + panels * self.walked * (self.moved_c + extra) * self.even_rows * self.even_columns
        )
        return np.maximum(own, together * (mc.clock_hz / mc.ddr_bandwidth))

    def _even(self) -> None:
        """Set the mean number of busy core groups along rows and columns.

        Columns are weighted by their elements, and by their traffic of B and of C.
        """
        p, n, trips = self.problem, self.of_n, self.column_trips
        rows, columns = (
            np.minimum(self.rows, self.groups[0]),
            np.minimum(self.n_blocks, self.groups[1]),
        )
        self.even_rows = np.maximum(
            np.minimum(
                self.batch * prod(p.m) / (self.row_trips * (self.walked * self.of_m.mean)), rows
            ),
            1.0,
        )

        def of_columns(cost: Callable[[Any], Any]) -> Any:
            return np.maximum(np.minimum(n.even(cost, trips), columns), 1.0)

        self.even_columns = self.even_b = self.even_c = of_columns(lambda elements: elements)
        if self.b_layout == "plain" and p.b.runs[1]:
            self.even_b = of_columns(partial(run_bytes, self.machine, p.b, 1))
        if not self.transpose_c and p.c.runs[1]:
            self.even_c = of_columns(partial(run_bytes, self.machine, p.c, 1))
