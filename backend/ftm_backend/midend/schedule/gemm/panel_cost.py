"""Cost of panel schedules: prices the sizes of a search space under many choices at once.

Costs come from ``target.cost_rules``, which the cycle model uses, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from ftm_backend.midend.schedule.gemm.panel_search_space import SCALARS, PanelSearchSpace
from ftm_backend.midend.schedule.gemm.traffic_model import box_bytes, fill_cycles, parameter_bytes
from ftm_backend.midend.schedule.gemm.wave_quantization import ddr_share, waves
from ftm_backend.target import cost_rules
from ftm_backend.target.element_types import slot_bytes
from ftm_backend.target.presets import ELEMENT_BYTES

__all__ = ["CHUNKS", "PanelChoice", "PricedPlan", "price"]

CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Candidate numbers of chunks of a panel."""
FEW_PANELS_PER_CORE = 2
"""Deferred epilogues need more panels per core than this: the stores of the last panel, which
nothing hides, must be a small part."""
GSM_PENALTY = 1.01
"""Penalty of plans that keep all of B in GSM: smaller gains are within the model's error."""
_SPACES = ("sm", "gsm", "am")


class PanelChoice(NamedTuple):
    """The parts of a plan other than sizes and the grid of cores; see ``PanelSchedule``."""

    share: str
    m_outer: bool
    keep: bool
    b_in_gsm: bool


