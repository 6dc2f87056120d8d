"""What plans of panels cost: many sizes of blocks and choices of `panel_plan`, for one grid of cores, priced at once.

What everything costs is asked of ``machine.rules``, by which the cycle model charges programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from ftm_backend.instructions.types import slot_bytes
from ftm_backend.machine import rules
from ftm_backend.machine.presets import ELEMENT_BYTES, MachineParameters
from ftm_backend.midend.contractions.panel_moves import box_bytes, box_cycles, box_moved, factor_cycles, moved, parameter_bytes, sums_cycles
from ftm_backend.midend.contractions.panel_sizes import Cuts, Sampling, axis, cuts_of, taken
from ftm_backend.midend.contractions.panel_trips import share, trips
from ftm_backend.midend.contractions.tiling import Cut, Problem

__all__ = ["CERTAIN", "CHUNKS", "Choice", "Grid", "Priced"]

CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Chunks of a panel that are tried."""
SCALARS = {"step": 60, "load": 22, "product": 22, "store": 30}
"""Scalar work around the tile instructions of a step, and around each of them, in instructions."""
FEW_PANELS = 2
"""Panels of a core of which the last, whose stores nothing hides, is too much to finish them late."""
CERTAIN = 1 - 1e-9
"""How sure a lower bound is that is summed in another order than what it bounds."""
_SPACES = ("sm", "gsm", "am")


class Choice(NamedTuple):
    """What is neither a size nor the grid of cores; see `panel_plan.PanelPlan`."""

    share: str
    m_outer: bool
    keep: bool


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
        own = own + self.column_trips * self.k_blocks * cycles(np.minimum(self.moved_b, self.moved_pieces), self.elements_b)
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

    def price(self, choices: Sequence[Choice], limit: float = inf) -> Priced:
        """What sizes cost under each of the choices: those whose computing alone is within ``limit`` cycles, and may fit."""
        places = np.nonzero((self.floor <= limit) & (self.floor < inf))

        def at(values: Any) -> Any:
            return values[tuple(at if extent > 1 else 0 for at, extent in zip(places, values.shape, strict=True))]

        kept = copy(self)
        kept.places = places
        for name, values in vars(self).items():
            if isinstance(values, np.ndarray):
                setattr(kept, name, at(values))
        kept.lengths = tuple(map(at, self.lengths))
        return Priced(kept, choices)


