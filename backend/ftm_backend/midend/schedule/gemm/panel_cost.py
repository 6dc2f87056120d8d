"""Cost of panel schedules: prices the sizes of a search space under many choices at once.

Reads the candidate sizes (``PanelSearchSpace``) and changes nothing. ``panel_transfer_cost`` gives
the cycles of DMA; this module checks which sizes fit the scratchpads, and adds up the time in which
transfers and products overlap. ``PricedPlan.schedule`` returns the cheapest one.

Costs come from ``target.cost_rules``, which the cycle model uses, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from math import inf, prod

import numpy as np

from ftm_backend.midend.schedule.gemm.panel_choice import ChoiceMasks, PanelChoice
from ftm_backend.midend.schedule.gemm.panel_search_space import SCALARS, PanelSearchSpace
from ftm_backend.midend.schedule.gemm.panel_transfer_cost import PanelTransferCost
from ftm_backend.midend.schedule.gemm.schedule import ASpace, Schedule
from ftm_backend.midend.schedule.gemm.traffic_model import box_bytes, fill_cycles, parameter_bytes
from ftm_backend.target import cost_rules
from ftm_backend.target.element_types import Numbers, slot_bytes
from ftm_backend.target.presets import ELEMENT_BYTES

__all__ = ["CHUNKS", "PricedPlan", "price"]

CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Candidate numbers of chunks of a panel."""
FEW_PANELS_PER_CORE = 2
"""Deferred epilogues need more panels per core than this: the stores of the last panel, which
nothing hides, must be a small part."""
GSM_PENALTY = 1.01
"""Penalty of plans that keep all of B in GSM: smaller gains are within the model's error."""
_SPACES: tuple[ASpace, ...] = ("sm", "gsm", "am")


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
        self.masks = ChoiceMasks(choices)
        total = self._total()
        self._at = total.argmin(axis=1)
        self.best = total[range(len(choices)), self._at].tolist()

    # --- time

    def _total(self) -> np.ndarray:
        """Modelled cycles of the busiest core."""
        g, masks, machine = self.grid, self.masks, self.machine
        self.space, self.rings, fits = self._check_capacity()
        self.outer, self.inner = masks.by_loop(g.row_waves, g.column_waves)
        self.transfers = transfers = PanelTransferCost(
            g, masks, self.overlaps, self.deferred_chunks
        )
        scalar = machine.scalar_latency
        scalar_instructions = (
            np.where(masks.shared | (g.k_blocks > 1), SCALARS["step"], SCALARS["single"])
            + SCALARS["deferred"] * self.deferred_chunks
        )
        self.work = g.matrix + (
            scalar_instructions * scalar
            + transfers.loads * (machine.issue_cycles + SCALARS["load"] * scalar)
        )
        load_outer, load_inner = masks.by_loop(transfers.load_a, transfers.load_b)
        _, prepare_inner = masks.by_loop(g.a_prologue_cycles, g.b_prepare_cycles)
        load_again = load_inner * (transfers.rate / transfers.again_rate)
        load_both, stores = load_outer + load_inner, g.mean_chunks * transfers.store
        panels, step = self.outer * self.inner, self.work + prepare_inner
        first = self.work + g.a_prologue_cycles + g.b_prepare_cycles
        fresh = self._panel(first, load_both, masks.shared)
        total = panels * fresh
        if masks.keep.any():
            again = self._panel(step, load_again, masks.shared & ~masks.exchanges_once)
            total = np.where(masks.keep, self.outer * (fresh + (self.inner - 1) * again), total)
        # The wait for the first step is counted separately. No store overlaps the first step, and
        # no load overlaps the last one.
        kept = masks.keep & (self.inner > 1)
        load = np.where(kept, load_again, load_both)
        ended = np.where(kept, step, first) + g.epilogue_cycles
        finish_last_panel = ended / g.mean_chunks + (g.mean_chunks - 1) * transfers.last_store
        several_steps = np.maximum(first, load_both) - np.maximum(
            2 * first + g.epilogue_cycles, 2 * load_both + stores
        )
        one_step = np.maximum(first + g.epilogue_cycles, load_both * transfers.slower + stores)
        single_step = (
            np.maximum(ended, load)
            - one_step
            - np.maximum(ended, load + stores)
            + np.maximum(stores - ended / g.mean_chunks, 0.0)
        )
        edges = np.where(
            masks.shared, -one_step, np.where(g.k_blocks == 1, single_step, several_steps)
        ) + np.maximum(ended, finish_last_panel)
        total = total + np.where(self.deferred_chunks, -np.maximum(load_both - first, 0.0), edges)
        # Between panels, the last chunk is stored before the loads of the next panel's second step.
        gap = (
            step
            + g.epilogue_cycles
            + transfers.stored
            + load
            - np.maximum(2 * step + g.epilogue_cycles, 2 * load + stores)
        )
        total = total + np.where(
            masks.shared | (g.k_blocks == 1), 0.0, (panels - 1) * np.maximum(gap, 0.0)
        )
        single_panel = self.work + g.epilogue_cycles
        total = np.where(
            panels * g.k_blocks == 1,
            g.b_prepare_cycles
            + np.maximum(
                single_panel,
                single_panel / g.mean_chunks + (g.mean_chunks - 1) * transfers.last_store,
            ),
            total,
        )
        ending = transfers.last_store
        if self.deferred_chunks.any():  # after the last panel, instead of overlapping the first one
            hidden = self._deferred_panel(step, load) - g.k_blocks * np.maximum(step, load)
            left = np.maximum(g.epilogue_cycles, g.mean_chunks * transfers.last_store)
            ending = np.where(self.deferred_chunks, np.maximum(left - hidden, 0.0) + ending, ending)
        passing = masks.share_b | masks.b_in_gsm
        barriers = machine.barrier_cycles * np.where(
            masks.shared, 2.0 + passing, np.where(masks.b_in_gsm, 2.0, 1.0 * (self.space == 1))
        )
        total = (
            total
            + self._gsm_fill()
            + self._first_load(first, load_both)
            + ending
            + barriers
            + g.adding_cycles
        ) * np.where(masks.b_in_gsm, GSM_PENALTY, 1.0)
        return np.where(fits, total, inf)

    def _first_load(self, first: Numbers, load: Numbers) -> Numbers:
        """Return the cycles of the first load that nothing hides.

        Unless a barrier waits for all chunks of A, a core multiplies chunks as they arrive. So it
        first waits for B and one chunk, and if loads take longer than products, only the last
        chunk's product follows the last load. This counts for parts of k, whose panels are few.

        Args:
            first: Cycles of the first step's computation.
            load: Cycles of the loads of a step.
        """
        g, transfers, steps = self.grid, self.transfers, self.grid.k_blocks
        arriving = transfers.first_b + transfers.first_a / g.mean_chunks
        counted = (steps - 1) * np.maximum(first, load) + first
        arriving = np.maximum(arriving, steps * load + first / g.mean_chunks - counted)
        is_whole = self.masks.shared | (self.problem.k_groups == 1)
        return np.where(is_whole, transfers.first_a + transfers.first_b, arriving)

    def _gsm_fill(self) -> Numbers:
        """Return the cycles to load B into GSM, or its first blocks if the others overlap steps."""
        g, masks = self.grid, self.masks
        if not masks.b_in_gsm.any():
            return 0.0
        first = np.minimum(g.n_blocks, g.groups[1]) * np.minimum(g.k_blocks, 2)
        blocks = np.where(masks.fills_during_panel, first, g.n_blocks * g.k_blocks)
        return np.where(
            masks.b_in_gsm, fill_cycles(self.machine, blocks, g.moved_b_split, g.elements_b), 0.0
        )

    def _panel(self, step: np.ndarray, load: Numbers, shared: np.ndarray) -> np.ndarray:
        """Return the cycles of one panel of C: each step hides the loads of the next one.

        If A or B is ``shared``, a barrier ends each step and waits for its transfers. Stores then
        overlap the last step, or all steps of the next panel if the epilogue is deferred.
        """
        g, store = self.grid, self.transfers.store
        stores, steps = g.mean_chunks * store, g.k_blocks
        # With one buffer of C, the next panel's products wait for the store of the chunk that they
        # overwrite.
        alone = np.where(shared | ((g.chunks == 1) & (self.rings == 1)), store, 0.0)
        # The epilogue of the first chunk waits for its operands, which are loaded after A and B.
        if g.epilogue.operands:
            alone = alone + (g.chunks > 1) * np.maximum(
                load + store - (step + g.epilogue_cycles) / g.chunks, 0.0
            )
        # The third chunk needs the tile of the first one, whose store is queued after the loads.
        if g.transpose_c:
            alone = alone + np.where(
                g.chunks > 2, np.maximum(load - 2 / g.chunks * (step + g.epilogue_cycles), 0.0), 0.0
            )
        one = np.maximum(step + g.epilogue_cycles + alone, load * self.transfers.slower + stores)
        longer = np.maximum(step, load)
        two = np.maximum(2 * step + g.epilogue_cycles + alone, 2 * load + stores)
        # The next panel's products start when all chunks but the last are finished.
        if g.epilogue.operands:
            two = np.maximum(two, (g.chunks > 1) * (step + load + stores))
        separate = np.where(steps == 1, one, (steps - 2) * longer + two)
        if not shared.any():
            return separate
        together = (steps - 1) * longer + one
        if self.deferred_chunks.any():
            together = np.where(self.deferred_chunks, self._deferred_panel(step, load), together)
        return np.where(shared, together + steps * self.machine.barrier_cycles, separate)

    def _deferred_panel(self, step: Numbers, load: Numbers) -> Numbers:
        """Return the cycles of a panel whose steps finish chunks of the previous panel.

        Without barriers.
        """
        g = self.grid
        chunk_fraction = g.deferred_chunks / g.chunks
        busy = cost_rules.pieces(g.chunks, g.deferred_chunks)
        with_chunks = np.maximum(
            step + chunk_fraction * g.epilogue_cycles,
            load * self.transfers.slower + g.deferred_chunks * self.transfers.store,
        )
        return busy * with_chunks + (g.k_blocks - busy) * np.maximum(step, load)

    def _check_capacity(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return the memory of A (index of ``_SPACES``), the buffers of C, and which sizes fit."""
        g, p, masks, machine = self.grid, self.problem, self.masks, self.machine
        item = ELEMENT_BYTES[p.a.dtype]
        kept = np.where(g.k_blocks == 1, 2, g.k_blocks)
        if g.b_layout == "transposed":
            b_slots = 2 + np.where(masks.keep_b, kept, 1)
        else:
            b_slots = np.where(masks.keep_b, kept, 2)
        # A fused prologue needs tiles that arrive, the computed one, and a transposed one.
        if p.b_prologue.tiles:
            b_slots = (
                2 * p.b_prologue.tiles
                + (g.b_layout == "transposed")
                + np.where(masks.keep_b, kept, 1)
            )
        am = (
            g.c_tile * g.chunks
            + g.result_tile * g.epilogue.tiles
            + (2 * g.result_tile if g.transpose_c else 0)
            + g.b_tile * b_slots
        )
        a = slot_bytes(g.block, 1, item) * g.chunks * np.where(masks.keep_a, kept, 2)
        owners = g.groups[0] * np.where(masks.share_a, 1, g.groups[1])
        # A core that works alone cannot know what other cores keep in GSM.
        pool = g.b_tile * np.where(masks.b_in_gsm, g.n_blocks * g.k_blocks, 2 * masks.share_b)
        pool = pool + g.partial_bytes
        in_gsm = (a * owners + pool <= machine.gsm_bytes) & (
            prod(g.groups) > 1 or machine.cores == 1
        )
        space = np.where(
            masks.share_a, 1, np.where(a <= machine.sm_bytes, 0, np.where(in_gsm, 1, 2))
        )
        if p.a_prologue.tiles:  # the vector unit computes A in AM, where the matrix unit reads it
            space = space + 2 - space
            am = am + g.chunks * box_bytes(p, g.lengths)
        am = am + np.where(space == 2, a, 0)
        am = am + parameter_bytes(p, g.k_tile, g.n_tile, g.b_layout)
        am = am + 2 * p.sums * slot_bytes(
            g.n_tile if g.transpose_c else g.m_tile, 1, ELEMENT_BYTES[p.accumulator]
        )
        am = (
            am
            + g.epilogue.broadcasts * g.broadcast_tile
            + g.result_tile // ELEMENT_BYTES[p.accumulator] * g.epilogue.extra_bytes
        )
        # Tiles for the next chunk's epilogue while this chunk's are transferred.
        second = g.result_tile * g.epilogue.tiles
        rings = np.where(am + g.c_tile * g.chunks + second <= machine.am_bytes, 2, 1)
        self.overlaps = am + g.c_tile * g.chunks * (rings - 1) + second <= machine.am_bytes
        self.deferred_chunks = np.asarray(False)
        if masks.shared.any():
            ahead = g.deferred_chunks * np.where(g.k_blocks > 1, 2, 1)
            extra_tiles = (
                g.epilogue.operands * ahead
                + (g.epilogue.tiles - g.epilogue.operands) * g.deferred_chunks
                - g.epilogue.tiles
            )
            results = g.result_tile * (
                extra_tiles + (g.deferred_chunks - 2 if g.transpose_c else 0)
            ) + g.epilogue.broadcasts * g.broadcast_tile * (ahead - 1)
            self.deferred_chunks = (
                (masks.shared & (p.k_groups == 1))
                & (am + g.c_tile * g.chunks + results <= machine.am_bytes)
                & (g.row_waves * g.column_waves > FEW_PANELS_PER_CORE)
            )
            rings = np.where(self.deferred_chunks, 2, rings)
            self.overlaps = self.overlaps | self.deferred_chunks
        adding = g.c_tile * g.chunks * rings + g.adding_bytes
        in_am = (am <= machine.am_bytes) & (adding * (p.k_groups > 1) <= machine.am_bytes)
        return space, rings, in_am & (in_gsm | ~masks.share_a) & (pool <= machine.gsm_bytes)

    # --- the cheapest

    def schedule(self, number: int) -> Schedule:
        """Return the schedule with the cheapest sizes of choice ``number``."""
        g, choice = self.grid, self.choices[number]
        at = int(self._at[number])
        m, _, n, k = (int(size_indices[at]) for size_indices in g.size_indices)

        def pick(values: Numbers) -> int:
            array = np.asarray(values)
            if array.ndim == 2:
                array = array[number if len(array) > 1 else 0]
            return array[at if len(array) > 1 else 0].item() if array.ndim else array.item()

        return Schedule(
            depth=2,
            m=g.cuts[0][m],
            n=g.cuts[1][n],
            k=g.cuts[2][k],
            m_outer=choice.m_outer,
            keep_outer=choice.keep,
            chunks=pick(g.chunks),
            row_groups=min(g.groups[0], pick(g.rows)),
            column_groups=min(g.groups[1], pick(g.n_blocks)),
            k_groups=self.problem.k_groups,
            share=choice.share,
            a_space=_SPACES[pick(self.space)],
            trans_a=bool(pick(self.transfers.trans_a)),
            b_layout=g.b_layout,
            b_in_gsm=choice.b_in_gsm,
            split_rows=g.split_rows and (choice.share == "b" or choice.b_in_gsm),
            c_buffers=pick(self.rings),
            transpose_c=self.problem.transpose_c,
            col2im_c=self.problem.col2im is not None,
            deferred_chunks=pick(g.deferred_chunks) if pick(self.deferred_chunks) else 0,
            cycles=self.best[number] / (GSM_PENALTY if choice.b_in_gsm else 1.0),
        )


def price(grid: PanelSearchSpace, choices: Sequence[PanelChoice], limit: float = inf) -> PricedPlan:
    """Price sizes under each of the choices.

    Args:
        grid: The sizes.
        choices: The choices.
        limit: Skip sizes whose lower bound is above this many cycles, and those that cannot fit.
    """
    size_indices = np.nonzero((grid.cycles_floor <= limit) & (grid.cycles_floor < inf))

    def at(values: Numbers) -> np.ndarray:
        array = np.asarray(values)
        return array[
            tuple(
                at if extent > 1 else 0
                for at, extent in zip(size_indices, array.shape, strict=True)
            )
        ]

    kept = copy(grid)
    kept.size_indices = size_indices
    for name, values in vars(grid).items():
        if isinstance(values, np.ndarray):
            setattr(kept, name, at(values))
    kept.lengths = tuple(map(at, grid.lengths))
    return PricedPlan(kept, choices)
