"""Schedules of depth 1, for machines whose cores copy synchronously.

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

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, inf, prod
from typing import TypeVar

import numpy as np

from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.schedule.gemm.tiling_problem import (
    OperandTraffic,
    TileCut,
    TilingProblem,
    cuts,
    pitch,
)
from ftm_backend.target import cost_rules
from ftm_backend.target.element_types import Numbers, slot_bytes
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["synchronous_schedule"]

_LARGEST = (1536, 2048, 2048)
"""Most elements of a tile along m, n and k."""
_K_QUANTUM = 16


@lru_cache(maxsize=4096)
def synchronous_schedule(problem: TilingProblem, machine: MachineParameters) -> Schedule | None:
    """Return the cheapest schedule under the model. All extents must be at least 1.

    None if no tiles fit the scratchpads.
    """
    tiles = _Tiles(problem, machine)
    best = min((_Nest(tiles, True), _Nest(tiles, False)), key=lambda nest: nest.cycles)
    return best.schedule() if best.cycles < inf else None


def _axis(values: Sequence[Numbers], position: int) -> np.ndarray:
    """Return values along one axis of the grid (division, m, n, k)."""
    return np.array(values, dtype=np.float64).reshape(
        [-1 if at == position else 1 for at in range(4)]
    )


def _micro_kernels(extents: Sequence[int], cut: TileCut, quantum: int) -> int:
    """Return the micro-kernel blocks of ``quantum`` elements in all of the group's tiles."""
    extent, inside, outside = cut.around(extents)
    full, tail = divmod(extent, cut.size)
    each, last = ceil(cut.size * inside / quantum), ceil(tail * inside / quantum)
    return outside * (full * each + last)


