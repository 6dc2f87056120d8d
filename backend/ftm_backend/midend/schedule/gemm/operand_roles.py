"""From a contraction kernel to its schedule: which operand is A, what is fused, how it is tiled.

Both assignments are tried: ``C = A . B``, and its transpose ``C^T = B^T . A^T``. They differ in
cost, because the matrix unit and DMA favour operands that are contiguous along a tile's rows.
`assign_operands` describes them, `problem_of` turns each into a `TilingProblem`, and ``planner``
returns the cheapest schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Operand, Statement
from ftm_backend.midend.analysis.body_cost import interval
from ftm_backend.midend.lowering.gemm.epilogue import Epilogue, build_epilogue, epilogue_traffic
from ftm_backend.midend.lowering.gemm.im2col_geometry import (
    WindowSide,
    box_strides,
    overread_limit,
    windows,
)
from ftm_backend.midend.lowering.gemm.prologue import OperandPrologue, match_prologue
from ftm_backend.midend.schedule.gemm import planner
from ftm_backend.midend.schedule.gemm.col2im_geometry import Col2Im
from ftm_backend.midend.schedule.gemm.contraction import (
    Contraction,
    ContractionForm,
    axes_of,
    match,
)
from ftm_backend.midend.schedule.gemm.planner import cheapest
from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.schedule.gemm.tiling_problem import (
    OperandTraffic,
    PrologueTraffic,
    TilingProblem,
)
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = [
    "OperandRoles",
    "assign_operands",
    "cheapest_roles",
    "cycles_lower_bound",
    "find_schedule",
    "problem_of",
    "with_schedule",
]

MAX_UNUSED_COLUMNS = 0.1
"""Fraction of the micro-kernel's columns that may be unused while n still counts as filling it."""
GAP_DIVISOR = 4
"""Gaps up to a granule divided by this are loaded together with the elements around them."""


@dataclass(frozen=True, eq=False)
class OperandRoles:
    """A contraction kernel with its operands in their roles, and its schedule.

    Attributes:
        contraction: The contraction.
        epilogue: Its fused epilogue.
        form: Its canonical form. All accesses are functions of the form's axes.
        a: The operand in the role of A.
        b: The operand in the role of B.
        swapped: Whether A is the second operand, so that C is computed transposed.
        windows: Window box of A if its rows overlap in memory; see ``im2col_geometry.windows``.
        col2im: How C's windows are summed before it is stored; see ``lowering.gemm.col2im``.
        prologue: The fused prologue: computes A if A has ``windows``, else B.
        sums: Partial sums of the stored block; see ``reduction_epilogue``.
        plan: The schedule; None if the result is empty, or not planned yet.
    """

    contraction: Contraction
    epilogue: Epilogue
    form: ContractionForm
    a: Operand
    b: Operand
    swapped: bool = False
    windows: tuple[WindowSide, ...] = ()
    col2im: Col2Im | None = None
    prologue: OperandPrologue | None = None
    sums: tuple[Statement, ...] = ()
    plan: Schedule | None = None

    def access(self, index: Affine) -> Affine:
        """Return an access of the epilogue or prologue as a function of the axes."""
        others = _other_accesses(self.contraction, self.epilogue, self.prologue)
        # by hash: to compare symbolic sizes would record guards
        return dict(zip(others, self.form.accesses[3:], strict=True))[index]

    @property
    def is_empty(self) -> bool:
        """Whether the result has no elements."""
        form = self.form
        return 0 in form.sizes((*form.batch, *form.m, *form.n))

    @property
    def computes_a(self) -> bool:
        """Whether the fused prologue computes A."""
        return self.prologue is not None and self.prologue.operand is self.a


def _other_accesses(
    contraction: Contraction, epilogue: Epilogue, prologue: OperandPrologue | None
) -> list[Affine]:
    """Return the accesses other than those of A, B and C, without duplicates."""
    init = contraction.statement.results[0].init
    found = [init.index] if isinstance(init, Operand) else []
    found += [store.index for output in epilogue.outputs for store in output.stores]
    found += [operand.index for operand in epilogue.operands]
    found += epilogue.positions
    found += [operand.index for operand in prologue.operands] if prologue is not None else []
    return list(dict.fromkeys(found))


# --- roles of the operands


