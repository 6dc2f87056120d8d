"""Plans contractions for machines whose DMA works beside the core: panels, rings, and who loads
what.

``C[b, m, n] = sum_k A[b, m, k] * B[b, k, n]`` as in ``tiling``. A core keeps a *panel* of C in AM
while it walks all of k: ``chunks`` chunks of rows by one block of columns. In every step it takes
one block of k: it multiplies the panel's chunks of A with one block of B while DMA fetches what the
next step needs. So C moves once, and transfers hide behind products. The plan says
- the cuts of m (a chunk), n and k, how many chunks make a panel, how many slots hold each;
- the grid of cores: ``row_groups`` groups share the row panels of all batch entries, the cores of a
  group share the columns. They may *share* A: each fetches some chunks of the panel into GSM, and
  all read them there;
- the order of the loops, and whether the outer loop's operand stays for all of the inner loop;
- how a B that lies transposed in memory is taken: as dot products, or turned in AM once it has
  arrived; and whether C is turned before it is stored.

What everything costs is asked of ``target.cost_rules``, by which the cycle model charges programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product as every
from math import inf, prod

from ftm_backend.midend.schedule.gemm.candidate_tile_sizes import CandidateSizes
from ftm_backend.midend.schedule.gemm.panel_cost import CHUNKS, PanelChoice, PricedPlan, price
from ftm_backend.midend.schedule.gemm.panel_search_space import CERTAIN, PanelSearchSpace
from ftm_backend.midend.schedule.gemm.split_k_plan import split_plan
from ftm_backend.midend.schedule.gemm.tiling import TileCut, TilingProblem
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["PanelSchedule", "cheapest", "fitting_plan", "lower_bound", "panel_plan"]

COARSE, FINE, FINEST = (2.2, CHUNKS[::3]), (1.4, CHUNKS), (1.25, CHUNKS)
"""Ratio of the sizes that are tried, one to the next, and chunks of a panel."""
LONGEST = 4_000_000
"""Cycles from which on more of the choices are tried: what searching takes is nothing beside
them."""
LONG = 400_000
"""Cycles from which on the finest sizes are tried: what they gain in less is not above what plans
and charges differ by."""
PROMISING = 4
"""Choices whose sizes are tried in full, if they come within ``NEAR`` of the best on a coarse grid,
or ``NEAR_OF_LONGEST``."""
NEAR, NEAR_OF_LONGEST = 1.1, 1.2
PROBE = 1.2
"""How far above the least computing the sizes are that tell what can be reached."""
SLACK = 1.01
"""How far above the best of a coarse grid that of a fine one is expected at most; if it is not, all
of it is priced."""

SURE, SURE_LONG = 0.88, 0.97
"""Part of a plan's time that one whose sum is cut must stay below, as plans and charges differ: the
more so, the less time they take."""


@dataclass(frozen=True)
class PanelSchedule:
    """A plan and what it should cost the busiest core, in modelled cycles."""

    m: TileCut
    n: TileCut
    k: TileCut
    chunks: int
    panels: int
    """Row panels of one batch entry."""
    row_groups: int
    column_groups: int
    share: str
    """What goes through GSM and is fetched once for several cores: ``none``; ``a``, by the cores of
    a group; ``b``, by all, which must be one group each."""
    m_outer: bool
    keep: bool
    """The outer loop's operand keeps all of its blocks of k through the inner loop."""
    a_space: str
    trans_a: bool
    b_form: str
    """``plain``, ``dot`` (B is held as n x k and read so) or ``turned`` (it arrives as n x k and is
    transposed)."""
    turn_c: bool
    c_rings: int
    """Panels of C that there is room for: with 2 the next one starts while this one is stored."""
    cycles: float
    compute_cycles: float
    dma_cycles: float
    zip_c: bool = False
    """The halves of C's columns are interleaved as it is turned."""
    fold_c: bool = False
    """In place of being turned, C's windows are summed at the places that they see."""
    piecewise: bool = False
    """Blocks of a shared B wait as they lie in memory, n's outer dimension x (k x its inner
    one)."""
    late: int = 0
    """So many chunks of a panel are finished and stored in each step of the next one, as its
    transfers are: no barrier waits for all of them. 0: behind the products of each."""
    pooled: bool = False
    """All of B waits in GSM: cores fetch some of its blocks each, before the first step unless it
    ``fills_late``."""
    k_groups: int = 1
    """Parts of k: so many cores work on each panel of C, and add up their parts of it in GSM."""

    @property
    def fills_late(self) -> bool:
        """Whether blocks of a B that all cores find in GSM arrive beside the steps of the first
        panel, which end at barriers anyway."""
        return self.pooled and self.keep and not self.m_outer and self.share == "a"

    @property
    def cores(self) -> int:
        """Cores that have work."""
        return self.row_groups * self.column_groups * self.k_groups

    def __str__(self) -> str:
        """One line for people."""
        words = [f"{self.chunks} chunks of {self.m.elements}x{self.n.elements}x{self.k.elements}"]
        words += [f"order {'m,n,k' if self.m_outer else 'n,m,k'}"]
        words += [f"keeps {'A' if self.m_outer else 'B'}"] if self.keep else []
        words += (
            [f"A in {self.a_space.upper()}"]
            + ["A shared"] * (self.share == "a")
            + ["A transposed"] * self.trans_a
        )
        words += [f"B {self.b_form}"] if self.b_form != "plain" else []
        words += ["B pooled" + " piecewise" * self.piecewise] * self.pooled
        words += ["B shared" + " piecewise" * self.piecewise] * (self.share == "b") + [
            "C folded" if self.fold_c else "C zipped" if self.zip_c else "C turned"
        ] * self.turn_c
        words += [f"C late, {self.late} a step"] * (self.late > 0)
        words += [
            f"{self.c_rings} panels of C",
            f"cores {self.row_groups}x{self.column_groups}"
            + f"x{self.k_groups}" * (self.k_groups > 1),
        ]
        return f"{', '.join(words)}: {self.cycles:.0f} cycles (compute {self.compute_cycles:.0f}, DMA {self.dma_cycles:.0f})"