class Priced:
    """Cycles of sizes under some choices, those that do not fit the scratchpads infinite: arrays with the axes (choice, sizes).

    best: the least of each choice.
    """

    def __init__(self, grid: Grid, choices: Sequence[Choice]) -> None:
        self.grid, self.choices = grid, choices
        self.problem, self.machine = grid.problem, grid.machine
        self.best = [inf] * len(choices)
        if not grid.places[0].size:
            return
        flags = np.array([(c.share == "a", c.share == "b", c.m_outer, c.keep) for c in choices]).T[:, :, None]
        self.share_a, self.share_b, self.m_outer, self.keep = flags
        self.shared = self.share_a | self.share_b
        self.keep_a, self.keep_b = self.keep & self.m_outer, self.keep & ~self.m_outer
        total = self._total()
        self._at = total.argmin(axis=1)
        self.best = total[range(len(choices)), self._at].tolist()

    # --- transfers ------------------------------------------------------------------------------------

    def _share_bandwidth(self) -> None:
        """Sets each core's part of DDR and GSM."""
        g, mc = self.grid, self.machine
        groups = [np.minimum(g.rows, g.groups[0]), np.minimum(g.n_blocks, g.groups[1])]
        a = g.k_blocks * g.chunks * np.minimum(g.moved_a, g.moved_turned)
        a = a / np.where(self.share_a, groups[1], 1) / np.where(self.keep_a, g.column_trips, 1)
        b = g.k_blocks * np.where(self.share_b, g.moved_pieces, g.moved_b) / np.where(self.keep_b, g.row_trips, 1)
        c = g.chunks * (g.moved_c + g.beside_c)

        def active(rows: Any, columns: Any) -> Any:
            return (a * rows * groups[1] + b * np.where(self.share_b, 1, groups[0]) * columns + c * rows * columns) / (a + b + c)

        every = zip((g.rows, g.n_blocks), (g.row_trips, g.column_trips), g.groups, g.even(), strict=True)
        self.rate, cores = share(mc, active, *(trips(*each) for each in every))
        self.gsm_rate = mc.gsm_bytes_per_cycle / cores

    def _loads(self) -> None:
        """Sets how A is turned, and the cycles of the engine for the loads of a step and for the store of a chunk."""
        g, p, mc = self.grid, self.problem, self.machine
        self._share_bandwidth()

        def cycles(moved: Any, elements: Any, gsm_cycles: Any = 0.0) -> Any:
            return rules.transfer_cycles(mc, moved / self.rate, gsm_cycles, elements)

        through: Any = 0.0
        if self.share_a.any():
            through = np.where(self.share_a, g.block * ELEMENT_BYTES[p.a.dtype] / self.gsm_rate, 0.0)
        plain, turned = (through if p.a_windows or run else 0.0 for run in (p.a.runs[1], p.a.runs[0]))
        each = cycles(g.moved_a, g.elements_a, plain)
        self.trans_a: Any = np.False_
        if not p.a_windows:
            other = cycles(g.moved_turned, g.elements_turned, turned)
            self.trans_a, each = other < each, np.minimum(other, each)
        sharers = np.where(self.share_a, np.minimum(g.groups[1], g.n_blocks), 1)
        self.loads = rules.pieces(g.chunks, sharers)
        self.load_a = self.loads * (each + mc.dma_latency * (max(p.a_tiles, 1) - 1 + p.a_parameters))
        self.load_b = cycles(np.where(self.share_b, g.moved_pieces, g.moved_b), g.elements_b)
        self.load_b = self.load_b + mc.dma_latency * (max(p.b_tiles, 1) - 1 + p.b_parameters)
        if self.share_b.any():
            size = g.pieces if g.piecewise else g.kt * g.nt * ELEMENT_BYTES[p.b.dtype]
            handed_on = rules.transfer_cycles(mc, 0.0, size * np.minimum(g.rows, g.groups[0]) / mc.gsm_bytes_per_cycle, 0.0)
            self.load_b = self.load_b + np.where(self.share_b, handed_on, 0.0)
        store = cycles(g.moved_c, g.elements_c) + g.beside_c / self.rate
        store = store + mc.dma_latency * (p.epilogue_tiles + p.epilogue_parameters + p.sums)
        self.store = store + np.where(self.overlaps, 0.0, g.body)  # in the same tiles a chunk is fetched, computed, stored

    # --- time -----------------------------------------------------------------------------------------

    def _total(self) -> Any:
        """Modelled cycles of the busiest core."""
        g, mc = self.grid, self.machine
        self.space, self.rings, fits = self._places()
        self._loads()
        scalar = mc.scalar_latency
        self.work = g.matrix + (SCALARS["step"] * scalar + self.loads * (mc.issue_cycles + SCALARS["load"] * scalar))
        self.outer, self.inner = self._ordered(g.row_trips, g.column_trips)
        self.load_outer, self.load_inner = self._ordered(self.load_a, self.load_b)
        self.turn_outer, self.turn_inner = self._ordered(g.making, g.turning)
        both = self.load_outer + self.load_inner
        fresh = self._block(self.work + g.making + g.turning, both, self.shared)
        total = self.outer * self.inner * fresh
        if self.keep.any():
            again = self._block(self.work + self.turn_inner, self.load_inner, self.shared & ~(self.share_a & self.m_outer))
            total = np.where(self.keep, self.outer * (fresh + (self.inner - 1) * again), total)
        # The last step fetches nothing.
        step, load, stores = self.work + self.turn_inner, np.where(self.keep, self.load_inner, both), g.chunks * self.store
        ended = step + g.after
        total = total - np.where(
            g.k_blocks == 1, np.maximum(ended, load + stores) - np.maximum(ended, stores), np.maximum(load - step, 0.0)
        )
        alone = self.work + g.after
        total = np.where(
            self.outer * self.inner * g.k_blocks == 1, g.turning + np.maximum(alone, alone / g.chunks + stores - self.store), total
        )
        ending = self.store
        if self.late.any():  # behind the last panel, and not beside the first one
            beside = self._late(step, load) - g.k_blocks * np.maximum(step, load)
            ending = np.where(self.late, np.maximum(np.maximum(g.after, stores) - beside, 0.0) + ending, ending)
        barriers = mc.barrier_cycles * np.where(self.shared, 2.0, 1.0 * (self.space == 1))
        return np.where(fits, total + self.load_a + self.load_b + ending + barriers, inf)

    def _ordered(self, of_rows: Any, of_columns: Any) -> tuple[Any, Any]:
        """What belongs to the outer loop, and to the inner one."""
        return np.where(self.m_outer, of_rows, of_columns), np.where(self.m_outer, of_columns, of_rows)

    def _block(self, step: Any, load: Any, shared: Any) -> Any:
        """Cycles of one panel of C, all of its blocks of k: each step hides the transfers for the next one.

        Where A or B is ``shared``, a barrier ends each step and waits for its transfers; stores are in the last one or, ``late``, in all
        of the next panel's.
        """
        g, store = self.grid, self.store
        stores, steps = g.chunks * store, g.k_blocks
        # With one panel of C, products of the next wait for the store of the chunk that they overwrite.
        alone = np.where(shared | ((g.chunks == 1) & (self.rings == 1)), store, 0.0)
        if g.problem.folded and g.problem.epilogue_operands:  # what follows the first chunk's product stands behind the loads, too
            alone = alone + np.maximum(load + store - (step + g.after) / g.chunks, 0.0)
        if g.turn_c:  # the third chunk waits for the tile of the first, whose store stands behind the loads
            alone = alone + np.where(g.chunks > 2, np.maximum(load - 2 / g.chunks * (step + g.after), 0.0), 0.0)
        one = np.maximum(step + g.after + alone, load + stores)
        longer = np.maximum(step, load)
        two = np.maximum(2 * step + g.after + alone, 2 * load + stores)
        separate = np.where(steps == 1, one, (steps - 2) * longer + two)
        if not shared.any():
            return separate
        together = (steps - 1) * longer + one
        if self.late.any():
            together = np.where(self.late, self._late(step, load), together)
        return np.where(shared, together + steps * self.machine.barrier_cycles, separate)

    def _late(self, step: Any, load: Any) -> Any:
        """The same where some chunks of the panel before are finished in each step, barriers apart."""
        g = self.grid
        part, busy = g.late / g.chunks, rules.pieces(g.chunks, g.late)
        with_chunks = np.maximum(step + part * g.after, load + g.late * self.store)
        return busy * with_chunks + (g.k_blocks - busy) * np.maximum(step, load)

    def _places(self) -> tuple[Any, Any, Any]:
        """Where A lies (a number of `_SPACES`), how many panels of C there is room for, and which sizes fit."""
        g, p, mc = self.grid, self.problem, self.machine
        item = ELEMENT_BYTES[p.a.dtype]
        kept = np.where(g.k_blocks == 1, 2, g.k_blocks)
        if g.b_form == "turned":
            b_slots = 2 + np.where(self.keep_b, kept, 1)
        else:
            b_slots = np.where(self.keep_b, kept, 2)
        if p.b_tiles:  # what arrives, what is computed of it, and that as it is multiplied if it is turned for this
            b_slots = 2 * p.b_tiles + (g.b_form == "turned") + np.where(self.keep_b, kept, 1)
        am = g.c_tile * g.chunks + g.result_tile * p.epilogue_tiles + (2 * g.result_tile if g.turn_c else 0) + g.b_tile * b_slots
        a = slot_bytes(g.block, 1, item) * g.chunks * np.where(self.keep_a, kept, 2)
        owners = g.groups[0] * np.where(self.share_a, 1, g.groups[1])
        # One core beside others cannot know what they keep in GSM.
        pool = np.where(self.share_b, 2 * g.b_tile, 0)
        in_gsm = (a * owners + pool <= mc.gsm_bytes) & (prod(g.groups) > 1 or mc.cores == 1)
        space = np.where(self.share_a, 1, np.where(a <= mc.sm_bytes, 0, np.where(in_gsm, 1, 2)))
        if p.a_tiles:  # vectors make them where they are multiplied from
            space = space + 2 - space
            am = am + g.chunks * box_bytes(p, g.lengths)
        am = am + np.where(space == 2, a, 0)
        am = am + parameter_bytes(p, g.kt, g.nt, g.b_form)
        am = am + 2 * p.sums * slot_bytes(g.nt if g.turn_c else g.mc, 1, ELEMENT_BYTES[p.accumulator])
        am = am + p.epilogue_parameters * g.parameter
        second = g.result_tile * p.epilogue_tiles  # for what follows the next chunk's product, while this one's is moved
        rings = np.where(am + g.c_tile * g.chunks + second <= mc.am_bytes, 2, 1)
        self.overlaps = am + g.c_tile * g.chunks * (rings - 1) + second <= mc.am_bytes
        self.late = np.False_
        if self.shared.any():
            ahead = g.late * np.where(g.k_blocks > 1, 2, 1)
            beside = p.epilogue_operands * ahead + (p.epilogue_tiles - p.epilogue_operands) * g.late - p.epilogue_tiles
            results = g.result_tile * (beside + (g.late - 2 if g.turn_c else 0)) + p.epilogue_parameters * g.parameter * (ahead - 1)
            self.late = self.shared & (am + g.c_tile * g.chunks + results <= mc.am_bytes) & (g.row_trips * g.column_trips > FEW_PANELS)
            rings = np.where(self.late, 2, rings)
            self.overlaps = self.overlaps | self.late
        return space, rings, (am <= mc.am_bytes) & (in_gsm | ~self.share_a) & (pool <= mc.gsm_bytes)

    # --- the cheapest ---------------------------------------------------------------------------------

    def plan(self, number: int) -> dict[str, Any]:
        """The cheapest sizes of a choice: the fields of a `panel_plan.PanelPlan`."""
        g, choice = self.grid, self.choices[number]
        at = int(self._at[number])
        m, _, n, k = (int(places[at]) for places in g.places)

        def pick(values: Any) -> Any:
            array = np.asarray(values)
            if array.ndim == 2:
                array = array[number if len(array) > 1 else 0]
            return array[at if len(array) > 1 else 0].item() if array.ndim else array.item()

        outer, inner, blocks, work = pick(self.outer), pick(self.inner), pick(g.k_blocks), pick(self.work)
        load_outer, load_inner, turn_inner = pick(self.load_outer), pick(self.load_inner), pick(self.turn_inner)
        visits = 1 if choice.keep else inner
        dma = outer * blocks * (visits * load_outer + inner * load_inner)
        turns = outer * blocks * (visits * pick(self.turn_outer) + inner * turn_inner)
        return {
            "m": g.cuts[0][m],
            "n": g.cuts[1][n],
            "k": g.cuts[2][k],
            "chunks": pick(g.chunks),
            "panels": pick(g.panels),
            "row_groups": min(g.groups[0], pick(g.rows)),
            "column_groups": min(g.groups[1], pick(g.n_blocks)),
            "share": choice.share,
            "m_outer": choice.m_outer,
            "keep": choice.keep,
            "a_space": _SPACES[pick(self.space)],
            "trans_a": bool(pick(self.trans_a)),
            "b_form": g.b_form,
            "turn_c": g.turn_c,
            "c_rings": pick(self.rings),
            "zip_c": self.problem.zipped,
            "piecewise": self.grid.piecewise and choice.share == "b",
            "fold_c": self.problem.folded is not None,
            "late": pick(g.late) if pick(self.late) else 0,
            "cycles": self.best[number],
            "compute_cycles": float(outer * inner * (blocks * work + pick(g.after)) + turns),
            "dma_cycles": float(dma + outer * inner * pick(g.chunks) * pick(self.store)),
        }