def assign_operands(
    statements: Sequence[Statement], machine: MachineParameters, producers: Sequence[Statement] = ()
) -> tuple[OperandRoles, OperandRoles] | None:
    """Return a contraction as it is written, and transposed.

    Args:
        statements: The contraction, then elementwise statements.
        machine: The target.
        producers: Statements that produce an operand, to be fused as a prologue.

    Returns:
        The two assignments, or None if the producers cannot be a prologue.

    Raises:
        ValueError: The first statement is not a contraction, or another one cannot be fused.
    """
    contraction = match(statements[0])
    if contraction is None:
        raise ValueError(
            f"{statements[0].op} over {statements[0].loops} is not a contraction of the matrix unit"
        )
    prologue = match_prologue(producers, contraction) if producers else None
    if producers and prologue is None:
        return None
    epilogue = build_epilogue(contraction, statements[1:])
    others = _other_accesses(contraction, epilogue, prologue)
    form = axes_of(contraction, others, window_boxes=machine.uses_panels)
    if epilogue.positions:
        form = _single_axes(form)
    a, b = contraction.a, contraction.b
    direct = OperandRoles(contraction, epilogue, form, a, b, prologue=prologue)
    swapped = replace(direct, form=form.swapped(), a=b, b=a, swapped=True)
    return _with_windows(direct, machine), _with_windows(swapped, machine)


def _single_axes(form: ContractionForm) -> ContractionForm:
    """Keep only the innermost axis in m and n; move the others to batch.

    A map body's index is linear in the tile's row and column, so a tile may not span two axes.
    """
    return replace(form, batch=form.batch + form.m[:-1] + form.n[:-1], m=form.m[-1:], n=form.n[-1:])


def _with_windows(roles: OperandRoles, machine: MachineParameters) -> OperandRoles:
    """Set the window box of A, if its rows overlap and the machine reads windows in place."""
    if not machine.uses_panels:
        return roles
    form, value = roles.form, roles.a.value
    granule = machine.dma_granule // ELEMENT_BYTES[value.dtype]
    # a prologue computes whole boxes, so they may contain nothing else
    overread = (
        0
        if roles.computes_a
        else overread_limit(form.extents, form.accesses[0], prod(value.shape), granule)
    )
    access, near = form.accesses[0], granule // GAP_DIVISOR
    found = windows(form.extents, access, form.m, form.k, near, granule, overread)
    return replace(roles, windows=found or ())


# --- problems


def problem_of(roles: OperandRoles, machine: MachineParameters, sums: int = 0) -> TilingProblem:
    """Return the tiling problem of one assignment.

    Args:
        roles: The assignment.
        machine: The target.
        sums: Number of fused row sums.
    """
    form, contraction = roles.form, roles.contraction
    dtype = roles.a.value.dtype
    k = form.sizes(form.k)
    prologue = PrologueTraffic()
    if roles.prologue is not None:
        prologue = _prologue_traffic(roles.prologue, machine)
    return TilingProblem(
        batch=form.sizes(form.batch),
        m=form.sizes(form.m),
        n=form.sizes(form.n),
        k=k if 0 not in k else (),
        a=form.operand(form.accesses[0], dtype, form.m, form.k),
        b=form.operand(form.accesses[1], dtype, form.k, form.n),
        c=_stored_c(roles),
        accumulator=contraction.accumulator,
        depth=2 if machine.uses_panels and 0 not in k else 1,
        epilogue=epilogue_traffic(roles.epilogue, machine),
        a_windows=roles.windows,
        sums=sums,
        col2im=None if roles.col2im is None else roles.col2im.geometry,
        split_rows=roles.col2im is not None and roles.col2im.has_short_rows(dtype, machine),
        a_prologue=prologue if roles.computes_a else PrologueTraffic(),
        b_prologue=PrologueTraffic() if roles.computes_a else prologue,
        can_split_k=_can_split_k(roles) and not sums,
    )


def _can_split_k(roles: OperandRoles) -> bool:
    """Whether parts of k can be computed apart, and added up before the epilogue."""
    starts_at_zero = roles.contraction.starts_at_zero and roles.col2im is None
    return starts_at_zero and not roles.epilogue.positions


def _stored_c(roles: OperandRoles) -> OperandTraffic:
    """Return the layout of the stored tensor, e.g. one with borders, and not that of the product.

    The result of col2im is stored in its own blocks.
    """
    form, accumulator = roles.form, roles.contraction.accumulator
    if roles.col2im is not None:
        return OperandTraffic(accumulator, (1, 1))
    stores = [store.index for output in roles.epilogue.outputs[:1] for store in output.stores]
    access = roles.access(stores[0]) if stores else form.accesses[2]
    return form.operand(access, accumulator, form.m, form.n)


def _prologue_traffic(prologue: OperandPrologue, machine: MachineParameters) -> PrologueTraffic:
    """Describe a prologue to the cost model."""
    tiles, loaded = len(prologue.elementwise), len(prologue.operands)
    body = interval(machine, [prologue.element], loaded + 1)
    return PrologueTraffic(tiles, loaded - tiles, body)


