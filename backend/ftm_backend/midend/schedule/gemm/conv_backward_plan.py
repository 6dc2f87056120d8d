"""Cost model of the fused backward of a convolution: dX, dW and the weights' update in one kernel.

With filters f, channels c, G = dY and im2col windows of X:

- dX is a transposed convolution: ``T[(c, tap), (n, window)] = sum_f W[f, c, tap] * G[n, f,
  window]``, followed by col2im.
- dW is a contraction: ``D[f, c, tap] = sum_(n, window) G[n, f, window] * X[n, c, window + tap]``.
  Its epilogue, the optimizer's update, reads W.

A core owns the taps of some channels and iterates over blocks of filters. So a block of W that it
has loaded serves both products, and so does a block of G.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Operand, Statement, Value
from ftm_backend.ir.linalg.named_ops import CONV_TRANSPOSE
from ftm_backend.ir.linalg.strided_view import Strided, merged
from ftm_backend.midend.analysis.body_cost import interval
from ftm_backend.midend.lowering.gemm import col2im
from ftm_backend.midend.lowering.gemm.im2col_geometry import WindowSide
from ftm_backend.midend.schedule.gemm.col2im_geometry import Col2ImGeometry
from ftm_backend.midend.schedule.gemm.contraction import ContractionForm
from ftm_backend.midend.schedule.gemm.operand_roles import OperandRoles, assign_operands
from ftm_backend.midend.schedule.gemm.panel_search_space import SCALARS
from ftm_backend.midend.schedule.gemm.tiling_problem import TileCut
from ftm_backend.midend.transforms.tensor.align_loops import align_all
from ftm_backend.symbolic import is_integer
from ftm_backend.target import cost_rules
from ftm_backend.target.element_types import ACCUMULATORS, slot_bytes
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["ConvBackward", "ConvBackwardPlan", "match_conv_backward", "plan_conv_backward"]

_FILTERS = (16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Candidate numbers of filters of a block."""
_CHANNELS = 64
"""Most channels of a block. The candidates are the smallest sizes for each block count."""
_TRANSFERS = 2
"""Transfers of a step without those of the epilogue."""


@dataclass(frozen=True, eq=False)
class ConvBackward:
    """The matched pair of gradients.

    Attributes:
        dx: The statement of dX, a transposed convolution.
        dw: Roles of dW's operands: A is X, B is G, m is (channel, tap), n are the filters.
        weight: W as dW's epilogue reads it.
        dx_form: Canonical form of dX's product.
        geometry: Windows of dX.
    """

    dx: Statement
    dw: OperandRoles
    weight: Operand
    dx_form: ContractionForm
    geometry: Col2ImGeometry

    @property
    def dtype(self) -> str:
        """Element type of the weights, the feature maps and their gradients."""
        return self.weight.value.dtype

    @property
    def channels(self) -> int:
        """Number of input channels."""
        return self.dx_form.extents[self.dx_form.m[0]]

    @property
    def taps(self) -> int:
        """Number of taps of a channel."""
        return prod(self.geometry.shape.taps)

    @property
    def columns(self) -> int:
        """Number of windows of all feature maps."""
        form = self.dw.form
        return prod(form.sizes(form.k))

    @property
    def all_windows(self) -> TileCut:
        """The windows of all feature maps as one block of dX's columns."""
        feature_maps = self.dx_form.extents[self.dx_form.n[0]]
        return self.geometry.whole_feature_maps(feature_maps, feature_maps)

    @property
    def filters(self) -> int:
        """Number of filters."""
        form = self.dw.form
        return prod(form.sizes(form.n))


@dataclass(frozen=True)
class ConvBackwardPlan:
    """A plan and its modelled cycles on the busiest core.

    Attributes:
        channels: Channels of a block, with all their taps.
        m: The same block as a cut of the product's rows.
        n: Blocks of filters.
        a_space: Memory of a core's block of X: ``"sm"`` or ``"gsm"``.
        trans_a: Whether X is loaded transposed.
        cycles: Modelled cycles.
    """

    channels: int
    m: TileCut
    n: TileCut
    a_space: str
    trans_a: bool
    cycles: float


