"""Schedules of depth 2, for machines whose DMA overlaps compute: the cheapest panels of C.

A core keeps a panel of C in AM while it iterates over all of k. So C moves once, and transfers
hide behind products. The schedule has

- the cuts of m (a chunk), n and k, the number of chunks of a panel, and the buffers of each;
- the grid of cores: ``row_groups`` groups share the row panels of all batch entries; the cores of a
  group share the columns. They may *share* A: each loads some chunks of the panel into GSM, and all
  read them there;
- the loop order, and whether the outer loop's operand stays resident through the inner loop;
- how a transposed B is read: as dot products, or transposed in AM after it was loaded;
- whether C is transposed before it is stored;
- the number of parts of k (split-k). Each part is planned as a further batch entry. Example: a
  product of 64 x 64 x 100000 has too few panels for 8 cores; with 8 parts of k it has enough.

Costs come from ``target.cost_rules``, which the cycle model uses, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product as every
from math import inf, prod

from ftm_backend.midend.schedule.gemm.candidate_tile_sizes import CandidateSizes
from ftm_backend.midend.schedule.gemm.panel_choice import PanelChoice
from ftm_backend.midend.schedule.gemm.panel_cost import CHUNKS, PricedPlan, price
from ftm_backend.midend.schedule.gemm.panel_search_space import CERTAIN, PanelSearchSpace
from ftm_backend.midend.schedule.gemm.schedule import BLayout, Schedule, Share
from ftm_backend.midend.schedule.gemm.tiling_problem import TilingProblem
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["lower_bound", "panel_schedule"]

COARSE, FINE, FINEST = (2.2, CHUNKS[::3]), (1.4, CHUNKS), (1.25, CHUNKS)
"""Densities of the search: ratio of one size to the next, and numbers of chunks of a panel."""
LONGEST = 4_000_000
"""Plans that take at least so many cycles search more choices: search time is negligible then."""
LONG = 400_000
"""Plans that take at least so many cycles search the finest sizes. Below, the gain is within the
model's error."""
PROMISING = 4
"""Choices that are searched with fine sizes: those within ``NEAR`` of the best coarse plan
(``NEAR_OF_LONGEST`` from ``LONGEST`` cycles on)."""
NEAR, NEAR_OF_LONGEST = 1.1, 1.2
PROBE = 1.2
"""The first probe prices sizes whose lower bound is within this ratio of the least."""
SLACK = 1.01
"""Expected ratio of the best fine plan to the best coarse one. If the best fine plan exceeds it,
all fine sizes are priced."""

DEEP = 4
"""Elements of C for each term of its sums, up to which splitting short sums can pay."""
FULL = 0.97
"""Splitting k cannot pay if compute at peak takes this part of the time that it must stay below."""
SHORTEST_SPLIT = 100
"""Barriers that take as long as the shortest plan that splitting k can improve."""
SPLIT_K_MARGIN, SPLIT_K_MARGIN_LONG = 0.92, 0.97
"""A split-k plan must take less than this part of the best plan's time, because of the model's
error. Short plans need the larger margin."""


@lru_cache(maxsize=4096)
def lower_bound(problem: TilingProblem, machine: MachineParameters) -> float:
    """Return a lower bound of the cycles of all plans.

    All cores compute at peak. DMA transfers single elements where an operand has no contiguous
    group. DDR moves whole granules. A, B and C move once.
    """
    if _is_short(problem, machine) and not _may_split(problem, machine, inf):
        # The search is limited to the coarse grids.
        least = min(grid.least_cycles for grid in _coarse(problem, machine, True))
        if least < inf:
            return least
    batch, m, n, k = (prod(extents) for extents in (problem.batch, problem.m, problem.n, problem.k))
    computing = batch * m * n * k / _peak(problem, machine)
    elements, moved = 0.0, 0.0
    for operand, count in (
        (problem.a, 0 if problem.a_windows else batch * m * k),
        (problem.b, n * k),
        (problem.c, batch * m * n),
    ):
        item, run = ELEMENT_BYTES[operand.dtype], max(operand.runs)
        if run == 0:
            elements += count * machine.dma_element_cycles
        longest = count if any(operand.coalesces) else run or max(operand.adjacent, 1)
        moved += count * max(item, machine.dma_granule / max(longest, 1))
    rate = cost_rules.bytes_per_cycle(machine, machine.cores) * machine.cores
    return CERTAIN * max(computing / machine.cores, elements / machine.cores, moved / rate)


@lru_cache(maxsize=4096)
def panel_schedule(problem: TilingProblem, machine: MachineParameters) -> Schedule | None:
    """Return the cheapest schedule of ``problem``, whose extents are all at least 1.

    None if no tiles fit the scratchpads.
    """
    whole = _search(problem, machine, True) or _search(problem, machine, False)
    if whole is None:
        return None
    margin = SPLIT_K_MARGIN_LONG if whole.cycles > LONG else SPLIT_K_MARGIN
    return _split(problem, machine, margin * whole.cycles) or whole


