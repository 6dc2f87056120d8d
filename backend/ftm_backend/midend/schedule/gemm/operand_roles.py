"""From a contraction kernel's statements to its schedule: which operand is A, how axes are tiled,
in what order.

Both roles of the operands are tried (``C = A.B`` and its transpose): the matrix unit and DMA care
which side lies along a tile's rows. ``tiling`` models the time of each where the core does its own
transfers, ``panel_plan`` where DMA works beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Operand, Statement
from ftm_backend.midend.analysis.body_cost import interval
from ftm_backend.midend.lowering.gemm.epilogue import Epilogue, demands, read_epilogue
from ftm_backend.midend.lowering.gemm.im2col_operand import WindowSide, behind, box_strides, windows
from ftm_backend.midend.lowering.gemm.prologue import OperandPrologue, read_factor
from ftm_backend.midend.schedule.gemm.col2im_geometry import Col2Im
from ftm_backend.midend.schedule.gemm.contraction import (
    Contraction,
    ContractionForm,
    axes_of,
    match,
    volume,
)
from ftm_backend.midend.schedule.gemm.dynamic_tiling import general_plan
from ftm_backend.midend.schedule.gemm.panel_schedule import (
    PanelSchedule,
    cheapest,
    fitting_plan,
    lower_bound,
)
from ftm_backend.midend.schedule.gemm.tiling import GemmTiling, TilingProblem
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["OperandRoles", "computed_schedule", "least_cycles", "roles", "schedule", "windows_of"]

Roles = tuple[ContractionForm, Operand, Operand]
"""The axes of a contraction, and the operands that are taken as A and as B."""

WASTE = 0.1
"""Part of the micro-kernel's columns that may be empty where it is taken to be full."""
MOST_ZIPPED = 1024
"""Columns of a block whose halves are interleaved: it holds all of them."""
NEAR = 4
"""Elements that are this part of a granule apart are fetched with what lies between them."""


@dataclass(frozen=True, eq=False)
class OperandRoles:
    """Everything that the lowering needs to know; accesses are over ``form``'s axes.

    ``a`` and ``b`` are the operands in the roles chosen. ``plan`` is None when the result is empty.
    """

    contraction: Contraction
    epilogue: Epilogue
    form: ContractionForm
    a: Operand
    b: Operand
    plan: GemmTiling | PanelSchedule | None
    windows: tuple[WindowSide, ...] = ()
    """Of A, where its rows overlap in memory; see ``windows``."""
    fold: Col2Im | None = None
    """How C's windows are summed before it is stored; see ``folds``."""
    factor: OperandPrologue | None = None
    """What B is computed from, or A where it has ``windows``."""
    sums: tuple[Statement, ...] = ()
    """Of what is stored; see ``panel_sums``."""

    def access(self, index: Affine) -> Affine:
        """An access of the epilogue (over loops) as a function of the axes."""
        return self._over_axes[index]

    @property
    def _over_axes(self) -> dict[Affine, Affine]:
        return dict(
            zip(
                _others(self.contraction, self.epilogue, self.factor),
                self.form.accesses[3:],
                strict=True,
            )
        )


def _others(
    contraction: Contraction, epilogue: Epilogue, factor: OperandPrologue | None = None
) -> list[Affine]:
    """Every access beside A, B and C, each once."""
    init = contraction.statement.results[0].init
    found = [init.index] if isinstance(init, Operand) else []
    found += [store.index for output in epilogue.outputs for store in output.stores]
    found += [operand.index for operand in epilogue.operands]
    found += epilogue.positions
    found += [operand.index for operand in factor.operands] if factor is not None else []
    return list(dict.fromkeys(found))


