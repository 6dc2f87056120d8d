"""Tilings for symbolic extents: chosen for the size hints, valid for all sizes.

Example: m has the size ``s`` with the hint 100. A tile of 100 rows becomes a tile of ``s`` rows; a
tile of 32 rows stays, and the number of tiles becomes ``ceildiv(s, 32)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.schedule.gemm.synchronous_search import synchronous_schedule
from ftm_backend.midend.schedule.gemm.tiling_problem import OperandTraffic, TileCut, TilingProblem
from ftm_backend.symbolic import SymInt, ceildiv, size_hint
from ftm_backend.target.presets import MachineParameters

__all__ = ["balanced_cut", "dynamic_cut", "dynamic_schedule"]


def dynamic_schedule(problem: TilingProblem, machine: MachineParameters) -> Schedule | None:
    """Return `synchronous_schedule` for the size hints, generalized to all sizes.

    A tile that covers a dimension covers it for every size, and the loop that the cores share is
    split evenly.

    Returns:
        None if no tiles fit the scratchpads.
    """
    found = synchronous_schedule(_with_hints(problem), machine)
    if found is None:
        return None
    m, n, k = map(dynamic_cut, (found.m, found.n, found.k), (problem.m, problem.n, problem.k))
    if found.row_groups > 1:
        m = balanced_cut(m, problem.m, machine.mm_rows, machine.cores)
    elif found.column_groups > 1:
        n = balanced_cut(n, problem.n, machine.mm_columns(problem.accumulator), machine.cores)
    return replace(found, m=m, n=n, k=k)


def _with_hints(problem: TilingProblem) -> TilingProblem:
    batch, m, n, k = (
        tuple(map(size_hint, extents))
        for extents in (problem.batch, problem.m, problem.n, problem.k)
    )
    a, b, c = (_operand(operand) for operand in (problem.a, problem.b, problem.c))
    dynamic_dims = _first_dynamic(problem.m), _first_dynamic(problem.n), _first_dynamic(problem.k)
    return replace(problem, batch=batch, m=m, n=n, k=k, a=a, b=b, c=c, dynamic_dims=dynamic_dims)


def _first_dynamic(extents: Sequence[int]) -> int:
    """Return the first dimension with a symbolic extent; the number of dimensions if none."""
    return next(
        (dim for dim, extent in enumerate(extents) if isinstance(extent, SymInt)), len(extents)
    )


def _operand(operand: OperandTraffic) -> OperandTraffic:
    first, second = operand.runs
    return replace(operand, runs=(size_hint(first), size_hint(second)))


def dynamic_cut(cut: TileCut, extents: Sequence[int]) -> TileCut:
    """Make a cut for the size hints symbolic.

    A tile that covers a dimension covers it for every size.
    """
    extent, inside, outside = cut.around(extents)
    size = extent if cut.size == size_hint(extent) else cut.size
    return TileCut(cut.dim, size, size * inside, outside * ceildiv(extent, size))


def balanced_cut(cut: TileCut, extents: Sequence[int], quantum: int, cores: int) -> TileCut:
    """Balance the tiles of a symbolic dimension among ``cores``.

    Tiles of the size chosen for the hint would leave small sizes to a single core. The tiles are
    at most that large, and each core gets the same number of them.
    """
    extent, inside, outside = cut.around(extents)
    if (
        not isinstance(extent, SymInt)
        or isinstance(cut.size, SymInt)
        or isinstance(outside, SymInt)
        or outside >= cores
    ):
        return cut
    parts = ceildiv(cores, outside)
    unit = quantum if inside == 1 else 1
    size = _positive_ceildiv(extent, parts * ceildiv(extent, parts * cut.size) * unit) * unit
    return TileCut(cut.dim, size, size * inside, outside * _positive_ceildiv(extent, size))


def _positive_ceildiv(extent: int, size: int) -> int:
    """Return ``ceildiv`` of a positive extent, in a form that is visibly at least 1."""
    return 1 + (extent - 1) // size
