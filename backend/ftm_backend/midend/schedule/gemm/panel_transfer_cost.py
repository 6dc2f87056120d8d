"""Transfer cost of panel schedules: each core's bandwidth, and DMA cycles of loads and stores.

Reads the sizes of a search space (``PanelSearchSpace``) under many choices (``ChoiceMasks``).
Computes arrays with the axes (choice, sizes) and changes nothing; ``panel_cost`` combines them with
the cycles of products. Costs come from ``target.cost_rules``, which the cycle model uses, too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ftm_backend.midend.schedule.gemm.panel_choice import ChoiceMasks
from ftm_backend.midend.schedule.gemm.panel_search_space import PanelSearchSpace
from ftm_backend.midend.schedule.gemm.wave_quantization import ddr_share, waves
from ftm_backend.target import cost_rules
from ftm_backend.target.element_types import Numbers
from ftm_backend.target.presets import ELEMENT_BYTES

__all__ = ["PanelTransferCost"]


class PanelTransferCost:
    """DMA cycles of a step's loads and of a chunk's store.

    Attributes:
        loads: Chunks of A that a core loads in a step.
        trans_a: Whether A is transposed.
        load_a: Cycles to load A in a step.
        load_b: Cycles to load B in a step.
        first_a: Cycles to load A before the first step.
        first_b: Cycles to load B before the first step.
        store: Cycles of the epilogue's loads and stores of a chunk, plus those of its map unless
            the map overlaps them.
        stored: Cycles of the stores of a chunk alone.
        last_store: ``store`` after the last products.
        slower: Rate of loads that find one operand resident, relative to that of stores.
    """

    def __init__(
        self,
        grid: PanelSearchSpace,
        masks: ChoiceMasks,
        overlaps: Numbers,
        deferred: Numbers | np.bool,
    ) -> None:
        """Compute the cycles.

        Args:
            grid: The sizes.
            masks: The choices.
            overlaps: Whether a chunk's transfers overlap the next chunk's epilogue.
            deferred: Whether the epilogue is deferred.
        """
        self.grid, self.masks = grid, masks
        self.problem, self.machine = grid.problem, grid.machine
        self._overlaps, self._deferred = overlaps, deferred
        self._outer, self._inner = masks.by_loop(grid.row_waves, grid.column_waves)
        sharers = np.where(masks.share_a, np.minimum(grid.groups[1], grid.n_blocks), 1)
        self.loads = np.where(
            masks.share_a, cost_rules.pieces(grid.chunks, sharers), grid.mean_chunks
        )
        self._set_bandwidth()
        self._set_loads()
        self._set_stores()

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
        g, masks, machine = self.grid, self.masks, self.machine
        members = np.minimum(g.n_blocks, g.groups[1])
        a = g.k_blocks * np.minimum(g.moved_a, g.moved_a_transposed)
        one_a, all_a = a * self.loads, a * g.mean_chunks * np.where(masks.share_a, 1, members)
        b = g.k_blocks * np.where(masks.share_b, g.moved_b_split, g.moved_b)
        b = np.where(
            masks.b_in_gsm,
            np.where(masks.fills_during_panel, b / np.minimum(g.rows, g.groups[0]), 0.0),
            b,
        )
        all_b = b * np.where(masks.share_b, 1, np.minimum(g.rows, g.groups[0]))
        c = g.mean_chunks * (g.moved_c + g.epilogue_moved)

        def sharing(
            of_rows: Numbers, of_columns: Numbers, stores: Numbers
        ) -> Callable[[Numbers, Numbers, Numbers], Numbers]:
            """Return the number of cores that share DDR, as a function of the busy groups.

            Arguments are the parts of the loads along rows, of the loads along columns, and of the
            stores that are transferred between two barriers. The result's arguments are the groups
            that have rows, columns of B, and columns of C.
            """
            own_a, own_b, own_c = of_rows * one_a, of_columns * b, stores * c
            traffic = np.maximum(own_a + own_b + own_c, 1.0)
            for_rows = of_rows * all_a / traffic
            for_columns = of_columns * all_b / traffic
            stored = own_c / traffic
            return lambda rows, of_b, of_c: np.maximum(
                (for_rows + stored * of_c) * rows + for_columns * of_b, 1.0
            )

        def rate_of(cores: Numbers) -> Numbers:
            return (
                np.minimum(machine.ddr_bandwidth / cores, machine.core_bandwidth) / machine.clock_hz
            )

        once_a = 1 / np.where(masks.keep_a, g.column_waves, 1)
        once_b = 1 / np.where(masks.keep_b, g.row_waves, 1)
        cores = sharing(once_a, once_b, 1.0)(
            g.busy_row_groups, g.busy_column_groups_b, g.busy_column_groups_c
        )
        self.rate = self.again_rate = self.store_rate = self.last_rate = self.first_rate = rate_of(
            cores
        )
        if masks.shared.any():
            of_rows = waves(g.rows, g.row_waves, g.groups[0], g.busy_row_groups)
            of_columns = waves(g.n_blocks, g.column_waves, g.groups[1], g.busy_column_groups_b)
            kept = masks.keep & (self._inner > 1)
            inner_a = np.where(kept & masks.m_outer, 0.0, 1.0)
            inner_b = np.where(kept & ~masks.m_outer & ~masks.fills_during_panel, 0.0, 1.0)
            mixed = masks.exchanges_once & kept
            stores_per_load = np.where(
                self._deferred, g.mean_chunks / (g.k_blocks * g.deferred_chunks), 1 / g.k_blocks
            )
            stores_per_load = np.where(
                mixed, 1.0, np.where(self._outer * self._inner == 1, 0.0, stores_per_load)
            )

            def rate(*parts: Numbers) -> tuple[np.ndarray, Numbers]:
                active = sharing(*parts)
                found, active_cores = ddr_share(
                    machine,
                    lambda rows, columns: active(rows, columns, columns),
                    of_rows,
                    of_columns,
                )
                return np.where(masks.shared, found, self.rate), active_cores

            loading, active_cores = rate(1.0, 1.0, 0.0)
            again = rate(inner_a, inner_b, 1.0 * mixed)[0] if masks.keep.any() else loading
            self.store_rate, _ = rate(stores_per_load * inner_a, stores_per_load * inner_b, 1.0)
            self.last_rate = np.where(
                masks.shared, rate_of(g.busy_row_groups * g.busy_column_groups_c), self.rate
            )
            self.first_rate = np.where(
                masks.share_b | masks.fills_during_panel,
                rate_of(all_a * g.busy_row_groups / one_a),
                loading,
            )
            self.rate = loading
            self.again_rate = again
            cores = np.where(masks.shared, active_cores, cores)
        self.slower = self.again_rate / self.store_rate
        self.gsm_rate = machine.gsm_bytes_per_cycle / cores

    def _cycles(
        self, moved: Numbers, elements: Numbers, rate: Numbers, gsm_cycles: Numbers = 0.0
    ) -> Numbers:
        return cost_rules.transfer_cycles(self.machine, moved / rate, gsm_cycles, elements)

    def _set_loads(self) -> None:
        """Set whether A is transposed, and the DMA cycles of a step's loads."""
        g, p, masks, machine = self.grid, self.problem, self.masks, self.machine
        through: Numbers = 0.0
        if masks.share_a.any():
            through = np.where(
                masks.share_a, g.mean_block * ELEMENT_BYTES[p.a.dtype] / self.gsm_rate, 0.0
            )
        plain, transposed = (
            through if p.a_windows or run else 0.0 for run in (p.a.runs[1], p.a.runs[0])
        )
        each = self._cycles(g.moved_a, g.elements_a, self.rate, plain)
        self.trans_a: Numbers = np.asarray(False)
        if not p.a_windows:
            other = self._cycles(
                g.moved_a_transposed, g.elements_a_transposed, self.rate, transposed
            )
            self.trans_a, each = other < each, np.minimum(other, each)
        further = machine.dma_latency * p.a_prologue.further_loads
        self.load_a = self.first_a = self.loads * (each + further)
        moved_b = np.where(masks.share_b, g.moved_b_split, g.moved_b)
        self.load_b = self._cycles(moved_b, g.elements_b, self.rate)
        self.load_b = self.load_b + machine.dma_latency * p.b_prologue.further_loads
        self.first_b = self.load_b
        if masks.share_b.any() or masks.b_in_gsm.any():
            self._set_loads_through_gsm(further)

    def _set_loads_through_gsm(self, further: float) -> None:
        """Set the same where B passes through GSM; ``further``: of A's prologue."""
        g, p, masks, machine = self.grid, self.problem, self.masks, self.machine
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
            masks.fills_during_panel,
            self._cycles(g.moved_b_split * rate_fraction, g.elements_b, self.rate),
            0.0,
        )
        self.load_b = np.where(masks.b_in_gsm, arriving, self.load_b) + np.where(
            masks.share_b | masks.b_in_gsm, copying, 0.0
        )
        self.first_b = np.where(masks.b_in_gsm, copying, self.load_b)
        if masks.share_b.any():
            bandwidth = np.minimum(machine.ddr_bandwidth / 2, machine.core_bandwidth)
            ahead = self._cycles(g.moved_b_split, g.elements_b, bandwidth / machine.clock_hz)
            self.first_b = np.where(masks.share_b, ahead + copying, self.first_b)
        elements = np.where(self.trans_a, g.elements_a_transposed, g.elements_a)
        moved = np.where(self.trans_a, g.moved_a_transposed, g.moved_a)
        first = self._cycles(moved, elements, self.first_rate)
        self.first_a = np.where(
            masks.share_b | masks.fills_during_panel, self.loads * (first + further), self.first_a
        )

    def _set_stores(self) -> None:
        """Set the DMA cycles of a chunk's store with the epilogue's transfers."""
        g, p, machine = self.grid, self.problem, self.machine
        latency = machine.dma_latency * (g.epilogue.transfers + p.sums)

        def store(rate: Numbers) -> Numbers:
            return self._cycles(g.moved_c, g.elements_c, rate) + g.epilogue_moved / rate + latency

        self.store = self.last_store = store(self.store_rate)
        if self.masks.shared.any():
            self.last_store = np.where(self.masks.shared, store(self.last_rate), self.store)
        read = g.epilogue_moved * g.epilogue.load_fraction / self.store_rate
        self.stored = self.store - (read + machine.dma_latency * g.epilogue.loads)
        # Load, epilogue and store of a chunk use the same tiles, unless they overlap.
        body = np.where(self._overlaps, 0.0, g.body)
        self.store, self.last_store = self.store + body, self.last_store + body
