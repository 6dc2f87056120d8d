"""Search space of panel schedules: candidate sizes for one grid of cores, with traffic and compute.

``panel_cost`` prices them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, prod

import numpy as np

from ftm_backend.midend.schedule.gemm.candidate_tile_sizes import (
    CandidateSizes,
    axis,
    cuts_of,
    tile_extents,
)
from ftm_backend.midend.schedule.gemm.core_partition import BlockExtents
from ftm_backend.midend.schedule.gemm.schedule import BLayout
from ftm_backend.midend.schedule.gemm.tiling_problem import EpilogueTraffic, TileCut, TilingProblem
from ftm_backend.midend.schedule.gemm.traffic_model import (
    box_cycles,
    box_traffic,
    operand_traffic,
    prologue_cycles,
    run_bytes,
    sums_cycles,
)
from ftm_backend.target import cost_rules
from ftm_backend.target.element_types import Numbers, slot_bytes
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["CERTAIN", "SCALARS", "PanelSearchSpace"]

SCALARS = {"step": 60, "single": 15, "deferred": 50, "load": 22, "product": 22, "store": 30}
"""Scalar instructions around the tile instructions of a step, and around each of those."""
CERTAIN = 1 - 1e-9
"""Factor of lower bounds: a sum in another order may differ by rounding."""


class PanelSearchSpace:
    """All sizes that may fit, for one grid of cores and one layout of B, as arrays.

    Attributes:
        cycles_floor: Lower bound of the cycles of any plan with these sizes: compute alone, or all
            traffic once.
        least_cycles: The smallest ``cycles_floor``.
        size_indices: For each axis (m, chunks, n, k), the index of each entry's size.
    """

    size_indices: tuple[np.ndarray, ...]

    def __init__(
        self,
        problem: TilingProblem,
        machine: MachineParameters,
        groups: tuple[int, int],
        b_layout: BLayout,
        sampling: CandidateSizes,
    ) -> None:
        """Compute the candidates.

        Args:
            problem: The contraction.
            machine: The target.
            groups: Rows and columns of the grid of cores.
            b_layout: Layout of B; see ``Schedule``.
            sampling: Density of the candidates.
        """
        self.problem, self.machine, self.groups, self.b_layout = problem, machine, groups, b_layout
        rows, columns = groups
        accumulator = problem.accumulator
        self.transpose_c, self.epilogue = problem.transpose_c, problem.epilogue
        self.cuts = cuts_of(problem, machine, groups, b_layout == "dot", sampling)
        (ms, ns, ks) = self.cuts
        self.m_extents = BlockExtents(ms, problem.m, 0)
        self.n_extents = BlockExtents(ns, problem.n, 2, problem.col2im is not None)
        self.k_extents = BlockExtents(ks, problem.k, 3)
        self.m_tile = self.m_extents.full
        self.n_tile = self.n_extents.full
        self.k_tile = self.k_extents.full
        m_blocks = self.m_extents.blocks
        self.n_blocks = self.n_extents.blocks
        self.k_blocks = cost_rules.pieces(self.k_extents.blocks, problem.k_groups)
        self._set_windows(ms, ks)
        self.panels = cost_rules.pieces(m_blocks, np.minimum(axis(sampling.chunks, 1), m_blocks))
        self.chunks = cost_rules.pieces(m_blocks, self.panels)
        # chunks that a deferred epilogue finishes in each step of the next panel
        self.deferred_chunks = cost_rules.pieces(self.chunks, self.k_blocks)
        self.rows = self.panels * problem.entries
        self.row_waves = cost_rules.pieces(self.rows, rows)
        self.column_waves = cost_rules.pieces(self.n_blocks, columns)
        self.m_extents.set_busiest(self.row_waves * self.chunks)
        self.n_extents.set_busiest(self.column_waves)
        self.k_extents.set_busiest(self.k_blocks)
        spared = self.row_waves // self.panels * (self.panels * self.chunks - m_blocks)
        self.mean_chunks = self.chunks - spared / self.row_waves  # mean number of chunks of a panel
        self._set_busy_groups()
        self._set_traffic()
        self._set_products()
        self._set_epilogue()
        self.c_tile = slot_bytes(self.m_tile, self.n_tile, ELEMENT_BYTES[accumulator])
        self.result_tile = (
            slot_bytes(*self._col2im_extents(), ELEMENT_BYTES[accumulator])
            if problem.col2im
            else self.c_tile
        )
        self.b_tile = slot_bytes(self.k_tile, self.n_tile, ELEMENT_BYTES[problem.a.dtype])
        self.adding_cycles: Numbers = 0.0
        self.adding_bytes: Numbers = 0
        self.partial_bytes: Numbers = 0
        if problem.k_groups > 1:
            self._set_adding(m_blocks * self.n_blocks)
        computing = (
            self.row_waves
            * self.column_waves
            * (self.k_blocks * self.matrix + self.epilogue_cycles)
        )
        cycles_floor = np.maximum(computing, CERTAIN * self._traffic_floor()) + self.adding_cycles
        self.cycles_floor = np.where(
            self.c_tile * self.chunks + 2 * self.b_tile <= machine.am_bytes, cycles_floor, inf
        )
        self.least_cycles = float(self.cycles_floor.min(initial=inf))

    def _col2im_extents(self) -> tuple[Numbers, Numbers]:
        """Return the channels of a col2im block and the elements of its feature maps."""
        geometry = self.problem.col2im
        assert geometry is not None
        self.covers_feature_maps = axis([cut.dim == 0 for cut in self.cuts[1]], 2)
        return self.m_tile // prod(geometry.shape.taps), axis(
            [geometry.columns(cut) for cut in self.cuts[1]], 2
        )

    def _mean_col2im_extents(self) -> tuple[Numbers, Numbers]:
        """Return the same for the mean block."""
        channels, elements = self._col2im_extents()
        return channels * (self.m_extents.mean / self.m_tile), elements * (
            self.n_extents.mean / self.n_tile
        )

    def _set_windows(self, ms: Sequence[TileCut], ks: Sequence[TileCut]) -> None:
        """Set the elements of A below the largest block, the box's extents, and even runs of k."""
        p = self.problem
        self.block: Numbers = self.m_tile * self.k_tile
        self.lengths: tuple[Numbers, ...] = ()
        self.runs: Numbers = 1
        if p.a_windows:
            self.counts = (
                [tile_extents(p.m, cut) for cut in ms],
                [tile_extents(p.k, cut) for cut in ks],
            )
            self.lengths = self._lengths(None, None)
            self.block = prod(self.lengths, start=np.ones_like(self.block))
            self.runs = axis([cost_rules.even_runs(counts) for counts in self.counts[1]], 3)

    def _lengths(self, *parts: Numbers | None) -> tuple[Numbers, ...]:
        """Return the extents of the window box below a block.

        Args:
            parts: Fractions of the cut dimension of m and of k that the block covers; None: all.
        """
        p, lengths = self.problem, []
        for side in p.a_windows:
            length: Numbers = 1
            for position, step in side.steps:
                group, at = (0, position) if position < len(p.m) else (1, position - len(p.m))
                grid_axis, cuts = (0, 3)[group], self.cuts[(0, 2)[group]]
                counts: Numbers = axis([counts[at] for counts in self.counts[group]], grid_axis)
                part = parts[group]
                if part is not None:
                    counts = counts * np.where(
                        axis([cut.dim == at for cut in cuts], grid_axis), part, 1
                    )
                length = length + (counts - 1) * abs(step)
            lengths.append(
                np.where(length == side.full, side.padded_length, length)
                if side.padded_length
                else length
            )
        return tuple(lengths)

    def _set_traffic(self) -> None:
        """Set the DDR bytes and single-element DMA cycles of blocks of A, B and C.

        A has them plain and transposed. C's include the epilogue's transfers.
        """
        p = self.problem
        m, n, k = self.m_extents, self.n_extents, self.k_extents
        self.mean_b = k.mean * n.mean
        self.moved_b, self.elements_b = operand_traffic(
            self.machine, p.b, k, n, self.b_layout != "plain"
        )
        self.moved_b = self.moved_b * p.b_prologue.full_loads
        self.elements_b = self.elements_b * p.b_prologue.full_loads
        self.split_rows = p.split_rows and self.b_layout == "plain"
        self.moved_b_split: Numbers = self.moved_b
        if self.split_rows:
            item, inside = ELEMENT_BYTES[p.b.dtype], prod(p.n[1:])
            self.moved_b_split = (
                n.mean
                // inside
                * k.mean_of(lambda depth: cost_rules.granules(self.machine, depth * inside * item))
            )
            self.pieces = (
                k.mean * (n.mean // inside) * cost_rules.granules(self.machine, inside * item)
            )
        if p.col2im:
            (channels, elements), item = self._mean_col2im_extents(), ELEMENT_BYTES[p.c.dtype]
            row_elements = np.where(
                self.covers_feature_maps, channels * prod(p.col2im.shape.sizes), elements
            )
            rows = channels * elements / row_elements
            self.moved_c: Numbers = rows * cost_rules.granules(self.machine, row_elements * item)
            self.elements_c: Numbers = 0.0
            stored = channels * elements
        else:
            self.moved_c, self.elements_c = operand_traffic(
                self.machine, p.c, m, n, self.transpose_c
            )
            stored = m.mean * n.mean
        c_layout_elements = p.epilogue.c_layout_bytes / ELEMENT_BYTES[p.c.dtype]
        self.epilogue_moved = (
            stored * (p.epilogue.bytes - p.epilogue.c_layout_bytes)
            + c_layout_elements * self.moved_c
        )
        if p.a_windows:
            self.mean_lengths = (
                self._lengths(m.mean / m.full, k.mean / k.full)
                if m.ragged or k.ragged
                else self.lengths
            )
            self.mean_block = prod(self.mean_lengths, start=np.ones_like(self.block))
            self.moved_a, self.elements_a = box_traffic(
                self.machine, p, self.mean_lengths, self.mean_block
            )
            self.moved_a_transposed, self.elements_a_transposed = self.moved_a, self.elements_a
        else:
            self.mean_block = m.mean * k.mean
            self.moved_a, self.elements_a = operand_traffic(self.machine, p.a, m, k, False)
            self.moved_a_transposed, self.elements_a_transposed = operand_traffic(
                self.machine, p.a, m, k, True
            )

    def _product(self, n: Numbers, k: Numbers) -> Numbers:
        """Return the cycles of the micro-kernel for as many rows as it computes at once."""
        p, machine = self.problem, self.machine
        if p.a_windows:
            return cost_rules.windows_cycles(
                machine, p.accumulator, machine.mm_rows, n, self.runs, k
            )
        return (cost_rules.dot_cycles if self.b_layout == "dot" else cost_rules.outer_cycles)(
            machine, p.accumulator, machine.mm_rows, n, k
        )

    def _set_products(self) -> None:
        """Set the cycles of a step's products, of prologues and of transpositions of B."""
        p, machine, m = self.problem, self.machine, self.m_extents
        n, k = self.n_extents, self.k_extents
        if self.b_layout == "dot":  # partial vectors of k cost as much as whole ones
            product = n.mean_of(
                lambda columns: k.mean_of(lambda depth: self._product(columns, depth))
            )
        else:
            product = n.mean_of(lambda columns: self._product(columns, k.mean))
        product = m.mean_of(lambda rows: cost_rules.pieces(rows, machine.mm_rows)) * product
        self.matrix = self.mean_chunks * (
            product + machine.issue_cycles + SCALARS["product"] * machine.scalar_latency
        )
        self.a_prologue_cycles: Numbers = 0.0
        if p.a_prologue.tiles:
            self.a_prologue_cycles = self.mean_chunks * box_cycles(machine, p, self.mean_lengths)
        self.b_prepare_cycles: Numbers = 0.0
        if self.b_layout == "transposed":
            self.b_prepare_cycles = cost_rules.transpose_cycles(machine, p.b.dtype, k.mean, n.mean)
        if p.b_prologue.tiles:
            self.b_prepare_cycles = self.b_prepare_cycles + prologue_cycles(
                machine, p, k.mean, n.mean, self.b_layout
            )

    def _set_epilogue(self) -> None:
        """Set the cycles of the epilogue of a panel, and of its body for a chunk."""
        p, machine, m, n = self.problem, self.machine, self.m_extents, self.n_extents
        largest = self._col2im_extents() if p.col2im else (self.m_tile, self.n_tile)
        self.broadcast_tile = slot_bytes(np.maximum(*largest), 1, ELEMENT_BYTES[p.accumulator])
        rows, columns = self._mean_col2im_extents() if p.col2im else (m.mean, n.mean)
        vectors = rows * cost_rules.pieces(columns, machine.lanes(p.accumulator))
        has_body = p.epilogue.transfers > 0
        self.body = p.epilogue.interval * vectors + 40 if has_body else 0.0 * vectors
        transforming: Numbers = 0.0
        if p.col2im:
            elements = axis([p.col2im.elements(cut) for cut in self.cuts[1]], 2) * (n.mean / n.full)
            transforming = cost_rules.fold_cycles(
                machine, p.accumulator, p.col2im.shape, rows, elements
            )
        elif self.transpose_c:
            transforming = cost_rules.transpose_cycles(machine, p.accumulator, m.mean, n.mean)
        if p.sums:
            sides = (n.mean, m.mean) if self.transpose_c else (m.mean, n.mean)
            transforming = transforming + sums_cycles(machine, p, *sides)
        scalar = SCALARS["store"] * machine.scalar_latency
        self.epilogue_cycles = self.mean_chunks * (
            machine.issue_cycles + scalar + self.body + transforming
        )

    def _set_adding(self, blocks: Numbers) -> None:
        """Set the cycles and AM bytes to add up partial sums, and move the epilogue there.

        Each block of C belongs to one core, which reads the block's partial sums from GSM, adds
        them up, applies the epilogue and stores the block. Panels go to GSM instead.

        Args:
            blocks: Chunks of C by blocks of columns of a batch entry.
        """
        p, machine, epilogue = self.problem, self.machine, self.epilogue
        own = cost_rules.pieces(prod(p.batch) * blocks, machine.cores)
        busy = prod(p.batch) * blocks / own
        bandwidth = np.minimum(machine.ddr_bandwidth / busy, machine.core_bandwidth)
        rate = bandwidth / machine.clock_hz
        gsm_cycles = self.c_tile / machine.gsm_bytes_per_cycle
        part = cost_rules.transfer_cycles(machine, 0.0, gsm_cycles * busy, 0.0)
        vectors = self.m_tile * cost_rules.pieces(self.n_tile, machine.lanes(p.accumulator))
        adding = 40 + 1.5 * vectors + machine.issue_cycles
        loads = epilogue.load_fraction * self.epilogue_moved / rate
        loads = loads + machine.dma_latency * epilogue.loads
        summing = loads + part + (p.k_groups - 1) * np.maximum(part, adding)
        summing = summing + self.epilogue_cycles / self.mean_chunks
        stores = cost_rules.transfer_cycles(machine, self.moved_c / rate, 0.0, self.elements_c)
        stores = stores + (1 - epilogue.load_fraction) * self.epilogue_moved / rate
        stores = stores + machine.dma_latency * max(epilogue.tiles - epilogue.operands - 1, 0)
        self.adding_cycles = own * (summing + stores) + 2 * machine.barrier_cycles
        self.adding_bytes = (
            self.c_tile * (2 + self.transpose_c + epilogue.tiles)
            + epilogue.broadcasts * self.broadcast_tile
            + self.c_tile // ELEMENT_BYTES[p.accumulator] * epilogue.extra_bytes
        )
        self.partial_bytes = p.entries * blocks * self.c_tile
        self.transpose_c, self.epilogue, self.epilogue_moved = False, EpilogueTraffic(), 0.0
        self.moved_c = 0.0
        self.elements_c = gsm_cycles * self.busy_row_groups * self.busy_column_groups
        self.body = 0.0 * self.body
        storing = machine.issue_cycles + SCALARS["store"] * machine.scalar_latency
        self.epilogue_cycles = self.mean_chunks * storing

    def _traffic_floor(self) -> Numbers:
        """Return a lower bound of the cycles of all transfers.

        The busiest core loads its part of A and B and stores its part of C at least once, at a
        core's bandwidth. All cores together move all of them at least once, at the cluster's. The
        sums are those of `PricedPlan`, each term at its minimum.
        """
        machine = self.machine
        columns = np.minimum(self.n_blocks, self.groups[1])
        panels, extra = self.row_waves * self.column_waves, self.epilogue_moved
        moved_a = np.minimum(self.moved_a, self.moved_a_transposed)
        rate = machine.core_bandwidth / machine.clock_hz

        def cycles(operand_traffic: Numbers, elements: Numbers) -> Numbers:
            return cost_rules.transfer_cycles(machine, operand_traffic / rate, 0.0, elements)

        each = cycles(moved_a, np.minimum(self.elements_a, self.elements_a_transposed))
        own_cycles = self.row_waves * self.k_blocks * (self.mean_chunks / columns) * each
        # if all cores share B
        moved_b = np.minimum(self.moved_b, self.moved_b_split) / self.groups[0]
        own_cycles = own_cycles + self.column_waves * self.k_blocks * cycles(
            moved_b, self.elements_b / self.groups[0]
        )
        own_cycles = own_cycles + panels * self.mean_chunks * (
            cycles(self.moved_c, self.elements_c)
            + extra / rate
            + machine.dma_latency * self.epilogue.transfers
        )
        total_bytes = (
            self.row_waves * self.k_blocks * self.mean_chunks * moved_a * self.busy_row_groups
        )
        total_bytes = (
            total_bytes
            + self.column_waves
            * self.k_blocks
            * np.minimum(self.moved_b, self.moved_b_split)
            * self.busy_column_groups
        )
        total_bytes = (
            total_bytes
            + panels
            * self.mean_chunks
            * (self.moved_c + extra)
            * self.busy_row_groups
            * self.busy_column_groups
        )
        return np.maximum(own_cycles, total_bytes * (machine.clock_hz / machine.ddr_bandwidth))

    def _set_busy_groups(self) -> None:
        """Set the mean number of busy core groups along rows and columns.

        Columns are weighted by their elements, and by their traffic of B and of C.
        """
        p, n, trips = self.problem, self.n_extents, self.column_waves
        rows = np.minimum(self.rows, self.groups[0])
        columns = np.minimum(self.n_blocks, self.groups[1])
        self.busy_row_groups = np.maximum(
            np.minimum(
                p.entries * prod(p.m) / (self.row_waves * (self.mean_chunks * self.m_extents.mean)),
                rows,
            ),
            1.0,
        )

        def of_columns(cost: Callable[[Numbers], Numbers]) -> Numbers:
            return np.maximum(np.minimum(n.busy_cores(cost, trips), columns), 1.0)

        self.busy_column_groups = self.busy_column_groups_b = self.busy_column_groups_c = (
            of_columns(lambda elements: elements)
        )
        if self.b_layout == "plain" and p.b.runs[1]:
            self.busy_column_groups_b = of_columns(partial(run_bytes, self.machine, p.b, 1))
        if not self.transpose_c and p.c.runs[1]:
            self.busy_column_groups_c = of_columns(partial(run_bytes, self.machine, p.c, 1))