def _split(problem: TilingProblem, machine: MachineParameters, limit: float) -> Schedule | None:
    """Return the cheapest schedule that splits k and takes fewer than ``limit`` cycles, if any."""
    if not _may_split(problem, machine, limit):
        return None
    best = None
    for parts in range(machine.cores, 1, -1):
        if machine.cores % parts == 0:
            found = _search(replace(problem, k_groups=parts), machine, True, limit)
            if found is not None and found.cycles < limit:
                best, limit = found, found.cycles
    return best


def _may_split(problem: TilingProblem, machine: MachineParameters, limit: float) -> bool:
    """Whether k can be split, and this may save more time than the search takes.

    It saves nothing if compute at peak takes most of the ``limit``. For a short problem it saves
    less than the search takes, unless k is long and C small.
    """
    if not problem.can_split_k or problem.col2im is not None:
        return False
    c, k = prod(problem.m) * prod(problem.n), prod(problem.k)
    peak = prod(problem.batch) * c * k / _peak(problem, machine) / machine.cores
    if peak > FULL * limit or not _is_short(problem, machine):
        return peak <= FULL * limit
    return DEEP * k >= c and limit > SHORTEST_SPLIT * machine.barrier_cycles


def _search(
    problem: TilingProblem, machine: MachineParameters, quanta: bool, least: float = inf
) -> Schedule | None:
    """Search for the cheapest sizes of the best choice.

    A coarse grid of sizes selects the promising choices. Fine sizes whose compute alone exceeds a
    promising plan are not priced.

    Args:
        problem: The contraction.
        machine: The target.
        quanta: Whether sizes are multiples of the micro-kernel's.
        least: Cycles of the best schedule so far.

    Returns:
        The schedule; None if nothing fits, or all coarse sizes take longer than ``least``.
    """
    grids = _coarse(problem, machine, quanta)
    coarse_plans, least = _search_coarsely(problem, machine, grids, least)
    if not coarse_plans:
        return None
    coarse_plans.sort(key=lambda each: each[:3])
    if _is_short(problem, machine):
        return coarse_plans[0][3].schedule(coarse_plans[0][2])
    promising: dict[int, list[PanelChoice]] = {}
    for cycles, position, number, priced in coarse_plans[:PROMISING]:
        if cycles <= _limit(least, False):
            promising.setdefault(position, []).append(priced.choices[number])
    return _search_finely(problem, machine, quanta, grids, promising, least)


def _limit(least: float, strict: bool) -> float:
    """Return the cycles up to which coarse plans are promising, if the best one takes ``least``.

    ``strict``: fine sizes are not searched, or hardly better.
    """
    if strict:
        return least
    return least * (NEAR if least < LONGEST else NEAR_OF_LONGEST)


def _search_coarsely(
    problem: TilingProblem,
    machine: MachineParameters,
    grids: Sequence[PanelSearchSpace],
    least: float,
) -> tuple[list[tuple[float, int, int, PricedPlan]], float]:
    """Price the coarse grids that may have a promising plan.

    Args:
        problem: The contraction.
        machine: The target.
        grids: The coarse grids.
        least: Cycles of the best schedule so far.

    Returns:
        For each plan its cycles, the index of its grid, the index of its choice, and the priced
        plans that it is one of; and the least cycles.
    """
    by_cycles = sorted(range(len(grids)), key=lambda at: grids[at].least_cycles)
    # Coarse sizes of k that is split are dense: fine ones are hardly better.
    strict = _is_short(problem, machine) or problem.k_groups > 1
    found: list[tuple[float, int, int, PricedPlan]] = []
    for position in by_cycles:
        grid = grids[position]
        limit = _limit(least, strict)
        if grid.least_cycles > limit or grid.least_cycles == inf:
            break
        choices, priced = list(_choices(problem, grid.groups)), None
        if least == inf:
            priced = price(grid, choices, PROBE * grid.least_cycles)
            least = min(priced.best)
            limit = _limit(least, strict)
        if priced is None or limit > PROBE * grid.least_cycles:
            priced = price(grid, choices, limit)
        plans = enumerate(priced.best)
        found += [(cycles, position, number, priced) for number, cycles in plans if cycles < inf]
        least = min(least, *priced.best)
    return found, least


