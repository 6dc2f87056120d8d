"""Strided convolutions transposed, without the zeros between the elements that their windows are
multiplied with.

Element ``stride * i + r`` of the result meets only every ``stride``-th tap. So the elements of one
*phase* ``r`` are a dense correlation of the input with some of the taps, and the result is the
phases, interleaved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd

from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.strided_layout import Strided
from ftm_backend.symbolic import ceildiv

__all__ = ["interleaved_phases"]

Correlate = Callable[[StridedValue, StridedValue, Sequence[int]], StridedValue]


@dataclass(frozen=True)
class _Phase:
    """Of one dimension: taps ``first + step * t`` for ``t < count``; the last one's elements start
    at ``start``, ``spacing`` each."""

    first: int
    step: int
    count: int
    start: int
    spacing: int

    @property
    def end(self) -> int:
        """Where the elements of the first tap start."""
        return self.start + self.spacing * (self.count - 1)


def _phase(r: int, stride: int, padding: int, dilation: int, taps: int) -> _Phase | None:
    """Phase ``r`` of a dimension; None where no tap meets it."""
    common = gcd(dilation, stride)
    step, spacing = stride // common, dilation // common
    for first in range(min(step, taps)):
        if (r + padding - dilation * first) % stride == 0:
            count = (taps - first + step - 1) // step
            return _Phase(
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
    """The transposed convolution of x[N,F,...] with ``weight`` [C,F/groups,...]; gives [N,C,*size]
    in the compute dtype.

    Args:
        b: the builder. correlate: of a part of x with some taps, both dense, which lie so far apart
        in each dimension.
    """
    taps = weight.shape[2:]
    every = [
        [_phase(r, s, p, d, k) for r in range(s)]
        for s, p, d, k in zip(stride, padding, dilation, taps, strict=True)
    ]
    known = [[phase for phase in phases if phase is not None] for phases in every]
    steps = [ceildiv(n, s) for n, s in zip(size, stride, strict=True)]
    low = [max(-phase.start for phase in phases) for phases in known]
    high = [
        max(phase.end for phase in phases) + i - n
        for phases, i, n in zip(known, steps, x.shape[2:], strict=True)
    ]
    bordered = b.pad(x, [0, 0, *low], [0, 0, *high], 0)

    def dense(phases: Sequence[_Phase]) -> StridedValue:
        """All elements of one phase in each dimension, [N,C,*steps]."""
        part = bordered
        for dim, (phase, before, count) in enumerate(zip(phases, low, steps, strict=True), start=2):
            part = part.slice(dim, before + phase.start, count + phase.end - phase.start)
        return correlate(part, _some_taps(b, weight, phases), [phase.spacing for phase in phases])

    return _interleaved(b, every, (x.shape[0], weight.shape[0], *size), dense)


def _some_taps(b: LinalgBuilder, weight: StridedValue, phases: Sequence[_Phase]) -> StridedValue:
    """The phases' taps, the last one first, as a tensor of its own."""
    shape = (*weight.shape[:2], *(phase.count for phase in phases))
    index = [
        b.dim(0),
        b.dim(1),
        *(
            b.dim(k) * -phase.step + (phase.first + phase.step * (phase.count - 1))
            for k, phase in enumerate(phases, start=2)
        ),
    ]
    (made,) = b.generic(
        shape,
        [LoopInput(weight, index)],
        [LoopOutput(weight.dtype, shape, range(len(shape)))],
        lambda v: v,
    )
    return made


def _interleaved(
    b: LinalgBuilder,
    every: Sequence[Sequence[_Phase | None]],
    shape: Sequence[int],
    dense: Callable[[Sequence[_Phase]], StridedValue],
) -> StridedValue:
    """Phases ``dense(...)`` in their places of a tensor of ``shape``; zeros where there are none.

    The phases of a row are put together first, one after the other, and then turned: so that whole
    rows are written.
    """
    *outer, inner = every
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
        made = [None if phase is None else dense((*rows, phase)) for phase in inner]
        first = next(m for m in made if m is not None)
        dtype = first.dtype
        together = _stacked(b, made, first.shape, dtype)
        for dim, count in enumerate(counts, start=3):
            together = together.slice(dim, 0, count)
        offset = sum(r * step for r, step in zip(residues, strides[2:-1], strict=True))
        steps = (
            *strides[:2],
            *(step * len(phases) for step, phases in zip(strides[2:-1], outer, strict=True)),
        )
        last = together.rank - 1
        turned = together.slice(last, 0, whole).permute((*range(1, together.rank), 0))
        parts.append((b.copy(turned), Strided(turned.shape, (*steps, stride, 1), offset)))
        for r in range(width - whole * stride):
            column = together.slice(0, r, 1).slice(last, whole, 1)
            parts.append(
                (column, Strided(column.shape, (0, *steps, stride), offset + whole * stride + r))
            )
    complete = all(phase is not None for phases in every for phase in phases)
    return b.placed(b.empty(dtype, shape) if complete else b.full(0, dtype, shape), parts)


def _stacked(
    b: LinalgBuilder, made: Sequence[StridedValue | None], shape: Sequence[int], dtype: str
) -> StridedValue:
    """Tensors of ``shape`` as one, along a new first dimension; zeros for those that are None."""
    whole = (len(made), *shape)
    strides = row_major(whole)
    parts = [
        (m, Strided(m.shape, strides[1:], r * strides[0]))
        for r, m in enumerate(made)
        if m is not None
    ]
    return b.placed(b.empty(dtype, whole) if None not in made else b.full(0, dtype, whole), parts)
