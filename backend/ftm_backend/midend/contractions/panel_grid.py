"""Sizes of blocks that plans of panels may have, for one grid of cores, and what each moves and computes: what `panel_cost` prices."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any

import numpy as np

from ftm_backend.instructions.types import slot_bytes
from ftm_backend.machine import rules
from ftm_backend.machine.presets import ELEMENT_BYTES, MachineParameters
from ftm_backend.midend.contractions.panel_moves import box_cycles, box_moved, factor_cycles, moved, sums_cycles
from ftm_backend.midend.contractions.panel_sizes import Cuts, Sampling, axis, cuts_of, taken
from ftm_backend.midend.contractions.tiling import Cut, Problem

__all__ = ["CERTAIN", "SCALARS", "Grid"]

SCALARS = {"step": 60, "load": 22, "product": 22, "store": 30}
"""Scalar work around the tile instructions of a step, and around each of them, in instructions."""
CERTAIN = 1 - 1e-9
"""How sure a lower bound is that is summed in another order than what it bounds."""


class Grid:
    """All sizes that may fit, for one grid of cores and one form of B: arrays with an entry for each.

    floor: cycles of computing alone, or of moving all once, which no plan with these sizes is below; ``least``: of the best sizes.
    places: for each axis (m, chunks, n, k) which of its sizes an entry has.
    """

    places: tuple[Any, ...]

    def __init__(self, problem: Problem, machine: MachineParameters, groups: tuple[int, int], b_form: str, sampling: Sampling) -> None:
        self.problem, self.machine, self.groups, self.b_form = problem, machine, groups, b_form
        self.batch = prod(problem.batch)
        rows, columns = groups
        accumulator = problem.accumulator
        self.turn_c = problem.zipped or problem.folded is not None or (problem.c.runs[1] == 0 and problem.c.runs[0] > 0)
        self.cuts = self._cuts(sampling)
        (ms, ns, ks) = self.cuts
        self.mc, self.nt, self.kt = (axis([c.elements for c in cs], at) for cs, at in ((ms, 0), (ns, 2), (ks, 3)))
        m_blocks = axis([c.blocks for c in ms], 0)
        self.n_blocks, self.k_blocks = axis([c.blocks for c in ns], 2), axis([c.blocks for c in ks], 3)
        self._windows(ms, ks)
        self.panels = self._panels(m_blocks, sampling)
        self.chunks = rules.pieces(m_blocks, self.panels)
        self.late = rules.pieces(self.chunks, self.k_blocks)  # chunks that are finished in each step of the next panel
        self.rows = self.panels * self.batch
        self.row_trips = rules.pieces(self.rows, rows)
        self.column_trips = rules.pieces(self.n_blocks, columns)
        self._moving()
        self._computing()
        self.c_tile = slot_bytes(self.mc, self.nt, ELEMENT_BYTES[accumulator])
        self.result_tile = slot_bytes(*self._image(), ELEMENT_BYTES[accumulator]) if problem.folded else self.c_tile
        self.b_tile = slot_bytes(self.kt, self.nt, ELEMENT_BYTES[problem.a.dtype])
        computing = self.row_trips * self.column_trips * (self.k_blocks * self.matrix + self.after)
        floor = np.maximum(computing, CERTAIN * self._least_moving())
        self.floor = np.where(self.c_tile * self.chunks + 2 * self.b_tile <= machine.am_bytes, floor, inf)
        self.least = float(self.floor.min())

    def _cuts(self, sampling: Sampling) -> Cuts:
        """Those of m, n and k that are tried."""
        return cuts_of(self.problem, self.machine, self.groups, self.b_form == "dot", self.turn_c, sampling)

    def _panels(self, m_blocks: Any, sampling: Sampling) -> Any:
        """Row panels of a batch entry."""
        return rules.pieces(m_blocks, np.minimum(axis(sampling.chunks, 1), m_blocks))

    def _image(self) -> tuple[Any, Any]:
        """Channels of a block, and elements of its images."""
        folded = self.problem.folded
        assert folded is not None
        self.whole_images = axis([cut.dim == 0 for cut in self.cuts[1]], 2)
        return self.mc // prod(folded.shape.taps), axis([folded.columns(cut) for cut in self.cuts[1]], 2)

    def _windows(self, ms: Sequence[Cut], ks: Sequence[Cut]) -> None:
        """Elements of A that a block of m x k covers, lengths of its sides, and even runs of k."""
        p = self.problem
        self.block: Any = self.mc * self.kt
        self.lengths: tuple[Any, ...] = ()
        self.runs: Any = 1
        if not p.a_windows:
            return
        steps = [taken(p.m, cut) for cut in ms], [taken(p.k, cut) for cut in ks]
        for side in p.a_windows:
            length: Any = 1
            for position, step in side.steps:
                group, at = (0, position) if position < len(p.m) else (1, position - len(p.m))
                length = length + axis([(counts[at] - 1) * abs(step) for counts in steps[group]], 0 if group == 0 else 3)
            length = np.where(length == side.full, side.joined, length) if side.joined else length
            self.lengths += (length,)
        self.block = prod(self.lengths, start=np.ones_like(self.block))
        self.runs = axis([rules.even_runs(counts) for counts in steps[1]], 3)

    def _moving(self) -> None:
        """For blocks of A as it lies and turned, of B, C and what follows: bytes that DDR moves, and cycles of the engine for elements."""
        p = self.problem
        self.moved_b, self.elements_b = moved(self.machine, p.b, self.kt, self.nt, self.b_form != "plain")
        self.moved_b, self.elements_b = self.moved_b * max(p.b_tiles, 1), self.elements_b * max(p.b_tiles, 1)
        self.piecewise = p.piecewise and self.b_form == "plain"
        self.moved_pieces: Any = self.moved_b
        if self.piecewise:
            item, inside = ELEMENT_BYTES[p.b.dtype], prod(p.n[1:])
            self.moved_pieces = self.nt // inside * rules.granules(self.machine, self.kt * inside * item)
            self.pieces = self.kt * (self.nt // inside) * rules.granules(self.machine, inside * item)
        if p.folded:
            (channels, elements), item = self._image(), ELEMENT_BYTES[p.c.dtype]
            of_image = np.where(self.whole_images, channels * prod(p.folded.shape.sizes), elements)
            self.moved_c, self.elements_c = channels * elements / of_image * rules.granules(self.machine, of_image * item), 0.0
            stored = channels * elements
        else:
            sides = (2 * self.mc, self.nt // 2) if p.zipped else (self.mc, self.nt)
            self.moved_c, self.elements_c = moved(self.machine, p.c, *sides, self.turn_c)
            stored = self.mc * self.nt
        alike = p.epilogue_alike / ELEMENT_BYTES[p.c.dtype]
        self.beside_c = stored * (p.epilogue_bytes - p.epilogue_alike) + alike * self.moved_c
        if p.a_windows:
            self.moved_a, self.elements_a = box_moved(self.machine, p, self.lengths, self.block)
            self.moved_turned, self.elements_turned = self.moved_a, self.elements_a
        else:
            self.moved_a, self.elements_a = moved(self.machine, p.a, self.mc, self.kt, False)
            self.moved_turned, self.elements_turned = moved(self.machine, p.a, self.mc, self.kt, True)

    def _computing(self) -> None:
        """Cycles of the products of a step and of what follows the last step of a panel."""
        p, mc = self.problem, self.machine
        scalar = mc.scalar_latency
        if p.a_windows:
            product = rules.windows_cycles(mc, p.accumulator, self.mc, self.nt, self.runs, self.kt)
        else:
            product = (rules.dot_cycles if self.b_form == "dot" else rules.outer_cycles)(mc, p.accumulator, self.mc, self.nt, self.kt)
        self.matrix = self.chunks * (product + mc.issue_cycles + SCALARS["product"] * scalar)
        self.turning = rules.transpose_cycles(mc, p.b.dtype, self.kt, self.nt) if self.b_form == "turned" else 0.0
        self.making: Any = self.chunks * box_cycles(mc, p, self.lengths) if p.a_tiles else 0.0
        if p.b_tiles:
            self.turning = self.turning + factor_cycles(mc, p, self.kt, self.nt, self.b_form)
        rows, columns = self._image() if p.folded else (self.mc, self.nt)
        vectors = rows * rules.pieces(columns, mc.lanes(p.accumulator))
        self.parameter = slot_bytes(np.maximum(rows, columns), 1, ELEMENT_BYTES[p.accumulator])
        self.body = p.epilogue_interval * vectors + 40 if p.epilogue_tiles + p.epilogue_parameters else 0.0 * vectors
        turning: Any = 0.0
        if p.folded:
            elements = axis([p.folded.elements(cut) for cut in self.cuts[1]], 2)
            turning = rules.fold_cycles(mc, p.accumulator, p.folded.shape, self._image()[0], elements)
        elif self.turn_c:
            turning = rules.transpose_cycles(mc, p.accumulator, self.mc, self.nt, p.zipped)
        if p.sums:
            turning = turning + sums_cycles(mc, p, *((self.nt, self.mc) if self.turn_c else (self.mc, self.nt)))
        self.after = self.chunks * (mc.issue_cycles + SCALARS["store"] * scalar + self.body + turning)

    def _least_moving(self) -> Any:
        """Cycles below which no choice gets: the engine of the busiest core loads its part of A and B and stores its part of C at least
        once, at a core's bandwidth; and all cores together move all of them at least once, at the cluster's.

        The sums are those of `Priced`, with each term at its least.
        """
        p, mc = self.problem, self.machine
        columns = np.minimum(self.n_blocks, self.groups[1])
        panels, extra = self.row_trips * self.column_trips, self.beside_c
        moved_a = np.minimum(self.moved_a, self.moved_turned)
        rate = mc.core_bandwidth / mc.clock_hz

        def cycles(moved: Any, elements: Any) -> Any:
            return rules.transfer_cycles(mc, moved / rate, 0.0, elements)

        each = cycles(moved_a, np.minimum(self.elements_a, self.elements_turned))
        own = self.row_trips * self.k_blocks * rules.pieces(self.chunks, columns) * each
        moved_b = np.minimum(self.moved_b, self.moved_pieces) / self.groups[0]  # where all fetch it together
        own = own + self.column_trips * self.k_blocks * cycles(moved_b, self.elements_b / self.groups[0])
        own = own + panels * self.chunks * (
            cycles(self.moved_c, self.elements_c) + extra / rate + mc.dma_latency * (p.epilogue_tiles + p.epilogue_parameters)
        )
        even_rows, even_columns = self.even()
        together = self.row_trips * self.k_blocks * self.chunks * moved_a * even_rows
        together = together + self.column_trips * self.k_blocks * np.minimum(self.moved_b, self.moved_pieces) * even_columns
        together = together + panels * self.chunks * (self.moved_c + extra) * even_rows * even_columns
        return np.maximum(own, together * (mc.clock_hz / mc.ddr_bandwidth))

    def even(self) -> tuple[Any, Any]:
        """How many groups of cores have rows and columns on average, while the busiest one works."""
        p = self.problem
        rows, columns = np.minimum(self.rows, self.groups[0]), np.minimum(self.n_blocks, self.groups[1])
        even_rows = np.minimum(self.batch * prod(p.m) / (self.row_trips * (self.chunks * self.mc)), rows)
        even_columns = np.minimum(prod(p.n) / (self.column_trips * self.nt) if not p.folded else self.n_blocks / self.column_trips, columns)
        return np.maximum(even_rows, 1.0), np.maximum(even_columns, 1.0)
