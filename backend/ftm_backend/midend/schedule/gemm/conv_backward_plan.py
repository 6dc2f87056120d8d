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
from ftm_backend.ir.linalg.function import Operand, Statement
from ftm_backend.ir.linalg.strided_layout import Strided, merged
from ftm_backend.midend.analysis.body_cost import interval
from ftm_backend.midend.lowering.gemm import col2im
from ftm_backend.midend.lowering.gemm.im2col_operand import WindowSide
from ftm_backend.midend.schedule.gemm.col2im_geometry import Col2ImGeometry
from ftm_backend.midend.schedule.gemm.contraction import ContractionForm
from ftm_backend.midend.schedule.gemm.operand_roles import OperandRoles, roles, windows_of
from ftm_backend.midend.schedule.gemm.panel_search_space import SCALARS
from ftm_backend.midend.schedule.gemm.tiling import TileCut
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
        fold: The statement of dX, a transposed convolution.
        chosen: Roles of dW's operands: A is X, B is G, m is (channel, tap), n are the filters.
        weight: W as dW's epilogue reads it.
        images: Canonical form of dX's product.
        geometry: Windows of dX.
    """

    fold: Statement
    chosen: OperandRoles
    weight: Operand
    images: ContractionForm
    geometry: Col2ImGeometry

    @property
    def dtype(self) -> str:
        """Element type of the weights, the feature maps and their gradients."""
        return self.weight.value.dtype

    @property
    def channels(self) -> int:
        """Number of input channels."""
        return self.images.extents[self.images.m[0]]

    @property
    def taps(self) -> int:
        """Number of taps of a channel."""
        return prod(self.geometry.shape.taps)

    @property
    def columns(self) -> int:
        """Number of windows of all feature maps."""
        form = self.chosen.form
        return prod(form.sizes(form.k))

    @property
    def whole(self) -> TileCut:
        """The windows of all feature maps as one block of dX's columns."""
        images = self.images.extents[self.images.n[0]]
        return self.geometry.whole(images, images)

    @property
    def filters(self) -> int:
        """Number of filters."""
        form = self.chosen.form
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
    fold, *chain = statements
    if fold.op != col2im.OP:
        return None
    gradient, weight = (tensor.value for tensor in fold.tensors)
    images, geometry = col2im.schedule_of([fold]).form, col2im.geometry_of(fold)
    contraction, epilogue, *both = roles(align_all(chain), machine)
    if (
        not contraction.starts_at_zero
        or epilogue.positions
        or fold.results[0].value.dtype != ACCUMULATORS[weight.dtype]
    ):
        return None
    for form, a, b in both:
        if (
            b.value is not gradient
            or form.batch
            or len(form.n) != 1
            or not all(map(is_integer, form.extents))
        ):
            continue
        chosen = OperandRoles(
            contraction, epilogue, form, a, b, plan=None, windows=windows_of(form, a, machine)
        )
        if not _alike(
            (form, form.accesses[1]),
            (images, images.accesses[1]),
            ((form.k, images.n), (form.n, images.k)),
        ):
            continue
        for operand in epilogue.operands:
            sides = ((form.m, images.m), (form.n, images.k))
            if operand.value is weight and _alike(
                (form, chosen.access(operand.index)), (images, images.accesses[0]), sides
            ):
                return ConvBackward(fold, chosen, operand, images, geometry)
    return None


