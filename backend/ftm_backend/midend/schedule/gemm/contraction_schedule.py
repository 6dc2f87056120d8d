"""Schedule of a contraction kernel: which operand is A, and how its axes are tiled and ordered.

Both assignments are tried: ``C = A . B``, and its transpose ``C^T = B^T . A^T``. They differ in
cost, because the matrix unit and DMA favour operands that are contiguous along a tile's rows.
``tiling`` models machines whose cores do their own transfers, ``panel_schedule`` those whose DMA
overlaps compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Operand, Statement
from ftm_backend.midend.analysis.body_cost import interval
from ftm_backend.midend.lowering.gemm.epilogue import Epilogue, build_epilogue, epilogue_fields
from ftm_backend.midend.lowering.gemm.im2col_operand import (
    WindowSide,
    box_strides,
    overread_limit,
    windows,
)
from ftm_backend.midend.lowering.gemm.prologue import OperandPrologue, match_prologue
from ftm_backend.midend.schedule.gemm.col2im_geometry import Col2Im
from ftm_backend.midend.schedule.gemm.contraction import (
    Contraction,
    ContractionForm,
    axes_of,
    match,
    volume,
)
from ftm_backend.midend.schedule.gemm.dynamic_tiling import dynamic_plan
from ftm_backend.midend.schedule.gemm.panel_schedule import (
    PanelSchedule,
    cheapest,
    fitting_plan,
    lower_bound,
)
from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.schedule.gemm.tiling import GemmTiling, TilingProblem
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = [
    "OperandRoles",
    "cycles_lower_bound",
    "roles",
    "schedule",
    "schedule_with_prologue",
    "windows_of",
    "with_schedule",
]

Roles = tuple[ContractionForm, Operand, Operand]
"""The canonical form of a contraction, and the operands in the roles of A and B."""

MAX_UNUSED_COLUMNS = 0.1
"""Fraction of the micro-kernel's columns that may be unused while n still counts as filling it."""
MOST_INTERLEAVED = 1024
"""Most columns of a block with interleaved halves: a block holds all columns of C."""
GAP_DIVISOR = 4
"""Gaps up to a granule divided by this are loaded together with the elements around them."""


@dataclass(frozen=True, eq=False)
class OperandRoles:
    """The schedule of a contraction kernel. Accesses are functions of ``form``'s axes.

    ``a`` and ``b`` are the operands in their chosen roles. ``plan`` is None if the result is empty.
    """

    contraction: Contraction
    epilogue: Epilogue
    form: ContractionForm
    a: Operand
    b: Operand
    plan: GemmTiling | PanelSchedule | None
    swapped: bool = False
    """Whether A is the second operand, so that C is computed transposed."""
    windows: tuple[WindowSide, ...] = ()
    """Window box of A if its rows overlap in memory; see ``im2col_operand.windows``."""
    col2im: Col2Im | None = None
    """How C's windows are summed before it is stored; see ``lowering.gemm.col2im``."""
    prologue: OperandPrologue | None = None
    """The fused prologue: computes A if A has ``windows``, else B."""
    sums: tuple[Statement, ...] = ()
    """Partial sums of the stored block; see ``reduction_epilogue``."""

    def access(self, index: Affine) -> Affine:
        """Return an access of the epilogue as a function of the axes instead of the loops."""
        return self._over_axes[index]

    @property
    def _over_axes(self) -> dict[Affine, Affine]:
        return dict(
            zip(
                _others(self.contraction, self.epilogue, self.prologue),
                self.form.accesses[3:],
                strict=True,
            )
        )


def _others(
    contraction: Contraction, epilogue: Epilogue, prologue: OperandPrologue | None = None
) -> list[Affine]:
    """Return the accesses other than those of A, B and C, without duplicates."""
    init = contraction.statement.results[0].init
    found = [init.index] if isinstance(init, Operand) else []
    found += [store.index for output in epilogue.outputs for store in output.stores]
    found += [operand.index for operand in epilogue.operands]
    found += epilogue.positions
    found += [operand.index for operand in prologue.operands] if prologue is not None else []
    return list(dict.fromkeys(found))