class PricedPlan:
    """Cycles of sizes under some choices, as arrays with the axes (choice, sizes).

    Sizes that do not fit the scratchpads cost infinity. ``best`` is the minimum of each choice.
    """

    def __init__(self, grid: PanelSearchSpace, choices: Sequence[PanelChoice]) -> None:
        """Price all sizes of ``grid`` under each of ``choices``."""
        self.grid, self.choices = grid, choices
        self.problem, self.machine = grid.problem, grid.machine
        self.best = [inf] * len(choices)
        if not grid.size_indices[0].size:
            return
        flags = np.array(
            [(c.share == "a", c.share == "b", c.m_outer, c.keep, c.b_in_gsm) for c in choices]
        ).T[:, :, None]
        self.share_a, self.share_b, self.m_outer, self.keep, self.b_in_gsm = flags
        self.shared = self.share_a | self.share_b
        # A is shared, but exchanged only once instead of in each step.
        self.exchanges_once = self.share_a & self.keep & self.m_outer
        self.keep_a, self.keep_b = self.keep & self.m_outer, self.keep & ~self.m_outer
        self.fills_during_panel = self.b_in_gsm & self.share_a & self.keep_b
        total = self._total()
        self._at = total.argmin(axis=1)
        self.best = total[range(len(choices)), self._at].tolist()

    # --- transfers

    def _set_bandwidth(self) -> None:
        """Set each core's share of the bandwidths of DDR and of GSM.

        Between two barriers, the traffic of all cores shares the bandwidth with that of the
        busiest core. Rates are in bytes per cycle:

        - ``rate``: loads of panels that load both operands.
        - ``again_rate``: loads of panels that find one operand resident.
        - ``store_rate``: stores that overlap loads.
        - ``last_rate``: stores after the last products.
        - ``first_rate``: loads of A while B is already being loaded.
        """
        g, machine = self.grid, self.machine
        members = np.minimum(g.n_blocks, g.groups[1])
        a = g.k_blocks * np.minimum(g.moved_a, g.moved_a_transposed)
        one_a, all_a = a * self.loads, a * g.mean_chunks * np.where(self.share_a, 1, members)
        b = g.k_blocks * np.where(self.share_b, g.moved_b_split, g.moved_b)
        b = np.where(
            self.b_in_gsm,
            np.where(self.fills_during_panel, b / np.minimum(g.rows, g.groups[0]), 0.0),
            b,
        )
        all_b = b * np.where(self.share_b, 1, np.minimum(g.rows, g.groups[0]))
        c = g.mean_chunks * (g.moved_c + g.epilogue_moved)

        def sharing(of_rows: Any, of_columns: Any, stores: Any) -> Callable[[Any, Any, Any], Any]:
            """Return the number of cores that share DDR, as a function of the busy groups.

            Arguments are the parts of the loads along rows, of the loads along columns, and of the
            stores that are transferred between two barriers. The result's arguments are the groups
            that have rows, columns of B, and columns of C.
            """
            own_a, own_b, own_c = of_rows * one_a, of_columns * b, stores * c
            traffic = np.maximum(own_a + own_b + own_c, 1.0)
            for_rows, for_columns, stored = (
                of_rows * all_a / traffic,
                of_columns * all_b / traffic,
                own_c / traffic,
            )
            return lambda rows, of_b, of_c: np.maximum(
                (for_rows + stored * of_c) * rows + for_columns * of_b, 1.0
            )

        def rate_of(cores: Any) -> Any:
            return (
                np.minimum(machine.ddr_bandwidth / cores, machine.core_bandwidth) / machine.clock_hz
            )

        once_a, once_b = (
            1 / np.where(self.keep_a, g.column_waves, 1),
            1 / np.where(self.keep_b, g.row_waves, 1),
        )
        cores = sharing(once_a, once_b, 1.0)(
            g.busy_row_groups, g.busy_column_groups_b, g.busy_column_groups_c
        )
        self.rate = self.again_rate = self.store_rate = self.last_rate = self.first_rate = rate_of(
            cores
        )
        if self.shared.any():
            of_rows = waves(g.rows, g.row_waves, g.groups[0], g.busy_row_groups)
            of_columns = waves(g.n_blocks, g.column_waves, g.groups[1], g.busy_column_groups_b)
            kept = self.keep & (self.inner > 1)
            inner_a, inner_b = (
                np.where(kept & self.m_outer, 0.0, 1.0),
                np.where(kept & ~self.m_outer & ~self.fills_during_panel, 0.0, 1.0),
            )
            mixed = self.exchanges_once & kept
            stores_per_load = np.where(
                self.deferred_chunks,
                g.mean_chunks / (g.k_blocks * g.deferred_chunks),
                1 / g.k_blocks,
            )
            stores_per_load = np.where(
                mixed, 1.0, np.where(self.outer * self.inner == 1, 0.0, stores_per_load)
            )

            def rate(*parts: Any) -> Any:
                active = sharing(*parts)
                found, active_cores = ddr_share(
                    machine,
                    lambda rows, columns: active(rows, columns, columns),
                    of_rows,
                    of_columns,
                )
                return np.where(self.shared, found, self.rate), active_cores

            loading, active_cores = rate(1.0, 1.0, 0.0)
            again = rate(inner_a, inner_b, 1.0 * mixed)[0] if self.keep.any() else loading
            self.store_rate, _ = rate(stores_per_load * inner_a, stores_per_load * inner_b, 1.0)
            self.last_rate = np.where(
                self.shared, rate_of(g.busy_row_groups * g.busy_column_groups_c), self.rate
            )
            self.first_rate = np.where(
                self.share_b | self.fills_during_panel,
                rate_of(all_a * g.busy_row_groups / one_a),
                loading,
            )
            self.rate, self.again_rate, cores = (
                loading,
                again,
                np.where(self.shared, active_cores, cores),
            )
        self.slower = self.again_rate / self.store_rate
        self.gsm_rate = machine.gsm_bytes_per_cycle / cores

    def _set_loads(self) -> None:
        """Set whether A is transposed, and the DMA cycles of a step's loads and a chunk's store."""
        g, p, machine = self.grid, self.problem, self.machine
        sharers = np.where(self.share_a, np.minimum(g.groups[1], g.n_blocks), 1)
        self.loads = np.where(self.share_a, cost_rules.pieces(g.chunks, sharers), g.mean_chunks)
        self._set_bandwidth()

        def cycles(moved: Any, elements: Any, gsm_cycles: Any = 0.0, rate: Any = None) -> Any:
            return cost_rules.transfer_cycles(
                machine, moved / (self.rate if rate is None else rate), gsm_cycles, elements
            )

        through: Any = 0.0
        if self.share_a.any():
            through = np.where(
                self.share_a, g.mean_block * ELEMENT_BYTES[p.a.dtype] / self.gsm_rate, 0.0
            )
        plain, transposed = (
            through if p.a_windows or run else 0.0 for run in (p.a.runs[1], p.a.runs[0])
        )
        each = cycles(g.moved_a, g.elements_a, plain)
        self.trans_a: Any = np.False_
        if not p.a_windows:
            other = cycles(g.moved_a_transposed, g.elements_a_transposed, transposed)
            self.trans_a, each = other < each, np.minimum(other, each)
        others = machine.dma_latency * (max(p.a_prologue_tiles, 1) - 1 + p.a_broadcasts)
        self.load_a = self.first_a = self.loads * (each + others)
        self.load_b = cycles(np.where(self.share_b, g.moved_b_split, g.moved_b), g.elements_b)
        self.load_b = self.load_b + machine.dma_latency * (
            max(p.b_prologue_tiles, 1) - 1 + p.b_broadcasts
        )
        self.first_b = self.load_b
        if self.share_b.any() or self.b_in_gsm.any():
            size = g.pieces if g.split_rows else g.mean_b * ELEMENT_BYTES[p.b.dtype]
            readers = np.minimum(g.rows, g.groups[0]) * np.minimum(g.n_blocks, g.groups[1])
            copying = cost_rules.transfer_cycles(
                machine, 0.0, size * readers / machine.gsm_bytes_per_cycle, 0.0
            )
            # Cores alternate; the loading core gets at most its own bandwidth.
            rate_fraction = np.maximum(
                1 / np.minimum(g.rows, g.groups[0]),
                self.rate * machine.clock_hz / machine.core_bandwidth,
            )
            arriving = np.where(
                self.fills_during_panel, cycles(g.moved_b_split * rate_fraction, g.elements_b), 0.0
            )
            self.load_b = np.where(self.b_in_gsm, arriving, self.load_b) + np.where(
                self.share_b | self.b_in_gsm, copying, 0.0
            )
            self.first_b = np.where(self.b_in_gsm, copying, self.load_b)
            if self.share_b.any():
                ahead = cycles(
                    g.moved_b_split,
                    g.elements_b,
                    0.0,
                    np.minimum(machine.ddr_bandwidth / 2, machine.core_bandwidth)
                    / machine.clock_hz,
                )
                self.first_b = np.where(self.share_b, ahead + copying, self.first_b)
            elements = np.where(self.trans_a, g.elements_a_transposed, g.elements_a)
            first = cycles(
                np.where(self.trans_a, g.moved_a_transposed, g.moved_a),
                elements,
                0.0,
                self.first_rate,
            )
            self.first_a = np.where(
                self.share_b | self.fills_during_panel, self.loads * (first + others), self.first_a
            )
        latency = machine.dma_latency * (p.epilogue_tiles + p.epilogue_broadcasts + p.sums)
        store = (
            cycles(g.moved_c, g.elements_c, 0.0, self.store_rate)
            + g.epilogue_moved / self.store_rate
            + latency
        )
        self.last_store = store
        if self.shared.any():
            last = (
                cycles(g.moved_c, g.elements_c, 0.0, self.last_rate)
                + g.epilogue_moved / self.last_rate
                + latency
            )
            self.last_store = np.where(self.shared, last, store)
        read = (
            g.epilogue_moved * p.epilogue_load_fraction / self.store_rate
            + machine.dma_latency * (p.epilogue_operands + p.epilogue_broadcasts)
        )
        self.stored = store - read
        self.last_store = self.last_store + np.where(self.overlaps, 0.0, g.body)
        # Otherwise load, epilogue and store of a chunk use the same tiles.
        self.store = store + np.where(self.overlaps, 0.0, g.body)

    # --- time

    def _total(self) -> Any:
        """Modelled cycles of the busiest core."""
        g, machine = self.grid, self.machine
        self.space, self.rings, fits = self._check_capacity()
        self.outer, self.inner = self._by_loop(g.row_waves, g.column_waves)
        self._set_loads()
        scalar = machine.scalar_latency
        scalar_instructions = (
            np.where(self.shared | (g.k_blocks > 1), SCALARS["step"], SCALARS["single"])
            + SCALARS["deferred"] * self.deferred_chunks
        )
        self.work = g.matrix + (
            scalar_instructions * scalar
            + self.loads * (machine.issue_cycles + SCALARS["load"] * scalar)
        )
        self.load_outer, self.load_inner = self._by_loop(self.load_a, self.load_b)
        self.prepare_outer, self.prepare_inner = self._by_loop(
            g.a_prologue_cycles, g.b_prepare_cycles
        )
        load_again = self.load_inner * (self.rate / self.again_rate)
        load_both, stores, panels = (
            self.load_outer + self.load_inner,
            g.mean_chunks * self.store,
            self.outer * self.inner,
        )
        step, first = (
            self.work + self.prepare_inner,
            self.work + g.a_prologue_cycles + g.b_prepare_cycles,
        )
        fresh = self._panel(first, load_both, self.shared)
        total = panels * fresh
        if self.keep.any():
            again = self._panel(step, load_again, self.shared & ~self.exchanges_once)
            total = np.where(self.keep, self.outer * (fresh + (self.inner - 1) * again), total)
        # The wait for the first step is counted separately. No store overlaps the first step, and
        # no load overlaps the last one.
        kept = self.keep & (self.inner > 1)
        load, ended = (
            np.where(kept, load_again, load_both),
            np.where(kept, step, first) + g.epilogue_cycles,
        )
        finish_last_panel = ended / g.mean_chunks + (g.mean_chunks - 1) * self.last_store
        several_steps = np.maximum(first, load_both) - np.maximum(
            2 * first + g.epilogue_cycles, 2 * load_both + stores
        )
        one_step = np.maximum(first + g.epilogue_cycles, load_both * self.slower + stores)
        single_step = (
            np.maximum(ended, load)
            - one_step
            - np.maximum(ended, load + stores)
            + np.maximum(stores - ended / g.mean_chunks, 0.0)
        )
        edges = np.where(
            self.shared, -one_step, np.where(g.k_blocks == 1, single_step, several_steps)
        ) + np.maximum(ended, finish_last_panel)
        total = total + np.where(self.deferred_chunks, -np.maximum(load_both - first, 0.0), edges)
        # Between panels, the last chunk is stored before the loads of the next panel's second step.
        gap = (
            step
            + g.epilogue_cycles
            + self.stored
            + load
            - np.maximum(2 * step + g.epilogue_cycles, 2 * load + stores)
        )
        total = total + np.where(
            self.shared | (g.k_blocks == 1), 0.0, (panels - 1) * np.maximum(gap, 0.0)
        )
        single_panel = self.work + g.epilogue_cycles
        total = np.where(
            panels * g.k_blocks == 1,
            g.b_prepare_cycles
            + np.maximum(
                single_panel, single_panel / g.mean_chunks + (g.mean_chunks - 1) * self.last_store
            ),
            total,
        )
        ending = self.last_store
        if self.deferred_chunks.any():  # after the last panel, instead of overlapping the first one
            hidden = self._deferred_panel(step, load) - g.k_blocks * np.maximum(step, load)
            left = np.maximum(g.epilogue_cycles, g.mean_chunks * self.last_store)
            ending = np.where(self.deferred_chunks, np.maximum(left - hidden, 0.0) + ending, ending)
        passing = self.share_b | self.b_in_gsm
        barriers = machine.barrier_cycles * np.where(
            self.shared, 2.0 + passing, np.where(self.b_in_gsm, 2.0, 1.0 * (self.space == 1))
        )
        total = (
            total + self._gsm_fill() + self.first_a + self.first_b + ending + barriers
        ) * np.where(self.b_in_gsm, GSM_PENALTY, 1.0)
        return np.where(fits, total, inf)

    def _gsm_fill(self) -> Any:
        """Return the cycles to load B into GSM, or its first blocks if the others overlap steps."""
        g = self.grid
        if not self.b_in_gsm.any():
            return 0.0
        first = np.minimum(g.n_blocks, g.groups[1]) * np.minimum(g.k_blocks, 2)
        blocks = np.where(self.fills_during_panel, first, g.n_blocks * g.k_blocks)
        return np.where(
            self.b_in_gsm, fill_cycles(self.machine, blocks, g.moved_b_split, g.elements_b), 0.0
        )

    def _by_loop(self, of_rows: Any, of_columns: Any) -> tuple[Any, Any]:
        """Return the values of the outer and of the inner loop."""
        return np.where(self.m_outer, of_rows, of_columns), np.where(
            self.m_outer, of_columns, of_rows
        )

    def _panel(self, step: Any, load: Any, shared: Any) -> Any:
        """Return the cycles of one panel of C: each step hides the loads of the next one.

        If A or B is ``shared``, a barrier ends each step and waits for its transfers. Stores then
        overlap the last step, or all steps of the next panel if the epilogue is deferred.
        """
        g, store = self.grid, self.store
        stores, steps = g.mean_chunks * store, g.k_blocks
        # With one buffer of C, the next panel's products wait for the store of the chunk that they
        # overwrite.
        alone = np.where(shared | ((g.chunks == 1) & (self.rings == 1)), store, 0.0)
        # The epilogue of the first chunk waits for its operands, which are loaded after A and B.
        if g.problem.epilogue_operands:
            alone = alone + (g.chunks > 1) * np.maximum(
                load + store - (step + g.epilogue_cycles) / g.chunks, 0.0
            )
        # The third chunk needs the tile of the first one, whose store is queued after the loads.
        if g.transpose_c:
            alone = alone + np.where(
                g.chunks > 2, np.maximum(load - 2 / g.chunks * (step + g.epilogue_cycles), 0.0), 0.0
            )
        one = np.maximum(step + g.epilogue_cycles + alone, load * self.slower + stores)
        longer = np.maximum(step, load)
        two = np.maximum(2 * step + g.epilogue_cycles + alone, 2 * load + stores)
        # The next panel's products start when all chunks but the last are finished.
        if g.problem.epilogue_operands:
            two = np.maximum(two, (g.chunks > 1) * (step + load + stores))
        separate = np.where(steps == 1, one, (steps - 2) * longer + two)
        if not shared.any():
            return separate
        together = (steps - 1) * longer + one
        if self.deferred_chunks.any():
            together = np.where(self.deferred_chunks, self._deferred_panel(step, load), together)
        return np.where(shared, together + steps * self.machine.barrier_cycles, separate)

    def _deferred_panel(self, step: Any, load: Any) -> Any:
        """Return the cycles of a panel whose steps finish chunks of the previous panel.

        Without barriers.
        """
        g = self.grid
        chunk_fraction, busy = (
            g.deferred_chunks / g.chunks,
            cost_rules.pieces(g.chunks, g.deferred_chunks),
        )
        with_chunks = np.maximum(
            step + chunk_fraction * g.epilogue_cycles,
            load * self.slower + g.deferred_chunks * self.store,
        )
        return busy * with_chunks + (g.k_blocks - busy) * np.maximum(step, load)

    def _check_capacity(self) -> tuple[Any, Any, Any]:
        """Return the memory of A (index of ``_SPACES``), the buffers of C, and which sizes fit."""
        g, p, machine = self.grid, self.problem, self.machine
        item = ELEMENT_BYTES[p.a.dtype]
        kept = np.where(g.k_blocks == 1, 2, g.k_blocks)
        if g.b_layout == "transposed":
            b_slots = 2 + np.where(self.keep_b, kept, 1)
        else:
            b_slots = np.where(self.keep_b, kept, 2)
        # A fused prologue needs tiles that arrive, the computed one, and a transposed one.
        if p.b_prologue_tiles:
            b_slots = (
                2 * p.b_prologue_tiles
                + (g.b_layout == "transposed")
                + np.where(self.keep_b, kept, 1)
            )
        am = (
            g.c_tile * g.chunks
            + g.result_tile * p.epilogue_tiles
            + (2 * g.result_tile if g.transpose_c else 0)
            + g.b_tile * b_slots
        )
        a = slot_bytes(g.block, 1, item) * g.chunks * np.where(self.keep_a, kept, 2)
        owners = g.groups[0] * np.where(self.share_a, 1, g.groups[1])
        # A core that works alone cannot know what other cores keep in GSM.
        pool = g.b_tile * np.where(self.b_in_gsm, g.n_blocks * g.k_blocks, 2 * self.share_b)
        in_gsm = (a * owners + pool <= machine.gsm_bytes) & (
            prod(g.groups) > 1 or machine.cores == 1
        )
        space = np.where(
            self.share_a, 1, np.where(a <= machine.sm_bytes, 0, np.where(in_gsm, 1, 2))
        )
        if p.a_prologue_tiles:  # the vector unit computes A in AM, where the matrix unit reads it
            space = space + 2 - space
            am = am + g.chunks * box_bytes(p, g.lengths)
        am = am + np.where(space == 2, a, 0)
        am = am + parameter_bytes(p, g.k_tile, g.n_tile, g.b_layout)
        am = am + 2 * p.sums * slot_bytes(
            g.n_tile if g.transpose_c else g.m_tile, 1, ELEMENT_BYTES[p.accumulator]
        )
        am = (
            am
            + p.epilogue_broadcasts * g.broadcast_tile
            + g.result_tile // ELEMENT_BYTES[p.accumulator] * p.epilogue_extra_bytes
        )
        # Tiles for the next chunk's epilogue while this chunk's are transferred.
        second = g.result_tile * p.epilogue_tiles
        rings = np.where(am + g.c_tile * g.chunks + second <= machine.am_bytes, 2, 1)
        self.overlaps = am + g.c_tile * g.chunks * (rings - 1) + second <= machine.am_bytes
        self.deferred_chunks = np.False_
        if self.shared.any():
            ahead = g.deferred_chunks * np.where(g.k_blocks > 1, 2, 1)
            extra_tiles = (
                p.epilogue_operands * ahead
                + (p.epilogue_tiles - p.epilogue_operands) * g.deferred_chunks
                - p.epilogue_tiles
            )
            results = g.result_tile * (
                extra_tiles + (g.deferred_chunks - 2 if g.transpose_c else 0)
            ) + p.epilogue_broadcasts * g.broadcast_tile * (ahead - 1)
            self.deferred_chunks = (
                self.shared
                & (am + g.c_tile * g.chunks + results <= machine.am_bytes)
                & (g.row_waves * g.column_waves > FEW_PANELS_PER_CORE)
            )
            rings = np.where(self.deferred_chunks, 2, rings)
            self.overlaps = self.overlaps | self.deferred_chunks
        return (
            space,
            rings,
            (am <= machine.am_bytes) & (in_gsm | ~self.share_a) & (pool <= machine.gsm_bytes),
        )

    # --- the cheapest

    def plan(self, number: int) -> dict[str, Any]:
        """Return the cheapest sizes of choice ``number``, as the fields of a ``PanelSchedule``."""
        g, choice = self.grid, self.choices[number]
        at = int(self._at[number])
        m, _, n, k = (int(size_indices[at]) for size_indices in g.size_indices)

        def pick(values: Any) -> Any:
            array = np.asarray(values)
            if array.ndim == 2:
                array = array[number if len(array) > 1 else 0]
            return array[at if len(array) > 1 else 0].item() if array.ndim else array.item()

        outer, inner, blocks, work = (
            pick(self.outer),
            pick(self.inner),
            pick(g.k_blocks),
            pick(self.work),
        )
        load_outer, load_inner, prepare_inner = (
            pick(self.load_outer),
            pick(self.load_inner),
            pick(self.prepare_inner),
        )
        visits = 1 if choice.keep else inner
        dma = outer * blocks * (visits * load_outer + inner * load_inner)
        prepare = outer * blocks * (visits * pick(self.prepare_outer) + inner * prepare_inner)
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
            "b_layout": g.b_layout,
            "transpose_c": g.transpose_c,
            "c_buffers": pick(self.rings),
            "interleave_c": self.problem.interleaved,
            "split_rows": self.grid.split_rows and (choice.share == "b" or choice.b_in_gsm),
            "b_in_gsm": choice.b_in_gsm,
            "col2im_c": self.problem.col2im is not None,
            "deferred_chunks": pick(g.deferred_chunks) if pick(self.deferred_chunks) else 0,
            "cycles": self.best[number] / (GSM_PENALTY if choice.b_in_gsm else 1.0),
            "compute_cycles": float(
                outer * inner * (blocks * work + pick(g.epilogue_cycles)) + prepare
            ),
            "dma_cycles": float(dma + outer * inner * pick(g.chunks) * pick(self.store)),
        }


def price(grid: PanelSearchSpace, choices: Sequence[PanelChoice], limit: float = inf) -> PricedPlan:
    """Price sizes under each of the choices.

    Args:
        grid: The sizes.
        choices: The choices.
        limit: Skip sizes whose lower bound is above this many cycles, and those that cannot fit.
    """
    size_indices = np.nonzero((grid.cycles_floor <= limit) & (grid.cycles_floor < inf))

    def at(values: Any) -> Any:
        return values[
            tuple(
                at if extent > 1 else 0
                for at, extent in zip(size_indices, values.shape, strict=True)
            )
        ]

    kept = copy(grid)
    kept.size_indices = size_indices
    for name, values in vars(grid).items():
        if isinstance(values, np.ndarray):
            setattr(kept, name, at(values))
    kept.lengths = tuple(map(at, grid.lengths))
    return PricedPlan(kept, choices)