def match_conv_backward(
    statements: Sequence[Statement], machine: MachineParameters
) -> ConvBackward | None:
    """Match dX, dW and dW's epilogue.

    Returns:
        The pair, or None if they do not read the same weights and gradient in the same order.
    """
    dx, *chain = statements
    if dx.op != CONV_TRANSPOSE:
        return None
    gradient, weight = (tensor.value for tensor in dx.tensors)
    if dx.results[0].value.dtype != ACCUMULATORS[weight.dtype]:
        return None
    dx_form = col2im.roles_of([dx]).form
    if dx_form.batch:
        return None
    for dw in assign_operands(align_all(chain), machine) or ():
        if not _multiplies(dw, gradient, dx_form):
            continue
        for operand in dw.epilogue.operands:
            if operand.value is weight and _reads_weights(dw, operand, dx_form):
                return ConvBackward(dx, dw, operand, dx_form, col2im.geometry_of(dx))
    return None


def _multiplies(dw: OperandRoles, gradient: Value, dx_form: ContractionForm) -> bool:
    """Whether dW's operand B is the gradient, with the elements that dX reads."""
    form = dw.form
    is_simple = dw.contraction.starts_at_zero and not dw.epilogue.positions and not form.batch
    return (
        is_simple
        and dw.b.value is gradient
        and len(form.n) == 1
        and all(map(is_integer, form.extents))
        and _same_elements(
            (form, form.accesses[1]),
            (dx_form, dx_form.accesses[1]),
            ((form.k, dx_form.n), (form.n, dx_form.k)),
        )
    )


def _reads_weights(dw: OperandRoles, operand: Operand, dx_form: ContractionForm) -> bool:
    """Whether an operand of dW's epilogue has the elements of the weights that dX reads."""
    return _same_elements(
        (dw.form, dw.access(operand.index)),
        (dx_form, dx_form.accesses[0]),
        ((dw.form.m, dx_form.m), (dw.form.n, dx_form.k)),
    )