def panel_plan(problem: TilingProblem, machine: MachineParameters) -> PanelSchedule:
    """The cheapest plan of ``problem``; all extents are at least 1.

    Raises ValueError when no tiles fit the scratchpads.
    """
    found = fitting_plan(problem, machine)
    if found is None:
        raise ValueError(f"no tiles of {problem} fit the scratchpads of machine {machine.name!r}")
    return found


def cheapest(
    problems: Sequence[TilingProblem], machine: MachineParameters
) -> tuple[int, PanelSchedule]:
    """The number of the problem that has the cheapest plan, the first of them, and the plan.

    Those whose lower bounds are above another one's plan are not searched. Raises ValueError when
    no tiles fit the scratchpads.
    """
    if len(problems) == 1:
        return 0, panel_plan(problems[0], machine)
    low = [lower_bound(problem, machine) for problem in problems]
    best: tuple[float, int, PanelSchedule] | None = None
    for number in sorted(range(len(problems)), key=low.__getitem__):
        if best is None or low[number] <= best[0]:
            plan = panel_plan(problems[number], machine)
            if best is None or (plan.cycles, number) < best[:2]:
                best = plan.cycles, number, plan
    assert best is not None, "there is a problem"
    return best[1:]


@lru_cache(maxsize=4096)
def lower_bound(problem: TilingProblem, machine: MachineParameters) -> float:
    """Cycles that no plan is below: all cores compute at peak, the engines take elements one by one
    where no side of an operand lies along memory, and DDR moves what each transfer takes of its
    granules; A, B and C move once.
    """
    if _is_short(problem, machine):  # only sizes of the coarse grids are tried
        least = min(grid.least for grid in _coarse(problem, machine, True))
        if least < inf:
            return least
    batch, m, n, k = (prod(extents) for extents in (problem.batch, problem.m, problem.n, problem.k))
    computing = batch * m * n * k / (machine.fma_units * machine.lanes(problem.accumulator))
    elements, moved = 0.0, 0.0
    for operand, count in (
        (problem.a, 0 if problem.a_windows else batch * m * k),
        (problem.b, n * k),
        (problem.c, batch * m * n),
    ):
        item, run = ELEMENT_BYTES[operand.dtype], max(operand.runs)
        if run == 0:
            elements += count * machine.dma_element_cycles
        longest = count if any(operand.whole) else run or max(operand.beside, 1)
        moved += count * max(item, machine.dma_granule / max(longest, 1))
    rate = cost_rules.bytes_per_cycle(machine, machine.cores) * machine.cores
    return CERTAIN * max(computing / machine.cores, elements / machine.cores, moved / rate)


@lru_cache(maxsize=4096)
def fitting_plan(problem: TilingProblem, machine: MachineParameters) -> PanelSchedule | None:
    """As ``panel_plan``; None when no tiles fit."""
    short = _is_short(problem, machine)
    for quanta in (True, False):
        found = _search(problem, machine, quanta)
        if found is not None:
            priced, number = found
            whole = PanelSchedule(**priced.plan(number))
            split = (
                None
                if short
                else split_plan(
                    problem, machine, (SURE_LONG if whole.cycles > LONG else SURE) * whole.cycles
                )
            )
            return whole if split is None else PanelSchedule(**split)
    return None