# --- schedules


def find_schedule(
    statements: Sequence[Statement],
    machine: MachineParameters,
    producers: Sequence[Statement] = (),
    sums: int = 0,
) -> OperandRoles | None:
    """Return the cheapest schedule of a contraction, its prologue and its epilogue.

    Args:
        statements: The contraction, then elementwise statements.
        machine: The target.
        producers: Statements that produce an operand, to be fused as a prologue.
        sums: Number of fused sums of each row of a block.

    Returns:
        The schedule, or None if the producers cannot be a prologue or no tiles fit on chip.

    Raises:
        ValueError: The first statement is not a contraction, or another one cannot be fused.
    """
    both = assign_operands(statements, machine, producers)
    if both is None or both[0].is_empty:
        return None if both is None or producers else both[0]
    if producers:
        return cheapest_roles(_with_legal_prologue(both), machine)
    return _cheapest(_worth_planning(both, machine, sums), machine)


def with_schedule(
    statements: Sequence[Statement],
    machine: MachineParameters,
    chosen: Schedule,
    producers: Sequence[Statement] = (),
) -> OperandRoles | None:
    """Return the roles of a contraction's operands under a given schedule.

    Returns:
        None if the producers cannot be a prologue.

    Raises:
        ValueError: The first statement is not a contraction, or another one cannot be fused.
    """
    both = assign_operands(statements, machine, producers)
    if both is None:
        return None
    return replace(both[chosen.swapped], plan=chosen)


def cycles_lower_bound(statements: Sequence[Statement], machine: MachineParameters) -> float:
    """Return a lower bound of the cycles of all schedules; 0 if there is no simple one."""
    both = assign_operands(statements, machine)
    if both is None or both[0].is_empty:
        return 0.0
    worth = _worth_planning(both, machine)
    return min(planner.lower_bound(problem, machine) for _, problem in worth)


def cheapest_roles(
    assignments: Sequence[OperandRoles], machine: MachineParameters, sums: int = 0
) -> OperandRoles | None:
    """Return the assignment with the cheapest schedule; None if nothing fits on chip."""
    return _cheapest([(roles, problem_of(roles, machine, sums)) for roles in assignments], machine)


def _cheapest(
    assignments: Sequence[tuple[OperandRoles, TilingProblem]], machine: MachineParameters
) -> OperandRoles | None:
    found = cheapest([problem for _, problem in assignments], machine) if assignments else None
    if found is None:
        return None
    number, plan = found
    roles, _ = assignments[number]
    return replace(roles, plan=replace(plan, swapped=roles.swapped))


def _with_legal_prologue(both: tuple[OperandRoles, OperandRoles]) -> list[OperandRoles]:
    """Return the assignments whose prologue can be computed block by block, first that of A."""
    form = both[0].form
    if both[0].epilogue.positions or 0 in form.sizes(form.k):
        return []
    ordered = sorted(both, key=lambda roles: not roles.computes_a)
    return [roles for roles in ordered if _supports_prologue(roles)]


def _supports_prologue(roles: OperandRoles) -> bool:
    """Whether blocks of the prologue's operand can be computed on chip."""
    prologue, form = roles.prologue, roles.form
    assert prologue is not None, "the caller has checked"
    if not roles.computes_a:
        return prologue.supports_blocks
    axes = (*form.m, *form.k)
    return bool(roles.windows) and all(
        box_strides(roles.windows, axes, roles.access(operand.index))
        for operand in prologue.operands
    )


def _worth_planning(
    both: tuple[OperandRoles, OperandRoles], machine: MachineParameters, sums: int = 0
) -> list[tuple[OperandRoles, TilingProblem]]:
    """Return the assignments worth planning, with their problems.

    Where DMA overlaps compute, operands are exchanged only if they do not already lie along n.
    """
    found = [(both[0], problem_of(both[0], machine, sums))]
    _, problem = found[0]
    is_enough = problem.depth > 1 and _is_well_laid_out(problem, machine) and not both[1].windows
    return found if is_enough else [*found, (both[1], problem_of(both[1], machine, sums))]


def _is_well_laid_out(problem: TilingProblem, machine: MachineParameters) -> bool:
    """Whether B and C are contiguous along n, and n fills the micro-kernel's columns.

    At most the fraction ``MAX_UNUSED_COLUMNS`` of the columns may be unused.
    """
    n = prod(problem.n)
    columns = cost_rules.padded_columns(machine, problem.accumulator, n)
    lanes = machine.lanes(problem.accumulator)
    return n >= (1 - MAX_UNUSED_COLUMNS) * columns and all(
        x.runs[1] >= lanes for x in (problem.b, problem.c)
    )