def schedule(
    statements: Sequence[Statement], machine: MachineParameters, sums: int = 0
) -> OperandRoles:
    """The cheapest schedule of a kernel: a contraction followed by elementwise statements, and by
    so many sums of each row of a block.

    Raises:
        ValueError: the first statement is not a contraction, or another cannot follow it.
    """
    contraction, epilogue, straight, crossed = roles(statements, machine)
    form = straight[0]
    empty = any(volume(form, group) == 0 for group in (form.batch, form.m, form.n))
    if empty:
        return OperandRoles(contraction, epilogue, *straight, plan=None)
    zipped = _zipped(contraction, epilogue, [straight, crossed], machine)
    if zipped is not None:
        return zipped
    if machine.uses_panels and volume(form, form.k) != 0:
        problems = _problems(contraction, epilogue, (straight, crossed), machine, sums)
        number, panels = cheapest(problems, machine)
        return OperandRoles(
            contraction,
            epilogue,
            *(straight, crossed)[number],
            plan=panels,
            windows=problems[number].a_windows,
        )
    plans = [
        (general_plan(_problem(contraction, epilogue, *taken[:2], machine), machine), taken)
        for taken in (straight, crossed)
    ]
    best, taken = min(plans, key=lambda p: p[0].cycles)
    return OperandRoles(contraction, epilogue, *taken, plan=best)


def computed_schedule(
    statements: Sequence[Statement], makers: Sequence[Statement], machine: MachineParameters
) -> OperandRoles | None:
    """The cheapest schedule of panels in which a factor is computed on chip, as ``makers`` make it;
    None if there is none."""
    contraction = match(statements[0])
    factor = read_factor(makers, contraction) if contraction is not None else None
    if contraction is None or factor is None:
        return None
    epilogue = read_epilogue(contraction, statements[1:])
    form = axes_of(contraction, _others(contraction, epilogue, factor), boxes=True)
    if (
        epilogue.positions
        or form.interleaved is not None
        or any(volume(form, g) == 0 for g in (form.batch, form.m, form.n, form.k))
    ):
        return None
    both: list[Roles] = [
        (form, contraction.a, contraction.b),
        (form.swapped(), contraction.b, contraction.a),
    ]
    first, second = both if factor.operand is contraction.a else both[::-1]
    boxes = windows_of(first[0], first[1], machine, alone=True)
    may_be_boxes = bool(boxes) and all(
        box_strides(boxes, (*first[0].m, *first[0].k), first[0].accesses[k])
        for k in _accesses(contraction, epilogue, factor)
    )
    found: list[tuple[PanelSchedule, TilingProblem, Roles]] = []
    for taken in [first] * may_be_boxes + [second] * factor.in_blocks:
        problem = _problem(contraction, epilogue, *taken[:2], machine, factor=factor)
        plan = fitting_plan(problem, machine)
        found += [(plan, problem, taken)] if plan is not None else []
    if not found:
        return None
    plan, problem, taken = min(found, key=lambda each: each[0].cycles)
    return OperandRoles(
        contraction, epilogue, *taken, plan=plan, windows=problem.a_windows, factor=factor
    )


def _computing(factor: OperandPrologue, side: str, machine: MachineParameters) -> dict[str, Any]:
    """What computing a factor asks of a plan."""
    return {
        f"{side}_tiles": len(factor.wide),
        f"{side}_parameters": len(factor.operands) - len(factor.wide),
        f"{side}_interval": interval(machine, [factor.element], len(factor.operands) + 1),
    }


def _accesses(contraction: Contraction, epilogue: Epilogue, factor: OperandPrologue) -> list[int]:
    """Which of a form's accesses are those of what a factor is computed of."""
    others = _others(contraction, epilogue, factor)
    return [3 + others.index(operand.index) for operand in factor.operands]


def least_cycles(statements: Sequence[Statement], machine: MachineParameters) -> float:
    """Cycles that no schedule of panels is below; 0 where it is made otherwise."""
    contraction, epilogue, straight, crossed = roles(statements, machine)
    form = straight[0]
    if form.interleaved is not None or any(
        volume(form, g) == 0 for g in (form.batch, form.m, form.n, form.k)
    ):
        return 0.0
    return min(
        lower_bound(problem, machine)
        for problem in _problems(contraction, epilogue, (straight, crossed), machine)
    )