def schedule(
    statements: Sequence[Statement], machine: MachineParameters, sums: int = 0
) -> OperandRoles:
    """Return the cheapest schedule of a contraction and its fused epilogue.

    Args:
        statements: The contraction, then elementwise statements.
        machine: The target.
        sums: Number of fused sums of each row of a block.

    Raises:
        ValueError: The first statement is not a contraction, or another one cannot be fused.
    """
    contraction, epilogue, direct, swapped = roles(statements, machine)
    form = direct[0]
    empty = any(volume(form, group) == 0 for group in (form.batch, form.m, form.n))
    if empty:
        return OperandRoles(contraction, epilogue, *direct, plan=None)
    interleaved = _interleaved(contraction, epilogue, [direct, swapped], machine)
    if interleaved is not None:
        return interleaved
    if machine.uses_panels and volume(form, form.k) != 0:
        problems = _problems(contraction, epilogue, (direct, swapped), machine, sums)
        number, panels = cheapest(problems, machine)
        return OperandRoles(
            contraction,
            epilogue,
            *(direct, swapped)[number],
            plan=panels,
            swapped=number == 1,
            windows=problems[number].a_windows,
        )
    plans = [
        (
            dynamic_plan(_problem(contraction, epilogue, *assignment[:2], machine), machine),
            assignment,
        )
        for assignment in (direct, swapped)
    ]
    best, assignment = min(plans, key=lambda p: p[0].cycles)
    return OperandRoles(
        contraction, epilogue, *assignment, plan=best, swapped=assignment is swapped
    )


def with_schedule(
    statements: Sequence[Statement], machine: MachineParameters, chosen: Schedule
) -> OperandRoles:
    """Return the roles of a contraction's operands under a given schedule.

    Raises:
        ValueError: The first statement is not a contraction, or another one cannot be fused.
    """
    contraction, epilogue, *both = roles(statements, machine)
    form, a, b = both[chosen.swapped]
    if isinstance(chosen.plan, PanelSchedule) and chosen.plan.interleave_c:
        form = form.with_interleaved_columns()
    return OperandRoles(
        contraction,
        epilogue,
        form,
        a,
        b,
        plan=chosen.plan,
        swapped=chosen.swapped,
        windows=windows_of(form, a, machine) if machine.uses_panels else (),
    )


def schedule_with_prologue(
    statements: Sequence[Statement], producers: Sequence[Statement], machine: MachineParameters
) -> OperandRoles | None:
    """Return the cheapest panel schedule that computes an operand in a fused prologue.

    Args:
        statements: The contraction, then elementwise statements.
        producers: The statements that produce the operand.
        machine: The target.

    Returns:
        The schedule, or None if there is none.
    """
    contraction = match(statements[0])
    prologue = match_prologue(producers, contraction) if contraction is not None else None
    if contraction is None or prologue is None:
        return None
    epilogue = build_epilogue(contraction, statements[1:])
    form = axes_of(contraction, _others(contraction, epilogue, prologue), window_boxes=True)
    if (
        epilogue.positions
        or form.interleaved_axis is not None
        or any(volume(form, g) == 0 for g in (form.batch, form.m, form.n, form.k))
    ):
        return None
    both: list[Roles] = [
        (form, contraction.a, contraction.b),
        (form.swapped(), contraction.b, contraction.a),
    ]
    first, second = both if prologue.operand is contraction.a else both[::-1]
    window_boxes = windows_of(first[0], first[1], machine, alone=True)
    can_prologue_a = bool(window_boxes) and all(
        box_strides(window_boxes, (*first[0].m, *first[0].k), first[0].accesses[k])
        for k in _accesses(contraction, epilogue, prologue)
    )
    found: list[tuple[PanelSchedule, TilingProblem, Roles]] = []
    for assignment in [first] * can_prologue_a + [second] * prologue.supports_blocks:
        problem = _problem(contraction, epilogue, *assignment[:2], machine, prologue=prologue)
        plan = fitting_plan(problem, machine)
        found += [(plan, problem, assignment)] if plan is not None else []
    if not found:
        return None
    plan, problem, assignment = min(found, key=lambda each: each[0].cycles)
    return OperandRoles(
        contraction, epilogue, *assignment, plan=plan, windows=problem.a_windows, prologue=prologue
    )


