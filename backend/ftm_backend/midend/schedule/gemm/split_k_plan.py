"""Cost model of split-k: each group of cores computes one panel of C, each core a part of k.

Example: a 64 x 64 x 100000 product has too few panels for 8 cores. All 8 cores compute the whole
panel over an eighth of k each, store their partial sums to GSM, and each adds up some chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod
from typing import Any

import numpy as np

from ftm_backend.midend.schedule.gemm.candidate_tile_sizes import LARGEST, CandidateSizes, Cuts
from ftm_backend.midend.schedule.gemm.panel_search_space import SCALARS, PanelSearchSpace
from ftm_backend.midend.schedule.gemm.schedule import ASpace, BLayout, Schedule
from ftm_backend.midend.schedule.gemm.tiling_problem import TileCut, TilingProblem
from ftm_backend.midend.schedule.gemm.traffic_model import box_bytes, parameter_bytes
from ftm_backend.target import cost_rules
from ftm_backend.target.cost_rules import Numbers
from ftm_backend.target.element_types import slot_bytes
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["split_plan"]

_GROWTH = 1.25
"""Ratio of one candidate size to the next."""
_FULL = 0.97
"""Splitting k cannot pay if compute at peak takes this fraction of the best plan's time."""
_SHARES = (1, 2, 3, 4)
"""Candidate numbers of chunks of a panel that each core adds up."""
_BARRIERS = 3
"""Barriers per panel: before the loop over k, before the reduction, before the next stores."""


def split_plan(problem: TilingProblem, machine: MachineParameters, limit: float) -> Schedule | None:
    """Return the cheapest split-k schedule that takes fewer than ``limit`` cycles, if any."""
    best = None
    b_layout: BLayout = "transposed" if problem.b.runs[0] > problem.b.runs[1] else "plain"
    for groups in _groups(problem, machine, limit):
        found = _Splits(problem, machine, groups, b_layout).cheapest()
        if found is not None and found.cycles < limit:
            best, limit = found, found.cycles
    return best