def roles(
    statements: Sequence[Statement], machine: MachineParameters
) -> tuple[Contraction, Epilogue, Roles, Roles]:
    """The contraction, what follows it, and the roles that its operands can take."""
    contraction = match(statements[0])
    if contraction is None:
        raise ValueError(
            f"{statements[0].op} over {statements[0].loops} is not a contraction of the matrix unit"
        )
    epilogue = read_epilogue(contraction, statements[1:])
    form = axes_of(contraction, _others(contraction, epilogue), boxes=machine.uses_panels)
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
    """To be planned with panels: the operands as they stand, and exchanged unless they would have
    to be turned for that."""
    (form, a, b), (crossed, *_) = both
    found = [_problem(contraction, epilogue, form, a, machine, sums=sums)]
    if not _lies_well(found[0], machine) or windows_of(crossed, b, machine):
        found.append(_problem(contraction, epilogue, crossed, b, machine, sums=sums))
    return found


def _single_axes(form: ContractionForm) -> ContractionForm:
    """``form`` with only the innermost axis left in m and n, the others walked as batch.

    A position in a map body is linear in the tile's row and column, so a tile may not span two
    axes.
    """
    return replace(form, batch=form.batch + form.m[:-1] + form.n[:-1], m=form.m[-1:], n=form.n[-1:])


def windows_of(
    form: ContractionForm, a: Operand, machine: MachineParameters, alone: bool = False
) -> tuple[WindowSide, ...]:
    """The sides of the boxes that A is fetched in; none where it is fetched as it lies.

    alone: they hold nothing of what lies behind a side.
    """
    granule = machine.dma_granule // ELEMENT_BYTES[a.value.dtype]
    left = 0 if alone else behind(form.extents, form.accesses[0], prod(a.value.shape), granule)
    return (
        windows(form.extents, form.accesses[0], form.m, form.k, granule // NEAR, granule, left)
        or ()
    )


def _lies_well(problem: TilingProblem, machine: MachineParameters) -> bool:
    """Whether B and C lie along n in memory, and n fills the micro-kernel's columns but for
    ``WASTE`` of them."""
    n = prod(problem.n)
    full = n >= (1 - WASTE) * cost_rules.columns_taken(machine, problem.accumulator, n)
    return full and all(
        x.runs[1] >= machine.lanes(problem.accumulator) for x in (problem.b, problem.c)
    )


def _zipped(
    contraction: Contraction,
    epilogue: Epilogue,
    both: Sequence[tuple[ContractionForm, Operand, Operand]],
    machine: MachineParameters,
) -> OperandRoles | None:
    """The schedule that interleaves columns of two halves as it turns C; None where there are none,
    or a block of them fits no tile."""
    for form, a, b in both:
        if not machine.uses_panels or form.interleaved is None or volume(form, form.k) == 0:
            continue
        problem = _problem(contraction, epilogue, form.zipped(), a, machine, zipped=True)
        if (
            prod(problem.n[-2:]) <= MOST_ZIPPED
            and (plan := fitting_plan(problem, machine)) is not None
        ):
            return OperandRoles(
                contraction, epilogue, form.zipped(), a, b, plan=plan, windows=problem.a_windows
            )
    return None


def _problem(
    contraction: Contraction,
    epilogue: Epilogue,
    form: ContractionForm,
    taken: Operand,
    machine: MachineParameters,
    zipped: bool = False,
    factor: OperandPrologue | None = None,
    sums: int = 0,
) -> TilingProblem:
    """taken: the operand that is taken as A; factor: what that is computed from, where it has
    windows, or else B."""
    a, b, c = form.accesses[:3]
    stores = [store.index for output in epilogue.outputs[:1] for store in output.stores]
    # what is written elsewhere, such as between zeros, does not lie as the product's own value
    # would
    if stores:
        c = form.accesses[3 + _others(contraction, epilogue, factor).index(stores[0])]
    dtype, accumulator = contraction.a.value.dtype, contraction.accumulator
    k = form.sizes(form.k)
    between = form.interleaved if zipped else None
    side = "a" if factor is not None and factor.operand is taken else "b"
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
        zipped=between is not None,
        **demands(epilogue, machine),
        a_windows=windows_of(form, taken, machine, alone=side == "a")
        if machine.uses_panels
        else (),
        sums=sums,
        **(_computing(factor, side, machine) if factor is not None else {}),
        sum_alone=contraction.starts_at_zero and not epilogue.positions and not sums,
    )
