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

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product as every
from math import inf, prod

from ftm_backend.machine import rules
from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.panel_cost import CHUNKS, Choice, Grid, Priced, Sampling
from ftm_backend.midend.tiling import Cut, Problem

__all__ = ["PanelPlan", "fitting_plan", "panel_plan"]

COARSE, FINE = (2.2, CHUNKS[::3]), (1.4, CHUNKS)
"""Ratio of the sizes that are tried, one to the next, and chunks of a panel."""
PROMISING = 4
"""Choices whose sizes are tried in full, if they come within ``NEAR`` of the best on a coarse grid."""
NEAR = 1.3
PROBE = 1.2
"""How far above the least computing the sizes are that tell what can be reached."""
SLACK = 1.01
"""How far above the best of a coarse grid that of a fine one is expected at most; if it is not, all of it is priced."""


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
    zip_c: bool = False
    """The halves of C's columns are interleaved as it is turned."""

    @property
    def cores(self) -> int:
        """Cores that have work."""
        return self.row_groups * self.column_groups

    def __str__(self) -> str:
        """One line for people."""
        words = [f"{self.chunks} chunks of {self.m.elements}x{self.n.elements}x{self.k.elements}"]
        words += [f"order {'m,n,k' if self.m_outer else 'n,m,k'}"]
        words += [f"keeps {'A' if self.m_outer else 'B'}"] if self.keep else []
        words += [f"A in {self.a_space.upper()}"] + ["A shared"] * (self.share == "a") + ["A transposed"] * self.trans_a
        words += [f"B {self.b_form}"] if self.b_form != "plain" else []
        words += ["B shared"] * (self.share == "b") + ["C zipped" if self.zip_c else "C turned"] * self.turn_c
        words += [f"{self.c_rings} panels of C", f"cores {self.row_groups}x{self.column_groups}"]
        return f"{', '.join(words)}: {self.cycles:.0f} cycles (compute {self.compute_cycles:.0f}, DMA {self.dma_cycles:.0f})"


def panel_plan(problem: Problem, machine: MachineParameters) -> PanelPlan:
    """The cheapest plan of ``problem``; all extents are at least 1.

    Raises ValueError when no tiles fit the scratchpads.
    """
    found = fitting_plan(problem, machine)
    if found is None:
        raise ValueError(f"no tiles of {problem} fit the scratchpads of machine {machine.name!r}")
    return found


@lru_cache(maxsize=4096)
def fitting_plan(problem: Problem, machine: MachineParameters) -> PanelPlan | None:
    """As ``panel_plan``; None when no tiles fit."""
    for quanta in (True, False):
        found = _search(problem, machine, quanta)
        if found is not None:
            priced, number = found
            return PanelPlan(**priced.plan(number))
    return None


def _search(problem: Problem, machine: MachineParameters, quanta: bool) -> tuple[Priced, int] | None:
    """The cheapest sizes of the best choice, as its number among those that were priced together; None if nothing fits.

    A coarse grid of sizes tells which choices are promising.  Sizes whose computing alone takes longer than a promising choice are not
    priced.
    """
    short = _is_short(problem, machine)
    near = 1.0 if short else NEAR
    grids = [
        Grid(problem, machine, groups, b_form, Sampling(*COARSE, quanta))
        for groups in _grids(problem, machine)
        for b_form in _b_forms(problem)
    ]
    seen: list[tuple[float, int, int, Priced]] = []  # cycles, which of the grids, number of the choice
    least = inf
    for position in sorted(range(len(grids)), key=lambda position: grids[position].least):
        grid = grids[position]
        if grid.least > near * least or grid.least == inf:
            break
        choices = list(_choices(problem, grid.groups))
        if least == inf:
            least = min(grid.price(choices, PROBE * grid.least).best)
        priced = grid.price(choices, near * least)
        seen += [(cycles, position, number, priced) for number, cycles in enumerate(priced.best) if cycles < inf]
        least = min(least, *priced.best)
    if least == inf:
        return None
    seen.sort(key=lambda each: each[:3])
    if short:
        return seen[0][3], seen[0][2]
    promising: dict[int, list[Choice]] = {}
    for cycles, position, number, priced in seen[:PROMISING]:
        if cycles <= NEAR * least:
            promising.setdefault(position, []).append(priced.choices[number])
    best: tuple[float, Priced, int] | None = None
    limit = SLACK * least
    for position, choices in promising.items():
        coarse = grids[position]
        fine = Grid(problem, machine, coarse.groups, coarse.b_form, Sampling(*FINE, quanta))
        priced = fine.price(choices, limit)
        if best is None and min(priced.best) > limit:
            priced = fine.price(choices)
        number = min(range(len(choices)), key=priced.best.__getitem__)
        if best is None or priced.best[number] < best[0]:
            best = priced.best[number], priced, number
            limit = best[0]
    return None if best is None or best[0] == inf else best[1:]


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
    turned: tuple[str, ...] = ("dot", "turned") if along_k > along_n else ()
    if problem.a_windows:
        turned = turned[1:]  # windows are read element by element, as outer products take them
    return turned if turned and along_n == 0 else ("plain", *turned)  # element by element, DMA is slower than any turning


def _choices(problem: Problem, groups: tuple[int, int]) -> Iterator[Choice]:
    steady = not problem.b.batched or prod(problem.batch) == 1
    # Cores that do not share A fetch it once each: only a small one is worth it.
    alone = groups[1] == 1 or prod(problem.m) * groups[1] <= 4 * prod(problem.n)
    shares = ["none"] if alone else []
    shares += ["a"] if groups[1] > 1 else ["b"] if groups[0] > 1 and steady else []
    for share, m_outer, keep in every(shares, (True, False), (True, False)):
        if not keep or (m_outer or (steady and share != "b")):
            yield Choice(share, m_outer, keep)