def _prologue_fields(
    prologue: OperandPrologue, side: str, machine: MachineParameters
) -> dict[str, Any]:
    """Return the prologue's fields of a ``TilingProblem``."""
    return {
        f"{side}_prologue_tiles": len(prologue.elementwise),
        f"{side}_broadcasts": len(prologue.operands) - len(prologue.elementwise),
        f"{side}_prologue_interval": interval(
            machine, [prologue.element], len(prologue.operands) + 1
        ),
    }


def _accesses(contraction: Contraction, epilogue: Epilogue, prologue: OperandPrologue) -> list[int]:
    """Return the positions of the prologue's operands in the form's accesses."""
    others = _others(contraction, epilogue, prologue)
    return [3 + others.index(operand.index) for operand in prologue.operands]


def cycles_lower_bound(statements: Sequence[Statement], machine: MachineParameters) -> float:
    """Return a lower bound of the cycles of all panel schedules; 0 for other kinds of schedule."""
    contraction, epilogue, direct, swapped = roles(statements, machine)
    form = direct[0]
    if form.interleaved_axis is not None or any(
        volume(form, g) == 0 for g in (form.batch, form.m, form.n, form.k)
    ):
        return 0.0
    return min(
        lower_bound(problem, machine)
        for problem in _problems(contraction, epilogue, (direct, swapped), machine)
    )


def roles(
    statements: Sequence[Statement], machine: MachineParameters
) -> tuple[Contraction, Epilogue, Roles, Roles]:
    """Return the contraction, its epilogue, and both assignments of its operands to A and B."""
    contraction = match(statements[0])
    if contraction is None:
        raise ValueError(
            f"{statements[0].op} over {statements[0].loops} is not a contraction of the matrix unit"
        )
    epilogue = build_epilogue(contraction, statements[1:])
    form = axes_of(contraction, _others(contraction, epilogue), window_boxes=machine.uses_panels)
    if epilogue.positions:
        form = _single_axes(form)
    return (
        contraction,
        epilogue,
        (form, contraction.a, contraction.b),
        (form.swapped(), contraction.b, contraction.a),
    )


def _problems(
    contraction: Contraction,
    epilogue: Epilogue,
    both: Sequence[Roles],
    machine: MachineParameters,
    sums: int = 0,
) -> list[TilingProblem]:
    """Return the panel problems worth planning.

    The operands are exchanged only if they do not already lie along n.
    """
    (form, a, b), (swapped, *_) = both
    found = [_problem(contraction, epilogue, form, a, machine, sums=sums)]
    if not _is_well_laid_out(found[0], machine) or windows_of(swapped, b, machine):
        found.append(_problem(contraction, epilogue, swapped, b, machine, sums=sums))
    return found


def _single_axes(form: ContractionForm) -> ContractionForm:
    """Keep only the innermost axis in m and n; move the others to batch.

    A map body's index is linear in the tile's row and column, so a tile may not span two axes.
    """
    return replace(form, batch=form.batch + form.m[:-1] + form.n[:-1], m=form.m[-1:], n=form.n[-1:])


def windows_of(
    form: ContractionForm, a: Operand, machine: MachineParameters, alone: bool = False
) -> tuple[WindowSide, ...]:
    """Return the sides of A's window box; none if A's rows do not overlap.

    Args:
        form: The contraction.
        a: The operand in the role of A.
        machine: The target.
        alone: Whether boxes may contain no elements outside of the windows.
    """
    granule = machine.dma_granule // ELEMENT_BYTES[a.value.dtype]
    overread = (
        0 if alone else overread_limit(form.extents, form.accesses[0], prod(a.value.shape), granule)
    )
    return (
        windows(
            form.extents,
            form.accesses[0],
            form.m,
            form.k,
            granule // GAP_DIVISOR,
            granule,
            overread,
        )
        or ()
    )