def _transfer_cycles(
    machine: MachineParameters,
    elements: float,
    run: Numbers,
    inner: Numbers,
    item: int,
    rate: Numbers,
) -> Numbers:
    """Return the cycles to transfer elements by DMA.

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


_T = TypeVar("_T")


class _Tiles:
    """Candidate tiles, and the parts of their costs that do not depend on the loop order.

    Arrays have the axes (division, m, n, k). A division is the loop that cores share, if any.

    Attributes:
        tile: Elements of a tile along m, n and k.
        blocks: Tiles along m, n and k.
        load_a: Cycles to load all of A once: plain, and transposed.
        load_b: The same of B.
        store: Cycles to store C once, and of the epilogue's transfers.
    """

    def __init__(self, problem: TilingProblem, machine: MachineParameters) -> None:
        p = self.problem = problem
        self.machine = machine
        quanta = (machine.mm_rows, machine.mm_columns(p.accumulator), _K_QUANTUM)
        groups = (p.m, p.n, p.k)
        self.cuts = tuple(map(cuts, groups, quanta, _LARGEST))
        self.tile = [_axis([c.elements for c in cs], 1 + i) for i, cs in enumerate(self.cuts)]
        self.blocks = [_axis([c.blocks for c in cs], 1 + i) for i, cs in enumerate(self.cuts)]
        self.batch, (self.m, self.n, self.k) = prod(p.batch), map(prod, groups)
        self.splits = ("none", "batch", "outer", "inner") if machine.cores > 1 else ("none",)
        self.cores = _axis([1 if split == "none" else machine.cores for split in self.splits], 0)
        self._set_slots()
        self._set_micro_kernels(*quanta[:2])
        self._set_transfers()

    def _set_slots(self) -> None:
        """Set bytes of operand tiles, and the most tiles that a resident operand has."""
        p, (m, n, k) = self.problem, self.tile
        self.a_slot, self.b_slot = _larger_slot(m, k, p.a.dtype), _larger_slot(k, n, p.b.dtype)
        dynamic_dims = p.dynamic_dims or (len(p.m), len(p.n), len(p.k))
        m_most, n_most, k_most = (
            _axis([c.blocks * (2 if c.blocks > 1 and c.dim >= first else 1) for c in cs], 1 + i)
            for i, (cs, first) in enumerate(zip(self.cuts, dynamic_dims, strict=True))
        )
        # Tile counts of a product of groups: at most twice the counts for the size hints, too.
        m_blocks, n_blocks, k_blocks = self.blocks
        self.a_held = np.minimum(m_most * k_most, 2 * m_blocks * k_blocks)
        self.b_held = np.minimum(n_most * k_most, 2 * n_blocks * k_blocks)
        self.k_held = k_most

    def _set_micro_kernels(self, rows: int, columns: int) -> None:
        """Set the blocks of the micro-kernel in all tiles, and the vectors of a row of C."""
        p, (ms, ns, _), lanes = (
            self.problem,
            self.cuts,
            self.machine.lanes(self.problem.accumulator),
        )
        m_kernels = _axis([_micro_kernels(p.m, cut, rows) for cut in ms], 1)
        self.kernels = m_kernels * _axis([_micro_kernels(p.n, cut, columns) for cut in ns], 2)
        self.n_vectors = _axis([_micro_kernels(p.n, cut, lanes) for cut in ns], 2)

    def _set_transfers(self) -> None:
        p, machine, (m, n, k) = self.problem, self.machine, self.tile
        bandwidth = np.minimum(machine.core_bandwidth, machine.ddr_bandwidth / self.cores)
        rate = bandwidth / machine.clock_hz

        def load(
            x: OperandTraffic, elements: int, first: Numbers, second: Numbers
        ) -> tuple[Numbers, Numbers]:
            item = ELEMENT_BYTES[x.dtype]
            plain = _transfer_cycles(machine, elements, x.runs[1], second, item, rate)
            return plain, _transfer_cycles(machine, elements, x.runs[0], first, item, rate)

        self.load_a = load(p.a, self.m * self.k, m, k)
        self.load_b = load(p.b, self.k * self.n, k, n)
        item, elements = ELEMENT_BYTES[p.c.dtype], self.m * self.n
        storing = _transfer_cycles(machine, elements, p.c.runs[1], n, item, rate)
        self.store = storing + elements * p.epilogue.bytes * machine.clock_hz / bandwidth


def _larger_slot(rows: np.ndarray, columns: np.ndarray, dtype: str) -> Numbers:
    """Return the bytes of a tile, with room to keep it transposed."""
    item = ELEMENT_BYTES[dtype]
    return np.maximum(
        slot_bytes(rows, pitch(columns, dtype), item), slot_bytes(columns, pitch(rows, dtype), item)
    )


class _Nest:
    """All tiles in loops of one order.

    Attributes:
        cycles: Cycles of the cheapest tiles.
    """

    def __init__(self, tiles: _Tiles, m_outer: bool) -> None:
        self.tiles, self.m_outer = tiles, m_outer
        self.problem, self.machine = tiles.problem, tiles.machine
        self._set_residency()
        self._set_repetitions()
        total = self._total()
        self.shape = total.shape
        self.at = np.unravel_index(total.argmin(), total.shape)
        self.cycles = float(total[self.at])

    def _ordered(self, of_m: _T, of_n: _T) -> tuple[_T, _T]:
        """Return the values of the outer and of the inner loop or operand."""
        return (of_m, of_n) if self.m_outer else (of_n, of_m)

    def _set_residency(self) -> None:
        """Set which operands stay resident, and which tiles fit.

        The inner operand is kept whole if it fits, else the outer operand's tiles of k.
        """
        t, p, (m, n, _), depth = (
            self.tiles,
            self.problem,
            self.tiles.tile,
            self.machine.tile_buffers,
        )
        c_bytes = (
            slot_bytes(m, n, ELEMENT_BYTES[p.accumulator]) * (depth + p.epilogue.tiles)
            + m * n * p.epilogue.extra_bytes
        )
        rooms: tuple[Numbers, Numbers] = self._ordered(
            self.machine.sm_bytes, self.machine.am_bytes - c_bytes
        )
        slots = self._ordered(t.a_slot, t.b_slot)
        _, inner_held = self._ordered(t.a_held, t.b_held)
        self.keep_outer = slots[0] * t.k_held <= rooms[0]
        self.keep_inner = slots[1] * inner_held <= rooms[1]
        self.fits: Numbers = np.asarray(True)
        for slot, kept, room in zip(slots, (self.keep_outer, self.keep_inner), rooms, strict=True):
            self.fits = self.fits & ((slot * depth <= room) | (kept & (slot <= room)))

    def _set_repetitions(self) -> None:
        """Set how often the busiest core loads and reads each operand.

        Shares scale totals to the busiest core.
        """
        t = self.tiles
        outer_blocks, inner_blocks = self._ordered(*t.blocks[:2])

        def share(split: str, trips: Numbers) -> np.ndarray:
            chosen = _axis([split == each for each in t.splits], 0) == 1
            return np.where(chosen, np.ceil(trips / t.cores) / trips, 1.0)

        of_batch = share("batch", t.batch)
        of_outer, of_inner = share("outer", outer_blocks), share("inner", inner_blocks)
        batches = t.batch * of_batch
        outers, inners = outer_blocks * of_outer, inner_blocks * of_inner
        outer_passes = batches * of_outer * np.where(self.keep_outer, 1.0, inners)
        _, inner_operand = self._ordered(self.problem.a, self.problem.b)
        kept_passes = batches if inner_operand.batched else np.minimum(batches, 1.0)
        inner_passes = of_inner * np.where(self.keep_inner, kept_passes, batches * outers)
        self.a_passes, self.b_passes = self._ordered(outer_passes, inner_passes)
        _, self.b_uses = self._ordered(batches * of_outer * inners, of_inner * batches * outers)
        self.work = t.batch * (of_batch * of_outer * of_inner)
        self.steps = batches * outers * inners

    def _total(self) -> np.ndarray:
        """Return the cycles of all tiles; infinite for those that do not fit."""
        t, machine = self.tiles, self.machine
        m_blocks, n_blocks, k_blocks = t.blocks
        # The matrix unit reads single elements of A, in either order. Vectors of B must be
        # contiguous along n.
        a_plain, a_trans = (cost * self.a_passes for cost in t.load_a)
        b_plain, b_trans = (cost * self.b_passes for cost in t.load_b)
        reads_b_in_place = t.m <= machine.mm_few_rows
        transpose_b = self.b_uses * (
            0.0
            if reads_b_in_place
            else cost_rules.transpose_cycles(machine, self.problem.b.dtype, t.k, t.n)
        )
        self.trans_a, self.trans_b = a_trans < a_plain, b_trans + transpose_b < b_plain
        # Accumulation has a latency: a small block of C does not fill the FMA pipelines.
        per_k = np.maximum(t.m * t.n_vectors / machine.fma_units, t.kernels * machine.fma_latency)
        computing = (
            self.work * (t.kernels * k_blocks * machine.mm_overhead + t.k * per_k)
            + np.where(self.trans_b, transpose_b, 0)
            + self.steps * (k_blocks + 1) * machine.issue_cycles
        )
        transfers = (
            self.a_passes * m_blocks * k_blocks + self.b_passes * n_blocks * k_blocks + self.steps
        )
        moving = (
            np.where(self.trans_a, a_trans, a_plain)
            + np.where(self.trans_b, b_trans, b_plain)
            + self.work * t.store
            + transfers * machine.dma_latency
        )
        total = cost_rules.tile_loop_cycles(machine, computing, moving, self.steps * k_blocks)
        return np.where(self.fits, total + np.where(t.cores > 1, machine.barrier_cycles, 0.0), inf)

    def schedule(self) -> Schedule:
        """Return the cheapest schedule."""
        division, *sizes = self.at
        m, n, k = (cs[at] for cs, at in zip(self.tiles.cuts, sizes, strict=True))

        def pick(values: Numbers) -> int:
            return np.broadcast_to(values, self.shape)[self.at].item()

        split = self.tiles.splits[division]
        of_rows, of_columns = self._ordered("outer", "inner")

        def groups(loop: str) -> int:
            return self.machine.cores if split == loop else 1

        return Schedule(
            depth=1,
            m=m,
            n=n,
            k=k,
            m_outer=self.m_outer,
            keep_outer=bool(pick(self.keep_outer)),
            keep_inner=bool(pick(self.keep_inner)),
            trans_a=bool(pick(self.trans_a)),
            b_layout="dot" if pick(self.trans_b) else "plain",
            batch_groups=groups("batch"),
            row_groups=groups(of_rows),
            column_groups=groups(of_columns),
            cycles=self.cycles,
        )