def _groups(
    problem: TilingProblem, machine: MachineParameters, limit: float
) -> Iterator[tuple[int, int]]:
    """Yield the grids of panels that leave several cores to each panel and may fit.

    None if splitting k cannot pay.
    """
    if not _may_pay(problem, machine, limit):
        return
    c_bytes = prod(problem.m) * prod(problem.n) * ELEMENT_BYTES[problem.accumulator]
    for panels in range(1, machine.cores // 2 + 1):
        if machine.cores % panels == 0 and c_bytes < panels * machine.am_bytes:
            yield from (
                (rows, panels // rows) for rows in range(1, panels + 1) if panels % rows == 0
            )


def _may_pay(problem: TilingProblem, machine: MachineParameters, limit: float) -> bool:
    """Whether k can be split, and compute at peak does not take all of the time already."""
    is_simple = problem.col2im is None and not problem.interleaved and prod(problem.batch) == 1
    products = prod(problem.m) * prod(problem.n) * prod(problem.k)
    peak = products / (machine.fma_units * machine.lanes(problem.accumulator)) / machine.cores
    return problem.can_split_k and is_simple and peak <= _FULL * limit


class _Splits(PanelSearchSpace):
    """Search space of chunks and blocks of k for one grid of panels."""

    def __init__(
        self,
        problem: TilingProblem,
        machine: MachineParameters,
        groups: tuple[int, int],
        b_layout: BLayout,
    ) -> None:
        """Compute the candidates of one grid; see the base class."""
        self.k_groups = machine.cores // prod(groups)
        super().__init__(problem, machine, groups, b_layout, CandidateSizes(_GROWTH, (1,), True))

    def _cuts(self, sampling: CandidateSizes) -> Cuts:
        ms, ns, ks = super()._cuts(sampling)
        outer, *inside = self.problem.m or (1,)
        for share in _SHARES:  # number of chunks that each core adds up
            size = cost_rules.pieces(outer, self.groups[0] * self.k_groups * share)
            if (rows := size * prod(inside)) <= LARGEST["m"]:
                ms += (TileCut(0, size, rows, cost_rules.pieces(outer, size)),)
        wide = [cut for cut in ns if cut.blocks <= self.groups[1]] or ns[-1:]
        return (
            ms,
            (min(wide, key=lambda cut: cut.elements),),
            tuple(cut for cut in ks if cut.blocks >= self.k_groups) or ks[:1],
        )

    def _panel_count(self, m_blocks: Numbers, sampling: CandidateSizes) -> Numbers:
        return np.minimum(m_blocks, self.groups[0])

    def cheapest(self) -> Schedule | None:
        """Return the cheapest schedule; None if nothing fits."""
        space, fits = self._check_capacity()
        trans_a, total = self._cycles()
        total = np.where(fits, total, inf)
        at = np.unravel_index(total.argmin(), total.shape)
        if total[at] == inf:
            return None

        def pick(values: Any) -> Any:
            return np.broadcast_to(values, total.shape)[at].item()

        space_of_a: ASpace = "gsm" if pick(space) else "sm"
        return Schedule(
            depth=2,
            m=self.cuts[0][at[0]],
            n=self.cuts[1][at[2]],
            k=self.cuts[2][at[3]],
            m_outer=True,
            chunks=pick(self.chunks),
            row_groups=pick(self.panels),
            column_groups=self.cuts[1][at[2]].blocks,
            k_groups=self.k_groups,
            a_space="am" if self.problem.a_prologue.tiles else space_of_a,
            trans_a=bool(pick(trans_a)),
            b_layout=self.b_layout,
            transpose_c=self.transpose_c,
            cycles=pick(total),
        )

    def _check_capacity(self) -> tuple[Numbers, Numbers]:
        """Return whether A is in GSM, and which candidates fit.

        The reduction reuses the scratchpad of the blocks of B.
        """
        p, machine = self.problem, self.machine
        a = 2 * self.chunks * slot_bytes(self.block, 1, ELEMENT_BYTES[p.a.dtype])
        own_chunks = cost_rules.pieces(self.chunks, self.k_groups)
        transposed = self.b_layout == "transposed"
        b_slots = 2 * p.b_prologue.tiles + 1 + transposed if p.b_prologue.tiles else 2 + transposed
        walking = self.b_tile * b_slots + parameter_bytes(
            p, self.k_tile, self.n_tile, self.b_layout
        )
        if p.a_prologue.tiles:
            walking = walking + a + self.chunks * box_bytes(p, self.lengths)
        # the partial sums that arrive (two slots), the transposed block, the results
        finishing = self.c_tile * (2 + self.transpose_c + p.epilogue.tiles - p.epilogue.operands)
        am = (
            self.c_tile * (self.chunks + own_chunks * p.epilogue.operands)
            + p.epilogue.broadcasts * own_chunks * self.broadcast_tile
            + self.c_tile // ELEMENT_BYTES[p.accumulator] * p.epilogue.extra_bytes * own_chunks
            + np.maximum(walking, finishing)
        )
        in_gsm = (a > machine.sm_bytes) & (p.a_prologue.tiles == 0)
        gsm = machine.cores * (self.chunks * self.c_tile + np.where(in_gsm, a, 0))
        is_divisible = (self.k_blocks >= self.k_groups) & (self.n_blocks <= self.groups[1])
        return in_gsm, is_divisible & (am <= machine.am_bytes) & (gsm <= machine.gsm_bytes)

    def _cycles(self) -> tuple[Numbers, Numbers]:
        """Return whether DMA transposes A, and the cycles."""
        p, machine = self.problem, self.machine
        rate = cost_rules.bytes_per_cycle(machine, machine.cores)
        plain = cost_rules.transfer_cycles(machine, self.moved_a / rate, 0.0, self.elements_a)
        other = cost_rules.transfer_cycles(
            machine, self.moved_a_transposed / rate, 0.0, self.elements_a_transposed
        )
        load_a = np.minimum(plain, other)
        load_b = cost_rules.transfer_cycles(machine, self.moved_b / rate, 0.0, self.elements_b)
        load_a = load_a + machine.dma_latency * (p.a_prologue.further_loads)
        load_b = load_b + machine.dma_latency * (p.b_prologue.further_loads)
        steps = cost_rules.pieces(self.k_blocks, self.k_groups)
        own_chunks = cost_rules.pieces(self.chunks, self.k_groups)
        scalar = SCALARS["step"] * machine.scalar_latency + self.chunks * (
            machine.issue_cycles + SCALARS["load"] * machine.scalar_latency
        )
        step = self.matrix + self.a_prologue_cycles + self.b_prepare_cycles + scalar
        reads = p.epilogue.load_fraction * self.epilogue_moved / rate + machine.dma_latency * (
            p.epilogue.loads
        )
        moving = steps * (self.chunks * load_a + load_b) + own_chunks * reads
        walking = np.maximum(load_b + load_a + steps * step, moving + step / self.chunks)
        part = cost_rules.transfer_cycles(
            machine, 0.0, self.c_tile * machine.cores / machine.gsm_bytes_per_cycle, 0.0
        )
        adding = (
            40
            + 1.5 * self.m_tile * cost_rules.pieces(self.n_tile, machine.lanes(p.accumulator))
            + machine.issue_cycles
        )
        finishing = (
            part
            + (self.k_groups - 1) * np.maximum(part, adding)
            + self.epilogue_cycles / self.chunks
        )
        stores = (
            cost_rules.transfer_cycles(machine, self.moved_c / rate, 0.0, self.elements_c)
            + (1 - p.epilogue.load_fraction) * self.epilogue_moved / rate
        )
        stores = stores + machine.dma_latency * max(p.epilogue.tiles - p.epilogue.operands - 1, 0)
        ending = (
            part + finishing + (own_chunks - 1) * np.maximum(finishing, self.body + stores) + stores
        )
        return other < plain, walking + ending + _BARRIERS * machine.barrier_cycles