def _search(
    problem: TilingProblem, machine: MachineParameters, quanta: bool
) -> tuple[PricedPlan, int] | None:
    """The cheapest sizes of the best choice, as its number among those that were priced together;
    None if nothing fits.

    A coarse grid of sizes tells which choices are promising. Sizes whose computing alone takes
    longer than a promising choice are not priced.
    """
    short = _is_short(problem, machine)

    def near() -> float:
        return 1.0 if short else NEAR if least < LONGEST else NEAR_OF_LONGEST

    grids = _coarse(problem, machine, quanta)
    # cycles, which of the grids, number of the choice
    seen: list[tuple[float, int, int, PricedPlan]] = []
    least = inf
    for position in sorted(range(len(grids)), key=lambda position: grids[position].least):
        grid = grids[position]
        if grid.least > near() * least or grid.least == inf:
            break
        choices, priced = list(_choices(problem, grid.groups)), None
        if least == inf:
            priced = price(grid, choices, PROBE * grid.least)
            least = min(priced.best)
        if priced is None or near() * least > PROBE * grid.least:
            priced = price(grid, choices, near() * least)
        seen += [
            (cycles, position, number, priced)
            for number, cycles in enumerate(priced.best)
            if cycles < inf
        ]
        least = min(least, *priced.best)
    if least == inf:
        return None
    seen.sort(key=lambda each: each[:3])
    if short:
        return seen[0][3], seen[0][2]
    promising: dict[int, list[PanelChoice]] = {}
    for cycles, position, number, priced in seen[:PROMISING]:
        if cycles <= near() * least:
            promising.setdefault(position, []).append(priced.choices[number])
    best: tuple[float, PricedPlan, int] | None = None
    limit = SLACK * least
    for position, choices in promising.items():
        coarse = grids[position]
        fine = PanelSearchSpace(
            problem,
            machine,
            coarse.groups,
            coarse.b_form,
            CandidateSizes(*(FINEST if least > LONG else FINE), quanta),
        )
        priced = price(fine, choices, limit)
        if best is None and min(priced.best) > limit:
            priced = price(fine, choices)
        number = min(range(len(choices)), key=priced.best.__getitem__)
        if best is None or priced.best[number] < best[0]:
            best = priced.best[number], priced, number
            limit = best[0]
    return None if best is None or best[0] == inf else best[1:]


@lru_cache(maxsize=4)
def _coarse(
    problem: TilingProblem, machine: MachineParameters, quanta: bool
) -> list[PanelSearchSpace]:
    """A coarse grid of sizes for each grid of cores and each form of B."""
    sampling = CandidateSizes(*COARSE, quanta)
    return [
        PanelSearchSpace(problem, machine, groups, b_form, sampling)
        for groups in _grids(problem, machine)
        for b_form in _b_forms(problem)
    ]


def _grids(problem: TilingProblem, machine: MachineParameters) -> list[tuple[int, int]]:
    """Grids of cores worth trying: all cores, and one alone where the work is over before others
    could help."""
    cores = machine.cores
    rows = prod(problem.batch) * cost_rules.pieces(prod(problem.m), machine.mm_rows)
    columns = cost_rules.pieces(prod(problem.n), cost_rules.DOT_COLUMNS)
    found = [
        (g, cores // g)
        for g in range(1, cores + 1)
        if cores % g == 0 and g < 2 * rows and cores // g < 2 * columns
    ]
    if _is_short(problem, machine):
        found = [(1, 1), *(groups for groups in found if 1 in groups)]
    return sorted({*found} or {(1, 1)})


def _is_short(problem: TilingProblem, machine: MachineParameters) -> bool:
    """Whether one core at peak is done before barriers and latencies are forgotten."""
    products = prod(problem.batch) * prod(problem.m) * prod(problem.n) * prod(problem.k)
    return (
        products / (machine.fma_units * machine.lanes(problem.accumulator))
        < 100 * machine.barrier_cycles * machine.cores
    )


def _b_forms(problem: TilingProblem) -> tuple[str, ...]:
    along_n, along_k = problem.b.runs[1], problem.b.runs[0]
    turned: tuple[str, ...] = ("dot", "turned") if along_k > along_n else ()
    if problem.a_windows:
        turned = turned[1:]  # windows are read element by element, as outer products take them
    # element by element, DMA is slower than any turning
    return turned if turned and along_n == 0 else ("plain", *turned)


def _choices(problem: TilingProblem, groups: tuple[int, int]) -> Iterator[PanelChoice]:
    steady = not problem.b.batched or prod(problem.batch) == 1
    # Cores that do not share A fetch it once each: only a small one is worth it.
    alone = (
        groups[1] == 1 or prod(problem.m) * groups[1] <= 4 * prod(problem.n) or problem.a_tiles > 0
    )
    shares = ["none"] if alone else []
    if groups[1] > 1 and not problem.a_tiles:
        shares.append("a")
    # cores of one group would have blocks of their own to share
    if groups[1] == 1 and groups[0] > 1 and steady and not problem.b_tiles:
        shares.append("b")
    for share, m_outer, keep in every(shares, (True, False), (True, False)):
        if not keep or (m_outer or (steady and share != "b")):
            yield PanelChoice(share, m_outer, keep, False)
        if keep and steady and share != "b" and groups[0] > 1 and not problem.b_tiles:
            yield PanelChoice(share, m_outer, keep, True)
