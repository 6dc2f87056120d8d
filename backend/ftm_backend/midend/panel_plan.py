"""Plans contractions for machines whose DMA works beside the core: panels, rings, and who loads what.

``C[b, m, n] = sum_k A[b, m, k] * B[b, k, n]`` as in ``tiling``.  A core keeps a *panel* of C in AM while it walks all
of k: ``chunks`` chunks of rows by one block of columns.  In every step it takes one block of k: it multiplies the
panel's chunks of A with one block of B while DMA fetches what the next step needs.  So C moves once, and transfers
hide behind products.  The plan says
- the cuts of m (a chunk), n and k, how many chunks make a panel, how many slots hold each;
- the grid of cores: ``row_groups`` groups share the row panels of all batch entries, the cores of a group share
  the columns.  They may *share* A: each fetches some chunks of the panel into GSM, and all read them there;
- the order of the loops, and whether the outer loop's operand stays for all of the inner loop;
- how a B that lies transposed in memory is taken: as dot products, or turned in AM once it has arrived; and whether
  C is turned before it is stored.

What everything costs is asked of ``machine.rules``, by which the cycle model charges programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product as every
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from ftm_backend.machine import rules
from ftm_backend.machine.presets import ELEMENT_BYTES, MachineParameters
from ftm_backend.midend.panel_sizes import sizes, slot_bytes, taken
from ftm_backend.midend.tiling import Cut, Operand, Problem

__all__ = ["PanelPlan", "lies_well", "panel_plan"]

LARGEST = {"m": 768, "n": 4096, "k": 4096}
"""Elements of a group that a tile may take."""
GROWTH = 1.4
"""Ratio of the sizes that are tried, one to the next."""
PROMISING = 4
"""Choices whose sizes are tried in full, if they come within ``NEAR`` of the best on a coarse grid."""
NEAR = 1.3
WASTE = 0.1
CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Chunks of a panel that are tried."""
SCALARS = {"step": 60, "load": 22, "product": 22, "store": 30}
"""Scalar work around the tile instructions of a step, and around each of them, in instructions."""


@dataclass(frozen=True)
class PanelPlan:
    """A plan and what it should cost the busiest core, in modelled cycles."""

    m: Cut
    n: Cut
    k: Cut
    chunks: int
    panels: int
    """Row panels of one batch entry."""
    row_groups: int
    column_groups: int
    share: str
    """What goes through GSM and is fetched once for several cores: ``none``; ``a``, by the cores of a group; ``b``, by
    all, which must be one group each."""
    m_outer: bool
    keep: bool
    """The outer loop's operand keeps all of its blocks of k through the inner loop."""
    a_space: str
    trans_a: bool
    b_form: str
    """``plain``, ``dot`` (B is held as n x k and read so) or ``turned`` (it arrives as n x k and is transposed)."""
    turn_c: bool
    c_rings: int
    """Panels of C that there is room for: with 2 the next one starts while this one is stored."""
    cycles: float
    compute_cycles: float
    dma_cycles: float
    rivals: tuple[str, ...] = field(default=(), compare=False)

    @property
    def cores(self) -> int:
        """Cores that have work."""
        return self.row_groups * self.column_groups

    def explain(self) -> str:
        """The plan and its nearest rivals, one line each."""
        return "\n".join((f"chosen  {_line(self)}", *(f"rejected {rival}" for rival in self.rivals)))


def _line(p: PanelPlan) -> str:
    order = "m,n,k" if p.m_outer else "n,m,k"
    words = [f"{p.chunks} chunks of {p.m.elements}x{p.n.elements}x{p.k.elements}", f"order {order}"]
    words += [f"keeps {'A' if p.m_outer else 'B'}"] if p.keep else []
    words += [f"A in {p.a_space.upper()}"] + (["A shared"] if p.share == "a" else []) + (["A transposed"] if p.trans_a else [])
    words += [f"B {p.b_form}"] if p.b_form != "plain" else []
    words += ["B shared"] if p.share == "b" else []
    words += ["C turned"] if p.turn_c else []
    words += [f"{p.c_rings} panels of C", f"cores {p.row_groups}x{p.column_groups}"]
    return f"{', '.join(words)}: {p.cycles:.0f} cycles (compute {p.compute_cycles:.0f}, DMA {p.dma_cycles:.0f})"