def _is_well_laid_out(problem: TilingProblem, machine: MachineParameters) -> bool:
    """Whether B and C are contiguous along n, and n fills the micro-kernel's columns.

    At most the fraction ``MAX_UNUSED_COLUMNS`` of the columns may be unused.
    """
    n = prod(problem.n)
    full = n >= (1 - MAX_UNUSED_COLUMNS) * cost_rules.padded_columns(
        machine, problem.accumulator, n
    )
    return full and all(
        x.runs[1] >= machine.lanes(problem.accumulator) for x in (problem.b, problem.c)
    )


def _interleaved(
    contraction: Contraction,
    epilogue: Epilogue,
    both: Sequence[tuple[ContractionForm, Operand, Operand]],
    machine: MachineParameters,
) -> OperandRoles | None:
    """Return the schedule that interleaves two column halves while it transposes C.

    None if C's columns are not interleaved, or if no block of them fits the scratchpad.
    """
    for number, (form, a, b) in enumerate(both):
        if not machine.uses_panels or form.interleaved_axis is None or volume(form, form.k) == 0:
            continue
        problem = _problem(
            contraction, epilogue, form.with_interleaved_columns(), a, machine, interleaved=True
        )
        if (
            prod(problem.n[-2:]) <= MOST_INTERLEAVED
            and (plan := fitting_plan(problem, machine)) is not None
        ):
            return OperandRoles(
                contraction,
                epilogue,
                form.with_interleaved_columns(),
                a,
                b,
                plan=plan,
                swapped=number == 1,
                windows=problem.a_windows,
            )
    return None


def _problem(
    contraction: Contraction,
    epilogue: Epilogue,
    form: ContractionForm,
    a_operand: Operand,
    machine: MachineParameters,
    interleaved: bool = False,
    prologue: OperandPrologue | None = None,
    sums: int = 0,
) -> TilingProblem:
    """Return the tiling problem of one assignment.

    Args:
        contraction: The contraction.
        epilogue: Its fused epilogue.
        form: Its canonical form.
        a_operand: The operand in the role of A.
        machine: The target.
        interleaved: Whether C's column halves are interleaved.
        prologue: The prologue that computes A (which then has windows) or B.
        sums: Number of fused row sums.
    """
    a, b, c = form.accesses[:3]
    stores = [store.index for output in epilogue.outputs[:1] for store in output.stores]
    # The layout of the stored tensor counts, e.g. one with borders, and not that of the product.
    if stores:
        c = form.accesses[3 + _others(contraction, epilogue, prologue).index(stores[0])]
    dtype, accumulator = contraction.a.value.dtype, contraction.accumulator
    k = form.sizes(form.k)
    between = form.interleaved_axis if interleaved else None
    side = "a" if prologue is not None and prologue.operand is a_operand else "b"
    sides = (
        (form.m, form.n)
        if between is None
        else ((*form.m, between), tuple(axis for axis in form.n if axis != between))
    )
    return TilingProblem(
        batch=form.sizes(form.batch),
        m=form.sizes(form.m),
        n=form.sizes(form.n),
        k=k if 0 not in k else (),
        a=form.operand(a, dtype, form.m, form.k),
        b=form.operand(b, dtype, form.k, form.n),
        c=form.operand(c, accumulator, *sides),
        accumulator=accumulator,
        interleaved=between is not None,
        **epilogue_fields(epilogue, machine),
        a_windows=windows_of(form, a_operand, machine, alone=side == "a")
        if machine.uses_panels
        else (),
        sums=sums,
        **(_prologue_fields(prologue, side, machine) if prologue is not None else {}),
        can_split_k=contraction.starts_at_zero and not epilogue.positions and not sums,
    )
