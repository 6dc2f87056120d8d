"""Depthwise convolution as maps that multiply and add shifted copies of the input.

Example: with 3x3 windows, element p of a padded plane of rows of W elements gives
``sum over y, x of w[y, x] * plane[p + y * W + x]``. So all planes are one long line, and each tap
reads it from another offset, in runs that need no copy. The results that windows across the end of
a row give are not used.

With a stride of s, the padded input is stored as s * s planes, one for each phase of rows and
columns. Each tap then reads one of them, again at one offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import inf

from ftm_backend.ir.linalg.affine import Affine, row_major, volume
from ftm_backend.ir.linalg.body_builder import elementwise
from ftm_backend.ir.linalg.function import (
    LinalgFunction,
    Node,
    Operand,
    Statement,
    Tensor,
    Update,
    Value,
    WindowPart,
    copy_statement,
)
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.midend.algorithms.algorithm import Algorithm, replace_operation
from ftm_backend.midend.algorithms.unpadded_input import unpadded
from ftm_backend.symbolic import ceildiv
from ftm_backend.target.presets import MachineParameters

__all__ = ["TAPS", "WINDOWS"]

_MOST_TAPS = 49
"""Taps of a 7x7 window. Each is a pass over the input, so a window of many taps gains nothing."""

_MAP_TAPS = 10
"""Most taps of one map. Each needs a tile of its own, so more of them make tiles short."""


@dataclass(frozen=True)
class _Dimension:
    """Rows or columns: which phase of the input a tap reads, and from where.

    Attributes:
        stride: Distance of windows: the number of phases.
        taps: For each tap, its phase and the first element that it reads.
        results: Number of windows.
    """

    stride: int
    taps: tuple[tuple[int, int], ...]
    results: int

    @staticmethod
    def of(stride: int, dilation: int, taps: int, results: int) -> _Dimension:
        """Return the dimension of windows of ``taps`` taps."""
        offsets = [k * dilation for k in range(taps)]
        return _Dimension(stride, tuple((n % stride, n // stride) for n in offsets), results)

    @property
    def extent(self) -> int:
        """Elements of a phase that its windows read."""
        return self.results + max(start for _, start in self.taps)

    def inside(self, phase: int, low: int, size: int) -> tuple[int, int, int]:
        """Return which elements of an input are in a phase.

        Args:
            phase: The phase.
            low: Zeros before the input.
            size: Elements of the input.

        Returns:
            The first element of the input, its index in the phase, and the number of elements.
        """
        index = max(ceildiv(low - phase, self.stride), 0)
        first = index * self.stride + phase - low
        count = min(ceildiv(size - first, self.stride), self.extent - index)
        return first, index, max(count, 0)


def _dimensions(operation: Statement) -> list[_Dimension]:
    weight, result = operation.tensors[1], operation.results[0].value
    return [
        _Dimension.of(*numbers)
        for numbers in zip(
            operation.attributes.get("strides", (1, 1)),
            operation.attributes.get("dilations", (1, 1)),
            weight.view.sizes[1:],
            result.shape[2:],
            strict=True,
        )
    ]


def _cycles(operation: Statement, machine: MachineParameters, limit: float) -> float:
    """Return the multiply-adds of all lanes, including those for unused results."""
    del limit
    x, weight = operation.tensors
    (result,) = operation.results
    numbers = [
        *operation.loops,
        *(n for t in (x, weight) for n in (*t.view.sizes, *t.view.strides)),
    ]
    is_float = "f" in x.value.dtype and x.value.dtype == weight.value.dtype
    if not all(type(n) is int for n in numbers) or 0 in numbers[: len(operation.loops)]:
        return inf
    if not (result.starts_at_zero and is_float and volume(weight.view.sizes[1:]) <= _MOST_TAPS):
        return inf
    if unpadded(x) is None or weight.value.splat is not None:
        return inf
    planes, taps = volume(x.view.sizes[:2]), volume(weight.view.sizes[1:])
    elements = planes * volume([each.extent for each in _dimensions(operation)])
    passes = taps + 4 * ((taps - 1) // _MAP_TAPS)  # a map also loads and stores what others add up
    return elements * passes / (machine.lanes(result.value.dtype) * machine.cores)


def _windows_cycles(operation: Statement, machine: MachineParameters, limit: float) -> float:
    """Return the cycles of a reduction that handles the elements of a row of windows at once."""
    del limit
    columns, lanes = operation.loops[3], machine.lanes(operation.results[0].value.dtype)
    rows = operation.volume // columns if columns else 0
    return rows * (ceildiv(columns, lanes) + machine.vector_load_latency) / machine.cores


def _apply(function: LinalgFunction, operation: Statement) -> None:
    """Replace the convolution by the phases of its input, the map, and a copy of its results."""
    x, weight = operation.tensors
    (result,) = operation.results
    rows, columns = _dimensions(operation)
    images, channels = x.view.sizes[:2]
    plane = rows.extent * columns.extent
    each = images * channels * plane
    phases = list(dict.fromkeys((r, c) for (r, _), (c, _) in product(rows.taps, columns.taps)))
    moves, padded = _phases(x, rows, columns, phases)
    loops = (channels, images, plane)
    operands: list[tuple[Operand, Operand]] = []
    for (y, row), (k, column) in product(enumerate(rows.taps), enumerate(columns.taps)):
        start = phases.index((row[0], column[0])) * each + row[1] * columns.extent + column[1]
        across, down, along = weight.view.strides
        at = weight.view.offset + y * down + k * along
        window = Operand(padded, Affine(start, row_major(loops)))
        operands.append((window, Operand(weight.value, Affine(at, (across, 0, 0)))))
    maps: list[Statement] = []
    for first in range(0, len(operands), _MAP_TAPS):
        maps.append(
            _sum_of_products(
                operands[first : first + _MAP_TAPS],
                maps[-1].results[0].value if maps else None,
                Value(result.value.dtype, loops),
            )
        )
    whole = Strided.whole((channels, images, rows.extent, columns.extent))
    view = whole.slice(2, 0, rows.results).slice(3, 0, columns.results).permute((1, 0, 2, 3))
    computed = Tensor(maps[-1].results[0].value, view)
    replace_operation(function, operation, [*moves, *maps], computed)


def _sum_of_products(
    factors: list[tuple[Operand, Operand]], before: Value | None, result: Value
) -> Statement:
    """Return the map that computes ``result``: ``before`` plus a sum of products."""
    total = None
    if before is not None:
        total = _element(Operand(before, Affine(0, row_major(result.shape))), result.dtype)
    for pair in factors:
        a, b = (_element(each, result.dtype) for each in pair)
        term = Node("arith.mulf", result.dtype, (a, b))
        total = term if total is None else Node("arith.addf", result.dtype, (total, term))
    assert total is not None, "a window has taps"
    return elementwise(result, total)


def _element(operand: Operand, dtype: str) -> Node:
    node = Node("in", operand.value.dtype, payload=operand)
    return node if node.dtype == dtype else Node("arith.extf", dtype, (node,))


def _phases(
    x: Tensor, rows: _Dimension, columns: _Dimension, phases: list[tuple[int, int]]
) -> tuple[list[Statement | Update], Value]:
    """Return the operations that store the phases of a padded input, and the value with them.

    The images of a channel are adjacent. Behind the last plane are as many zeros as windows may
    read beyond it.
    """
    found = unpadded(x)
    assert found is not None
    inner, low = Tensor(found[0].value, found[0].view.permute((1, 0, 2, 3))), found[1]
    channels, images, *sizes = inner.view.sizes
    shape = (channels, images, rows.extent, columns.extent)
    beyond = max(n for _, n in rows.taps) * columns.extent + max(n for _, n in columns.taps)
    padded = Value(inner.value.dtype, (len(phases) * volume(shape) + beyond,))
    moves: list[Statement | Update] = []
    parts = []
    for number, phase in enumerate(phases):
        view, place = inner.view, Strided(shape, row_major(shape), number * volume(shape))
        for dim, dimension in enumerate((rows, columns)):
            first, index, count = dimension.inside(phase[dim], low[dim], sizes[dim])
            view = view.slice(2 + dim, first, count, dimension.stride)
            place = place.slice(2 + dim, index, count)
        if view.numel:
            move = copy_statement(Tensor(inner.value, view))
            moves.append(move)
            parts.append(WindowPart(Tensor.whole(move.results[0].value), place))
    zeros = Value(padded.dtype, padded.shape, splat=Node("constant", padded.dtype, payload=0.0))
    padded.producer = Update(padded, Tensor.whole(zeros), parts)
    return [*moves, padded.producer], padded


WINDOWS = Algorithm(
    "windows",
    "Sum the taps of one window after the other.",
    _windows_cycles,
    lambda function, operation: None,
)

TAPS = Algorithm(
    "taps",
    "Add up as many shifted inputs as a window has taps, in one map.",
    _cycles,
    _apply,
    needs_request=lambda operation, machine: machine.dma_overlaps,
)
"""The reduction over windows needs no padded copy if DMA pads, and overlaps its transfers."""