class _Choice(NamedTuple):
    """What is not a size."""

    row_groups: int
    column_groups: int
    share: str
    m_outer: bool
    keep: bool
    b_form: str


@lru_cache(maxsize=4096)
def panel_plan(problem: Problem, machine: MachineParameters) -> PanelPlan:
    """The cheapest plan of ``problem``; all extents are at least 1.

    Raises ValueError when no tiles fit the scratchpads.
    """
    for quanta in (True, False):
        found = _search(problem, machine, quanta)
        if found:
            found.sort(key=lambda each: each[0])
            winner, *rivals = (make() for _, make in found[:4])
            return replace(winner, rivals=tuple(_line(rival) for rival in rivals))
    raise ValueError(f"no tiles of {problem} fit the scratchpads of machine {machine.name!r}")


def lies_well(problem: Problem, machine: MachineParameters) -> bool:
    """Whether B and C lie along n in memory, and n fills the micro-kernel's columns but for ``WASTE`` of them."""
    n = prod(problem.n)
    full = n >= (1 - WASTE) * rules.columns_taken(machine, problem.accumulator, n)
    return full and all(x.runs[1] >= machine.lanes(problem.accumulator) for x in (problem.b, problem.c))


def _search(problem: Problem, machine: MachineParameters, quanta: bool) -> list[tuple[float, Any]]:
    """The cheapest sizes for each promising choice: a coarse grid of sizes tells which these are."""
    seen: list[tuple[float, Any, tuple[int, int], _Choice]] = []
    for groups in _grids(problem, machine):
        for b_form in _b_forms(problem):
            grid = _Grid(problem, machine, groups, b_form, _Sampling(2.2, CHUNKS[::3], quanta))
            seen += [(*grid.best(choice), groups, choice) for choice in _choices(problem, groups, b_form)]
    seen.sort(key=lambda each: each[0])
    if _is_short(problem, machine):
        return [(cycles, make) for cycles, make, *_ in seen if cycles < inf]
    grids: dict[tuple, _Grid] = {}
    found = []
    for cycles, _, groups, choice in seen[:PROMISING]:
        if cycles < inf and cycles <= NEAR * seen[0][0]:
            key = groups, choice.b_form
            if key not in grids:
                grids[key] = _Grid(problem, machine, groups, choice.b_form, _Sampling(GROWTH, CHUNKS, quanta))
            found.append(grids[key].best(choice))
    return found