def _search_finely(
    problem: TilingProblem,
    machine: MachineParameters,
    quanta: bool,
    grids: Sequence[PanelSearchSpace],
    promising: dict[int, list[PanelChoice]],
    least: float,
) -> Schedule | None:
    """Search fine sizes of the promising choices of each grid.

    Args:
        problem: The contraction.
        machine: The target.
        quanta: Whether sizes are multiples of the micro-kernel's.
        grids: The coarse grids.
        promising: Number of a grid to its choices.
        least: Cycles of the best coarse plan.
    """
    best: tuple[float, PricedPlan, int] | None = None
    limit = SLACK * least
    for position, choices in promising.items():
        coarse = grids[position]
        fine = PanelSearchSpace(
            problem,
            machine,
            coarse.groups,
            coarse.b_layout,
            CandidateSizes(*(FINEST if least > LONG else FINE), quanta),
        )
        priced = price(fine, choices, limit)
        if best is None and min(priced.best) > limit:
            priced = price(fine, choices)
        number = min(range(len(choices)), key=priced.best.__getitem__)
        if best is None or priced.best[number] < best[0]:
            best = priced.best[number], priced, number
            limit = best[0]
    return None if best is None or best[0] == inf else best[1].schedule(best[2])


@lru_cache(maxsize=4)
def _coarse(
    problem: TilingProblem, machine: MachineParameters, quanta: bool
) -> list[PanelSearchSpace]:
    """Return a coarse grid of sizes for each grid of cores and each layout of B."""
    sampling = CandidateSizes(*COARSE, quanta)
    return [
        PanelSearchSpace(problem, machine, groups, b_layout, sampling)
        for groups in _grids(problem, machine)
        for b_layout in _b_forms(problem)
    ]


def _grids(problem: TilingProblem, machine: MachineParameters) -> list[tuple[int, int]]:
    """Return the candidate grids of cores: all cores, and a single one for short problems.

    Parts of k belong to different cores: a core with two of them would have one longer part.
    """
    cores, parts = machine.cores, problem.k_groups
    rows = problem.entries * cost_rules.pieces(prod(problem.m), machine.mm_rows)
    columns = cost_rules.pieces(prod(problem.n), cost_rules.DOT_COLUMNS)
    found = [
        (g, cores // g)
        for g in range(1, cores + 1)
        if cores % g == 0 and g % parts == 0 and g < 2 * rows and cores // g < 2 * columns
    ]
    if _is_short(problem, machine):
        found = [(1, 1)] * (parts == 1) + [groups for groups in found if 1 in groups]
    return sorted({*found} or ({(1, 1)} if parts == 1 else ()))


def _is_short(problem: TilingProblem, machine: MachineParameters) -> bool:
    """Whether one core at peak takes less time than barriers and latencies matter."""
    products = prod(problem.batch) * prod(problem.m) * prod(problem.n) * prod(problem.k)
    return products / _peak(problem, machine) < 100 * machine.barrier_cycles * machine.cores


def _peak(problem: TilingProblem, machine: MachineParameters) -> int:
    """Return the multiplications of a core in a cycle."""
    return machine.fma_units * machine.lanes(problem.accumulator)


def _b_forms(problem: TilingProblem) -> tuple[BLayout, ...]:
    along_n, along_k = problem.b.runs[1], problem.b.runs[0]
    transposed: tuple[BLayout, ...] = ("dot", "transposed") if along_k > along_n else ()
    if problem.a_windows:
        transposed = transposed[1:]  # only outer products read windows
    # A transposition is faster than DMA of single elements.
    return transposed if transposed and along_n == 0 else ("plain", *transposed)


def _choices(problem: TilingProblem, groups: tuple[int, int]) -> Iterator[PanelChoice]:
    b_is_constant = problem.b_is_constant
    shares = _shares(problem, groups)
    has_b_alone = b_is_constant and groups[0] > 1 and not problem.b_prologue.tiles
    for share, m_outer in every(shares, (True, False)):
        if m_outer or (b_is_constant and share != "b"):
            yield PanelChoice(share, m_outer, True, False)
        if share != "b" and has_b_alone:
            yield PanelChoice(share, m_outer, True, True)
        yield PanelChoice(share, m_outer, False, False)


def _shares(problem: TilingProblem, groups: tuple[int, int]) -> list[Share]:
    """Return the operands that cores may share (`Schedule.share`)."""
    # Cores that do not share A each load it: this can only pay for a small A.
    alone = (
        groups[1] == 1
        or prod(problem.m) * groups[1] <= 4 * prod(problem.n)
        or problem.a_prologue.tiles > 0
    )
    shares: list[Share] = ["none"] if alone else []
    if groups[1] > 1 and not problem.a_prologue.tiles:
        shares.append("a")
    # B is shared by all cores: with several columns, cores would have different blocks of it.
    has_b_alone = problem.b_is_constant and not problem.b_prologue.tiles
    if groups[1] == 1 and groups[0] > 1 and has_b_alone:
        shares.append("b")
    return shares
