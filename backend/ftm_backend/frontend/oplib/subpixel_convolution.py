"""Lowering of strided transposed convolutions without multiplying by inserted zeros.

Element ``stride * i + r`` of the result depends on every ``stride``-th tap only. The elements of
one *phase* ``r`` are therefore a dense correlation of the input with some of the taps, and the
result interleaves the phases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd

from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.symbolic import ceildiv

Correlate = Callable[[StridedValue, StridedValue, Sequence[int]], StridedValue]


@dataclass(frozen=True)
class Phase:
    """One phase in one dimension.

    Attributes:
        first: Its first tap.
        step: Distance of its taps.
        count: Number of its taps.
        start: First input element that its last tap reads.
        spacing: Distance between the input elements of consecutive taps.
    """

    first: int
    step: int
    count: int
    start: int
    spacing: int

    @property
    def end(self) -> int:
        """First input element that the first tap reads."""
        return self.start + self.spacing * (self.count - 1)


def phases_of(stride: int, padding: int, dilation: int, taps: int) -> list[Phase | None]:
    """Return the phases of a dimension; None for those to which no tap contributes."""
    return [_phase(r, stride, padding, dilation, taps) for r in range(stride)]


def _phase(r: int, stride: int, padding: int, dilation: int, taps: int) -> Phase | None:
    """Return phase `r` of a dimension, or None if no tap contributes to it."""
    common = gcd(dilation, stride)
    step, spacing = stride // common, dilation // common
    for first in range(min(step, taps)):
        if (r + padding - dilation * first) % stride == 0:
            count = (taps - first + step - 1) // step
            return Phase(
                first,
                step,
                count,
                (r + padding - dilation * first) // stride - spacing * (count - 1),
                spacing,
            )
    return None


def interleaved_phases(
    b: LinalgBuilder,
    x: StridedValue,
    weight: StridedValue,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    size: Sequence[int],
    correlate: Correlate,
) -> StridedValue:
    """Compute the transposed convolution of x[N,F,...] with `weight` [C,F/groups,...].

    Args:
        b: The builder.
        x: The input.
        weight: The taps.
        stride: By spatial dimension.
        padding: By spatial dimension.
        dilation: By spatial dimension.
        size: Spatial shape of the result.
        correlate: Correlates a dense part of x with dense taps, given the distances between taps.

    Returns:
        [N,C,*size] in the compute dtype.
    """
    taps = weight.shape[2:]
    phases_by_dim = [
        phases_of(*numbers) for numbers in zip(stride, padding, dilation, taps, strict=True)
    ]
    phases_with_taps = [
        [phase for phase in phases if phase is not None] for phases in phases_by_dim
    ]
    steps = [ceildiv(n, s) for n, s in zip(size, stride, strict=True)]
    low = [max(-phase.start for phase in phases) for phases in phases_with_taps]
    high = [
        max(phase.end for phase in phases) + i - n
        for phases, i, n in zip(phases_with_taps, steps, x.shape[2:], strict=True)
    ]
    bordered = b.pad(x, [0, 0, *low], [0, 0, *high], 0)

    def dense(phases: Sequence[Phase]) -> StridedValue:
        """Return all elements of one phase in each dimension, [N,C,*steps]."""
        part = bordered
        for dim, (phase, before, count) in enumerate(zip(phases, low, steps, strict=True), start=2):
            part = part.slice(dim, before + phase.start, count + phase.end - phase.start)
        return correlate(part, _some_taps(b, weight, phases), [phase.spacing for phase in phases])

    return _interleaved(b, phases_by_dim, (x.shape[0], weight.shape[0], *size), dense)


def _some_taps(b: LinalgBuilder, weight: StridedValue, phases: Sequence[Phase]) -> StridedValue:
    """Return the taps of the phases as a dense tensor, last tap first."""
    shape = (*weight.shape[:2], *(phase.count for phase in phases))
    index = [
        b.dim(0),
        b.dim(1),
        *(
            b.dim(k) * -phase.step + (phase.first + phase.step * (phase.count - 1))
            for k, phase in enumerate(phases, start=2)
        ),
    ]
    (result,) = b.generic(
        shape,
        [LoopInput(weight, index)],
        [LoopOutput(weight.dtype, shape, range(len(shape)))],
        lambda v: v,
    )
    return result


def _interleaved(
    b: LinalgBuilder,
    phases_by_dim: Sequence[Sequence[Phase | None]],
    shape: Sequence[int],
    dense: Callable[[Sequence[Phase]], StridedValue],
) -> StridedValue:
    """Interleave the phases into a tensor of `shape`; zeros for phases without taps.

    The phases of a row are first stacked and then transposed, so that whole rows are written.
    """
    *outer, inner = phases_by_dim
    stride, width = len(inner), shape[-1]
    strides = row_major(shape)
    whole = width // stride
    parts: list[tuple[StridedValue, Strided]] = []
    dtype = ""
    for residues in product(*(range(len(phases)) for phases in outer)):
        rows = [
            phase
            for phases, r in zip(outer, residues, strict=True)
            if (phase := phases[r]) is not None
        ]
        if len(rows) < len(outer):
            continue
        counts = [
            (n - r + len(phases) - 1) // len(phases)
            for n, r, phases in zip(shape[2:-1], residues, outer, strict=True)
        ]
        computed = [None if phase is None else dense((*rows, phase)) for phase in inner]
        first = next(m for m in computed if m is not None)
        dtype = first.dtype
        stacked = _stacked(b, computed, first.shape, dtype)
        for dim, count in enumerate(counts, start=3):
            stacked = stacked.slice(dim, 0, count)
        offset = sum(r * step for r, step in zip(residues, strides[2:-1], strict=True))
        steps = (
            *strides[:2],
            *(step * len(phases) for step, phases in zip(strides[2:-1], outer, strict=True)),
        )
        last = stacked.rank - 1
        interleaved = stacked.slice(last, 0, whole).permute((*range(1, stacked.rank), 0))
        parts.append((b.copy(interleaved), Strided(interleaved.shape, (*steps, stride, 1), offset)))
        for r in range(width - whole * stride):
            column = stacked.slice(0, r, 1).slice(last, whole, 1)
            parts.append(
                (column, Strided(column.shape, (0, *steps, stride), offset + whole * stride + r))
            )
    complete = all(phase is not None for phases in phases_by_dim for phase in phases)
    return b.insert_slices(b.empty(dtype, shape) if complete else b.full(0, dtype, shape), parts)


def _stacked(
    b: LinalgBuilder, result: Sequence[StridedValue | None], shape: Sequence[int], dtype: str
) -> StridedValue:
    """Stack tensors of `shape` along a new first dimension; None stands for zeros."""
    whole = (len(result), *shape)
    strides = row_major(whole)
    parts = [
        (m, Strided(m.shape, strides[1:], r * strides[0]))
        for r, m in enumerate(result)
        if m is not None
    ]
    return b.insert_slices(
        b.empty(dtype, whole) if None not in result else b.full(0, dtype, whole), parts
    )