def _grids(problem: Problem, machine: MachineParameters) -> list[tuple[int, int]]:
    """Grids of cores worth trying: all cores, and one alone where the work is over before others could help."""
    cores = machine.cores
    rows = prod(problem.batch) * rules.pieces(prod(problem.m), machine.mm_rows)
    columns = rules.pieces(prod(problem.n), rules.DOT_COLUMNS)
    found = [(g, cores // g) for g in range(1, cores + 1) if cores % g == 0 and g < 2 * rows and cores // g < 2 * columns]
    if _is_short(problem, machine):
        found = [(1, 1), *(groups for groups in found if 1 in groups)]
    return sorted({*found} or {(1, 1)})


def _is_short(problem: Problem, machine: MachineParameters) -> bool:
    """Whether one core at peak is done before barriers and latencies are forgotten."""
    products = prod(problem.batch) * prod(problem.m) * prod(problem.n) * prod(problem.k)
    return products / (machine.fma_units * machine.lanes(problem.accumulator)) < 100 * machine.barrier_cycles * machine.cores


def _b_forms(problem: Problem) -> tuple[str, ...]:
    along_n, along_k = problem.b.runs[1], problem.b.runs[0]
    turned = ("dot", "turned") if along_k > along_n else ()
    if problem.a_windows:
        turned = turned[1:]  # windows are read element by element, as outer products take them
    return turned if turned and along_n == 0 else ("plain", *turned)  # element by element, DMA is slower than any turning


def _choices(problem: Problem, groups: tuple[int, int], b_form: str) -> Iterator[_Choice]:
    steady = not problem.b.batched or prod(problem.batch) == 1
    # Cores that do not share A fetch it once each: only a small one is worth it.
    alone = groups[1] == 1 or prod(problem.m) * groups[1] <= 4 * prod(problem.n)
    shares = ["none"] if alone else []
    shares += ["a"] if groups[1] > 1 else ["b"] if groups[0] > 1 and steady else []
    for share, m_outer, keep in every(shares, (True, False), (True, False)):
        if not keep or (m_outer or (steady and share != "b")):
            yield _Choice(*groups, share, m_outer, keep, b_form)


class _Sampling(NamedTuple):
    """Which sizes a grid has: their growth, the chunks of a panel, and whether they suit the micro-kernels."""

    growth: float
    chunks: tuple[int, ...]
    quanta: bool


class _Grid:
    """All sizes at once: arrays over the axes (m, chunks, n, k), for one grid of cores and one form of B."""

    def __init__(self, problem: Problem, machine: MachineParameters, groups: tuple[int, int], b_form: str,
                 sampling: _Sampling) -> None:
        self.problem, self.machine, self.b_form = problem, machine, b_form
        self.batch = prod(problem.batch)
        self.turn_c = problem.c.runs[1] == 0 and problem.c.runs[0] > 0
        rows, columns = groups
        accumulator = problem.accumulator
        shares = 1 if self.batch >= rows else rows
        share = rules.pieces(prod(problem.n), columns)
        n_quantum = rules.DOT_COLUMNS if b_form == "dot" else min(
            machine.mm_widths(accumulator), key=lambda width: rules.pieces(share, width) * width)
        quanta = (machine.mm_rows, n_quantum, 16) if sampling.quanta else (1, 1, 1)
        groups_of = ((problem.m, "m", shares), (problem.n, "n", columns), (problem.k, "k", 1))
        self.cuts = tuple(
            sizes(extents, quantum, LARGEST[name], sharers, sampling.growth)
            for (extents, name, sharers), quantum in zip(groups_of, quanta, strict=True))

        def axis(values: Sequence[int], position: int) -> Any:
            return np.array(values, dtype=np.int64).reshape([-1 if i == position else 1 for i in range(4)])

        (ms, ns, ks) = self.cuts
        self.mc, self.nt, self.kt = axis([c.elements for c in ms], 0), axis([c.elements for c in ns], 2), axis(
            [c.elements for c in ks], 3)
        m_blocks = axis([c.blocks for c in ms], 0)
        self.n_blocks, self.k_blocks = axis([c.blocks for c in ns], 2), axis([c.blocks for c in ks], 3)
        self._windows(ms, ks)
        self.panels = rules.pieces(m_blocks, np.minimum(axis(sampling.chunks, 1), m_blocks))
        self.chunks = rules.pieces(m_blocks, self.panels)
        self.rows = self.panels * self.batch
        self.row_trips = rules.pieces(self.rows, rows)
        self.column_trips = rules.pieces(self.n_blocks, columns)

    def _windows(self, ms: Sequence[Cut], ks: Sequence[Cut]) -> None:
        """Elements of A that a block of m x k covers, lengths of its sides, and even runs of k."""
        p = self.problem
        self.block: Any = self.mc * self.kt
        self.lengths: list[Any] = []
        self.runs: Any = 1
        if not p.a_windows:
            return
        steps = [taken(p.m, cut) for cut in ms], [taken(p.k, cut) for cut in ks]
        for side in p.a_windows:
            length: Any = 1
            for position, step in side.steps:
                group, at = (0, position) if position < len(p.m) else (1, position - len(p.m))
                reach = np.array([(counts[at] - 1) * abs(step) for counts in steps[group]], dtype=np.int64)
                length = length + reach.reshape((-1, 1, 1, 1) if group == 0 else (1, 1, 1, -1))
            self.lengths.append(length)
        self.block = np.ones_like(self.block)
        for length in self.lengths:
            self.block = self.block * length
        self.runs = np.array([rules.even_runs(counts) for counts in steps[1]], dtype=np.int64).reshape((1, 1, 1, -1))

    # --- transfers ------------------------------------------------------------------------------------

    def _windows_moved(self) -> tuple[Any, Any]:
        """Bytes that DDR moves for the box below a block of A, and cycles that the engine takes for its elements."""
        p, item = self.problem, ELEMENT_BYTES[self.problem.a.dtype]
        unit, run, joined = p.a_windows[-1].unit, self.lengths[-1], np.True_
        for side, length in zip(p.a_windows[-2::-1], self.lengths[-2::-1], strict=True):
            joined = joined & (run * unit == side.unit)
            run = np.where(joined, run * length, run)
        if unit != 1:
            return self.block * rules.granules(self.machine, item), self.block * self.machine.dma_element_cycles
        return self.block / run * rules.granules(self.machine, run * item), 0.0

    def _moving_windows(self, gsm: bool) -> Any:
        """Cycles of the engine for the box below a block of A."""
        moved, elements = self._windows_moved()
        gsm_cycles = self.block * ELEMENT_BYTES[self.problem.a.dtype] / self.gsm_rate if gsm else 0.0
        return rules.transfer_cycles(self.machine, moved / self.rate, gsm_cycles, elements)

    def _share_bandwidth(self, choice: _Choice) -> None:
        """Sets each core's part of DDR and GSM: all of the traffic over that of the busiest core."""
        p, mc = self.problem, self.machine
        rows, columns = np.minimum(self.rows, choice.row_groups), np.minimum(self.n_blocks, choice.column_groups)
        height = self.chunks * self.mc
        even_rows = np.maximum(np.minimum(self.batch * prod(p.m) / (self.row_trips * height), rows), 1.0)
        even_columns = np.maximum(np.minimum(prod(p.n) / (self.column_trips * self.nt), columns), 1.0)
        if p.a_windows:
            block = self._windows_moved()[0]
        else:
            block = np.minimum(*(self._moved(p.a, self.mc, self.kt, turned)[0] for turned in (False, True)))
        a = self.k_blocks * self.chunks * block / (columns if choice.share == "a" else 1)
        b = self.k_blocks * self._moved(p.b, self.kt, self.nt, choice.b_form != "plain")[0]
        if choice.keep:
            a, b = (a / self.column_trips, b) if choice.m_outer else (a, b / self.row_trips)
        c = self.chunks * self._moved(p.c, self.mc, self.nt, self.turn_c)[0] + height * self.nt * p.epilogue_bytes
        total = a * even_rows * columns + b * (1 if choice.share == "b" else rows) * even_columns + c * even_rows * even_columns
        active = total / (a + b + c)
        self.rate = np.minimum(mc.ddr_bandwidth / active, mc.core_bandwidth) / mc.clock_hz
        self.gsm_rate = mc.gsm_bytes_per_cycle / active

    def _moved(self, x: Operand, first: Any, second: Any, turned: bool) -> tuple[Any, Any]:
        """As ``_windows_moved``, for a block of first x second elements of an operand; turned: rows along its other group."""
        item = ELEMENT_BYTES[x.dtype]
        (inner, run), (across, beside) = ((first, x.runs[0]), (second, x.runs[1]))[:: 1 if turned else -1]
        elements = first * second
        if run == 0:  # elements that are taken one by one share what DDR moves for those beside them
            length = np.minimum(across, beside) if beside > 1 else x.beside
            return elements / length * rules.granules(self.machine, length * item), elements * self.machine.dma_element_cycles
        whole = x.whole[0 if turned else 1]
        length = np.where(inner >= run, elements if whole else np.minimum(inner, run), np.minimum(inner, run))
        return elements / length * rules.granules(self.machine, length * item), 0.0

    def _moving(self, x: Operand, first: Any, second: Any, turned: bool, gsm: bool = False) -> Any:
        """Cycles of the engine for such a block."""
        moved, elements = self._moved(x, first, second, turned)
        gsm_cycles = first * second * ELEMENT_BYTES[x.dtype] / self.gsm_rate if gsm and x.runs[0 if turned else 1] else 0.0
        return rules.transfer_cycles(self.machine, moved / self.rate, gsm_cycles, elements)

    # --- one choice -----------------------------------------------------------------------------------

    def best(self, choice: _Choice) -> tuple[float, Any]:
        """The cheapest sizes for a choice, and a function that makes their plan."""
        p, mc = self.problem, self.machine
        space, rings, fits = self._places(choice)
        if not fits.any():
            return inf, None
        self._share_bandwidth(choice)
        if p.a_windows:
            a_plain = a_turned = self._moving_windows(choice.share == "a")
        else:
            a_plain = self._moving(p.a, self.mc, self.kt, False, choice.share == "a")
            a_turned = self._moving(p.a, self.mc, self.kt, True, choice.share == "a")
        trans_a = a_turned < a_plain
        sharers = np.minimum(choice.column_groups, self.n_blocks) if choice.share == "a" else 1
        scalar = mc.scalar_latency
        loads = rules.pieces(self.chunks, sharers)
        load_a = loads * np.where(trans_a, a_turned, a_plain)
        load_b = self._moving(p.b, self.kt, self.nt, choice.b_form != "plain")
        if choice.share == "b":
            size = self.kt * self.nt * ELEMENT_BYTES[p.b.dtype]
            load_b = load_b + rules.transfer_cycles(mc, 0.0, size * np.minimum(self.rows, choice.row_groups)
                                                    / mc.gsm_bytes_per_cycle, 0.0)
        turn_c = self.turn_c
        store = self._moving(p.c, self.mc, self.nt, turn_c) + self.mc * self.nt * p.epilogue_bytes / self.rate
        store = store + mc.dma_latency * p.epilogue_tiles

        if p.a_windows:
            product = rules.windows_cycles(mc, p.accumulator, self.mc, self.nt, self.runs, self.kt)
        else:
            product = (rules.dot_cycles if choice.b_form == "dot" else rules.outer_cycles)(
                mc, p.accumulator, self.mc, self.nt, self.kt)
        matrix = self.chunks * (product + mc.issue_cycles + SCALARS["product"] * scalar)
        turning = rules.transpose_cycles(mc, self.kt, self.nt) if choice.b_form == "turned" else 0.0
        overhead = SCALARS["step"] * scalar + loads * (mc.issue_cycles + SCALARS["load"] * scalar)
        vectors = self.mc * rules.pieces(self.nt, mc.lanes(p.accumulator))
        after = self.chunks * (
            mc.issue_cycles + SCALARS["store"] * scalar + (2.0 * vectors + 40 if p.epilogue_tiles else 0.0)
            + (rules.transpose_cycles(mc, self.mc, self.nt) if turn_c else 0.0))

        outer, inner = (self.row_trips, self.column_trips) if choice.m_outer else (self.column_trips, self.row_trips)
        load_outer, load_inner = (load_a, load_b) if choice.m_outer else (load_b, load_a)
        turn_outer, turn_inner = (0.0, turning) if choice.m_outer else (turning, 0.0)
        fresh = self._block(choice, rings, matrix + overhead + turning, load_outer + load_inner, after, store)
        if choice.keep:
            again = self._block(
                choice, rings, matrix + overhead + turn_inner, load_inner, after, store,
                choice.share == "a" and choice.m_outer)
            total = outer * (fresh + (inner - 1) * again)
            dma = outer * self.k_blocks * (load_outer + inner * load_inner)
            turns = outer * self.k_blocks * (turn_outer + inner * turn_inner)
        else:
            total = outer * inner * fresh
            dma = outer * inner * self.k_blocks * (load_outer + load_inner)
            turns = outer * inner * self.k_blocks * turning
        # The last step fetches nothing.
        step, load, stores = matrix + overhead + turn_inner, load_inner if choice.keep else load_outer + load_inner, self.chunks * store
        total = total - np.where(
            self.k_blocks == 1, np.maximum(step + after, load + stores) - np.maximum(step + after, stores),
            np.maximum(load - step, 0.0))
        total = np.where(outer * inner * self.k_blocks == 1, turning + np.maximum(
            matrix + overhead + after, (matrix + overhead + after) / self.chunks + stores - store), total)
        compute = outer * inner * (self.k_blocks * (matrix + overhead) + after) + turns
        dma = dma + outer * inner * self.chunks * store
        barriers = mc.barrier_cycles * (2.0 if choice.share != "none" else 1.0 * (space == 1))
        total = np.where(fits, total + load_a + load_b + store + barriers, inf)
        at = np.unravel_index(int(np.argmin(total)), total.shape)

        def pick(values: Any) -> Any:
            return np.broadcast_to(values, total.shape)[at].item()

        def make() -> PanelPlan:
            m, _, n, k = at
            return PanelPlan(
                self.cuts[0][m], self.cuts[1][n], self.cuts[2][k], pick(self.chunks), pick(self.panels),
                min(choice.row_groups, pick(self.rows)), min(choice.column_groups, pick(self.n_blocks)), choice.share,
                choice.m_outer, choice.keep, ("sm", "gsm", "am")[pick(space)], bool(pick(trans_a)), choice.b_form, turn_c,
                pick(rings), float(total[at]), float(pick(compute)), float(pick(dma)))

        return float(total[at]), make

    def _block(self, choice: _Choice, rings: Any, step: Any, load: Any, after: Any, store: Any, free: bool = False) -> Any:
        """Cycles of one panel of C, all of its blocks of k: each step hides the transfers for the next one.

        Where A is shared, a barrier ends each step and waits for its transfers; stores are in the last one.
        """
        stores, steps = self.chunks * store, self.k_blocks
        alone = store if choice.share != "none" and not free else 0.0
        # With one panel of C, products of the next wait for the store of the chunk that they overwrite.
        alone = np.maximum(alone, np.where((self.chunks == 1) & (rings == 1), store, 0.0))
        barrier = self.machine.barrier_cycles if choice.share != "none" and not free else 0.0
        one = np.maximum(step + after + alone, load + stores)
        if choice.share != "none" and not free:
            return (steps - 1) * np.maximum(step, load) + one + steps * barrier
        two = np.maximum(2 * step + after + alone, 2 * load + stores)
        return np.where(steps == 1, one, (steps - 2) * np.maximum(step, load) + two)

    def _places(self, choice: _Choice) -> tuple[Any, Any, Any]:
        """Where A lies (0 SM, 1 GSM, 2 AM), how many panels of C there is room for, and which sizes fit."""
        p, mc = self.problem, self.machine
        item = ELEMENT_BYTES[p.a.dtype]
        c_tile = slot_bytes(self.mc, self.nt, ELEMENT_BYTES[p.accumulator])
        turned = 2 if self.turn_c else 0
        kept = np.where(self.k_blocks == 1, 2, self.k_blocks)
        b_slots = kept if choice.keep and not choice.m_outer else 2
        if choice.b_form == "turned":
            b_slots = 2 + (kept if choice.keep and not choice.m_outer else 1)
        am = c_tile * (self.chunks + p.epilogue_tiles + turned) + slot_bytes(self.kt, self.nt, item) * b_slots
        a = slot_bytes(self.block, 1, item) * self.chunks * (kept if choice.keep and choice.m_outer else 2)
        owners = choice.row_groups * (1 if choice.share == "a" else choice.column_groups)
        # One core beside others cannot know what they keep in GSM.
        pool = 2 * slot_bytes(self.kt, self.nt, item) if choice.share == "b" else 0
        in_gsm = (a * owners + pool <= mc.gsm_bytes) & (choice.row_groups * choice.column_groups > 1 or mc.cores == 1)
        if choice.share == "a":
            space = np.where(in_gsm, 1, 1)
        else:
            space = np.where(a <= mc.sm_bytes, 0, np.where(in_gsm, 1, 2))
        am = am + np.where(space == 2, a, 0)
        rings = np.where(am + c_tile * self.chunks <= mc.am_bytes, 2, 1)
        return space, rings, (am <= mc.am_bytes) & (in_gsm | (choice.share != "a")) & (pool <= mc.gsm_bytes)