def _alike(
    one: tuple[ContractionForm, Affine],
    other: tuple[ContractionForm, Affine],
    groups: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> bool:
    """Whether two accesses traverse the same elements in the same order, group by group."""
    return one[1].const == other[1].const and all(
        _walk(*one, mine) == _walk(*other, theirs) for mine, theirs in groups
    )


def _walk(form: ContractionForm, access: Affine, group: Sequence[int]) -> list[tuple[int, int]]:
    """Return extents and strides of a group, outermost first, with contiguous neighbours merged."""
    return merged(Strided(form.sizes(group), tuple(access.coeffs[axis] for axis in group), 0))


def plan_conv_backward(found: ConvBackward, machine: MachineParameters) -> ConvBackwardPlan | None:
    """Return the cheapest plan; None if no blocks fit the scratchpads."""
    plans = [plan for n in _FILTERS if n <= found.filters for plan in _plans(found, n, machine)]
    return min(plans, key=lambda plan: plan.cycles, default=None)


def _plans(
    found: ConvBackward, filters: int, machine: MachineParameters
) -> Iterator[ConvBackwardPlan]:
    """Yield the plans with blocks of ``filters`` filters."""
    form = found.chosen.form
    outer = form.extents[form.m[0]] if form.m else 0
    if outer not in (found.channels, found.channels * found.taps):
        return
    inside = found.channels * found.taps // outer  # rows of one index of the outer dimension
    n = TileCut(0, filters, filters, cost_rules.pieces(found.filters, filters))
    trips = range(
        cost_rules.pieces(found.channels, _CHANNELS * machine.cores),
        cost_rules.pieces(found.channels, machine.cores) + 1,
    )
    for channels in dict.fromkeys(
        cost_rules.pieces(found.channels, each * machine.cores) for each in trips
    ):
        rows = channels * found.taps
        m = TileCut(0, rows // inside, rows, cost_rules.pieces(found.channels, channels))
        yield from _priced(found, channels, m, n, machine)


def _priced(
    found: ConvBackward, channels: int, m: TileCut, n: TileCut, machine: MachineParameters
) -> Iterator[ConvBackwardPlan]:
    """Yield the plan with these blocks if they fit."""
    chosen, k, item = found.chosen, found.columns, ELEMENT_BYTES[found.dtype]
    form, accumulator = chosen.form, ACCUMULATORS[found.dtype]
    rows, sums = m.elements, ELEMENT_BYTES[accumulator]
    held = sum(slot_bytes(n.elements, rows, size) for size in _beside(found))
    am = 2 * held + 2 * slot_bytes(n.elements, rows, sums) + slot_bytes(rows, n.elements, sums)
    am += 2 * slot_bytes(n.elements, k, item) + slot_bytes(k, n.elements, item)
    am += slot_bytes(rows, k, sums) + slot_bytes(
        channels, found.geometry.columns(found.whole), sums
    )
    own = 2 * slot_bytes(_box(chosen.windows, form, m.size, m.elements, k)[0], 1, item)
    pool = n.blocks * slot_bytes(n.elements, k, item)
    a_space = "sm" if own <= machine.sm_bytes else "gsm"
    if (
        am > machine.am_bytes
        or pool + (own * machine.cores if a_space == "gsm" else 0) > machine.gsm_bytes
    ):
        return
    share = cost_rules.pieces(found.channels, machine.cores)
    before = cost_rules.pieces(share, channels) - 1
    full = _block_cycles(found, channels, n, machine)
    last = (
        full
        if share == (before + 1) * channels
        else _block_cycles(found, share - before * channels, n, machine)
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
    trans_a = not chosen.windows and form.run(form.accesses[0], form.m) > form.run(
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
    found: ConvBackward, channels: int, n: TileCut, machine: MachineParameters
) -> _Block:
    """Return the cycles of a block of ``channels`` channels with filters cut as ``n``."""
    chosen, k, item = found.chosen, found.columns, ELEMENT_BYTES[found.dtype]
    form, accumulator = chosen.form, ACCUMULATORS[found.dtype]
    rows, beside = channels * found.taps, _beside(found)
    outer = form.extents[form.m[0]] // found.channels
    box, run = _box(chosen.windows, form, channels * outer, rows, k)
    rate = cost_rules.bytes_per_cycle(machine, machine.cores)
    issue = (
        10 * machine.issue_cycles
        + (SCALARS["step"] + 2 * SCALARS["product"] + SCALARS["store"]) * machine.scalar_latency
    )
    product = (
        cost_rules.windows_cycles(machine, accumulator, rows, n.elements, _runs(form), k)
        if chosen.windows
        else cost_rules.outer_cycles(machine, accumulator, rows, n.elements, k)
    )
    product += cost_rules.outer_cycles(machine, accumulator, rows, k, n.elements)
    turning = cost_rules.transpose_cycles(
        machine, found.dtype, n.elements, k
    ) + cost_rules.transpose_cycles(machine, accumulator, rows, n.elements)
    body = _interval(found, machine)
    vectors = n.elements * cost_rules.pieces(rows, machine.lanes(accumulator))
    step = product + turning + body * vectors + 40 + issue
    phase = found.geometry.elements(found.whole)
    folding = cost_rules.fold_cycles(machine, accumulator, found.geometry.shape, channels, phase)
    moved = n.elements * sum(cost_rules.granules(machine, rows * size) for size in beside) / rate
    moved += machine.dma_latency * (len(beside) + _TRANSFERS)
    moved += n.elements * k * item * machine.cores / machine.gsm_bytes_per_cycle
    stored = (
        channels * cost_rules.granules(machine, found.geometry.columns(found.whole) * item) / rate
    )
    fetched = box / run * cost_rules.granules(machine, run * item) / rate
    return _Block(
        n.blocks * step + folding, n.blocks * moved + stored + fetched, fetched + moved, stored
    )


@lru_cache(maxsize=4)
def _interval(found: ConvBackward, machine: MachineParameters) -> float:
    """Return the epilogue's cycles per vector, which all plans share."""
    return interval(
        machine, [o.element for o in found.chosen.epilogue.outputs], len(_beside(found))
    )


@lru_cache(maxsize=4)
def _beside(found: ConvBackward) -> list[int]:
    """Return the bytes per element of each tensor that the epilogue loads or stores."""
    epilogue = found.chosen.epilogue
    return [
        *(ELEMENT_BYTES[o.value.dtype] for o in epilogue.operands),
        *(ELEMENT_BYTES[o.element.dtype] for o in epilogue.outputs),
    ]


def _runs(form: ContractionForm) -> int:
    return cost_rules.even_runs(form.sizes(form.k))


def _box(
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