def _same_elements(
    one: tuple[ContractionForm, Affine],
    other: tuple[ContractionForm, Affine],
    groups: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> bool:
    """Whether two accesses traverse the same elements in the same order, group by group."""
    return one[1].const == other[1].const and all(
        _merged_dims(*one, left_group) == _merged_dims(*other, right_group)
        for left_group, right_group in groups
    )


def _merged_dims(
    form: ContractionForm, access: Affine, group: Sequence[int]
) -> list[tuple[int, int]]:
    """Return extents and strides of a group, outermost first, with contiguous neighbours merged."""
    return merged(Strided(form.sizes(group), tuple(access.coeffs[axis] for axis in group), 0))


def plan_conv_backward(
    pattern: ConvBackward, machine: MachineParameters
) -> ConvBackwardPlan | None:
    """Return the cheapest plan; None if no blocks fit the scratchpads."""
    plans = [plan for n in _FILTERS if n <= pattern.filters for plan in _plans(pattern, n, machine)]
    return min(plans, key=lambda plan: plan.cycles, default=None)


def _plans(
    pattern: ConvBackward, filters: int, machine: MachineParameters
) -> Iterator[ConvBackwardPlan]:
    """Yield the plans with blocks of ``filters`` filters."""
    form = pattern.dw.form
    outer = form.extents[form.m[0]] if form.m else 0
    if outer not in (pattern.channels, pattern.channels * pattern.taps):
        return
    inside = pattern.channels * pattern.taps // outer  # rows of one index of the outer dimension
    n = TileCut(0, filters, filters, cost_rules.pieces(pattern.filters, filters))
    block_counts = range(
        cost_rules.pieces(pattern.channels, _CHANNELS * machine.cores),
        cost_rules.pieces(pattern.channels, machine.cores) + 1,
    )
    for channels in dict.fromkeys(
        cost_rules.pieces(pattern.channels, each * machine.cores) for each in block_counts
    ):
        rows = channels * pattern.taps
        m = TileCut(0, rows // inside, rows, cost_rules.pieces(pattern.channels, channels))
        yield from _price(pattern, channels, m, n, machine)


def _price(
    pattern: ConvBackward, channels: int, m: TileCut, n: TileCut, machine: MachineParameters
) -> Iterator[ConvBackwardPlan]:
    """Yield the plan with these blocks if they fit."""
    dw, k, item = pattern.dw, pattern.columns, ELEMENT_BYTES[pattern.dtype]
    form, accumulator = dw.form, ACCUMULATORS[pattern.dtype]
    rows, sums = m.elements, ELEMENT_BYTES[accumulator]
    held = sum(slot_bytes(n.elements, rows, size) for size in _epilogue_item_bytes(pattern))
    am = 2 * held + 2 * slot_bytes(n.elements, rows, sums) + slot_bytes(rows, n.elements, sums)
    am += 2 * slot_bytes(n.elements, k, item) + slot_bytes(k, n.elements, item)
    am += slot_bytes(rows, k, sums) + slot_bytes(
        channels, pattern.geometry.columns(pattern.all_windows), sums
    )
    x_bytes = 2 * slot_bytes(_box_size(dw.windows, form, m.size, m.elements, k)[0], 1, item)
    pool = n.blocks * slot_bytes(n.elements, k, item)
    a_space = "sm" if x_bytes <= machine.sm_bytes else "gsm"
    if (
        am > machine.am_bytes
        or pool + (x_bytes * machine.cores if a_space == "gsm" else 0) > machine.gsm_bytes
    ):
        return
    share = cost_rules.pieces(pattern.channels, machine.cores)
    before = cost_rules.pieces(share, channels) - 1
    full = _block_cycles(pattern, channels, n, machine)
    last = (
        full
        if share == (before + 1) * channels
        else _block_cycles(pattern, share - before * channels, n, machine)
    )
    computing = before * full.computing + last.computing
    moving = before * full.moving + last.moving
    rate = cost_rules.bytes_per_cycle(machine, machine.cores)
    one_by_one = form.run(form.accesses[1], form.k) == 0  # DMA transfers single elements of G
    arriving = (
        cost_rules.pieces(n.blocks, machine.cores) * n.elements * k * machine.dma_element_cycles
        if one_by_one
        else pool / machine.cores / rate
    )
    # The DMA engine is also busy before the first step and after the last one.
    walking = max(computing + full.beginning + last.ending, moving)
    trans_a = not dw.windows and form.run(form.accesses[0], form.m) > form.run(
        form.accesses[0], form.k
    )
    yield ConvBackwardPlan(
        channels, m, n, a_space, trans_a, arriving + walking + 2 * machine.barrier_cycles
    )


class _Block(NamedTuple):
    """Cycles of a block of channels over all filters.

    Attributes:
        computing: Cycles of the core.
        moving: Cycles of the DMA engine.
        beginning: Cycles of the transfers before the first step.
        ending: Cycles of the transfers after the last step.
    """

    computing: float
    moving: float
    beginning: float
    ending: float


def _block_cycles(
    pattern: ConvBackward, channels: int, n: TileCut, machine: MachineParameters
) -> _Block:
    """Return the cycles of a block of ``channels`` channels with filters cut as ``n``."""
    dw, k, item = pattern.dw, pattern.columns, ELEMENT_BYTES[pattern.dtype]
    form, accumulator = dw.form, ACCUMULATORS[pattern.dtype]
    rows, epilogue_item_bytes = channels * pattern.taps, _epilogue_item_bytes(pattern)
    outer = form.extents[form.m[0]] // pattern.channels
    box, run = _box_size(dw.windows, form, channels * outer, rows, k)
    rate = cost_rules.bytes_per_cycle(machine, machine.cores)
    issue = (
        10 * machine.issue_cycles
        + (SCALARS["step"] + 2 * SCALARS["product"] + SCALARS["store"]) * machine.scalar_latency
    )
    product = (
        cost_rules.windows_cycles(machine, accumulator, rows, n.elements, _runs(form), k)
        if dw.windows
        else cost_rules.outer_cycles(machine, accumulator, rows, n.elements, k)
    )
    product += cost_rules.outer_cycles(machine, accumulator, rows, k, n.elements)
    transposing = cost_rules.transpose_cycles(
        machine, pattern.dtype, n.elements, k
    ) + cost_rules.transpose_cycles(machine, accumulator, rows, n.elements)
    body = _interval(pattern, machine)
    vectors = n.elements * cost_rules.pieces(rows, machine.lanes(accumulator))
    step = product + transposing + body * vectors + 40 + issue
    phase_elements = pattern.geometry.elements(pattern.all_windows)
    col2im_cycles = cost_rules.fold_cycles(
        machine, accumulator, pattern.geometry.shape, channels, phase_elements
    )
    moved = (
        n.elements
        * sum(cost_rules.granules(machine, rows * size) for size in epilogue_item_bytes)
        / rate
    )
    moved += machine.dma_latency * (len(epilogue_item_bytes) + _TRANSFERS)
    moved += n.elements * k * item * machine.cores / machine.gsm_bytes_per_cycle
    stored = (
        channels
        * cost_rules.granules(machine, pattern.geometry.columns(pattern.all_windows) * item)
        / rate
    )
    fetched = box / run * cost_rules.granules(machine, run * item) / rate
    return _Block(
        n.blocks * step + col2im_cycles,
        n.blocks * moved + stored + fetched,
        fetched + moved,
        stored,
    )


@lru_cache(maxsize=4)
def _interval(pattern: ConvBackward, machine: MachineParameters) -> float:
    """Return the epilogue's cycles per vector, which all plans share."""
    return interval(
        machine,
        [o.element for o in pattern.dw.epilogue.outputs],
        len(_epilogue_item_bytes(pattern)),
    )


@lru_cache(maxsize=4)
def _epilogue_item_bytes(pattern: ConvBackward) -> list[int]:
    """Return the bytes per element of each tensor that the epilogue loads or stores."""
    epilogue = pattern.dw.epilogue
    return [
        *(ELEMENT_BYTES[o.value.dtype] for o in epilogue.operands),
        *(ELEMENT_BYTES[o.element.dtype] for o in epilogue.outputs),
    ]


def _runs(form: ContractionForm) -> int:
    return cost_rules.even_runs(form.sizes(form.k))


def _box_size(
    sides: Sequence[WindowSide], form: ContractionForm, outer: int, rows: int, k: int
) -> tuple[int, int]:
    """Return the elements of X loaded for a block of rows, and their contiguous run.

    Args:
        sides: Window box of A; empty if A has none.
        form: Canonical form of dW.
        outer: Extent of the block in m's outer dimension.
        rows: Rows of the block.
        k: Elements of k.
    """
    if not sides:
        runs = [form.run(form.accesses[0], group) for group in (form.m, form.k)]
        return rows * k, max(1, min(max(runs), rows if runs[0] > runs[1] else k))
    counts = [outer, *form.sizes(form.m[1:]), *form.sizes(form.k)]
    lengths = [
        side.fetched(1 + sum((counts[at] - 1) * abs(step) for at, step in side.steps))
        for side in sides
    ]
    run = 1
    unit = 1
    for side, length in zip(reversed(sides), reversed(lengths), strict=True):
        if side.unit != unit:
            break
        run *= length
        unit *= length
    return prod(lengths), run
