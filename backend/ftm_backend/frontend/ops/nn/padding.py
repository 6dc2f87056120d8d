"""Op records of reflection and replication padding in one to three dimensions, with gradients.

A padded dimension consists of a border, the tensor, and a second border. Each is a window of the
tensor or its mirror image, so symbolic sizes work. Negative padding crops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ftm_backend.dtypes import FLOATS, NUMBERS, compute_dtype
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.concat import concat, flip
from ftm_backend.frontend.oplib.op_registry import EXACT, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.reductions import sum_of
from ftm_backend.symbolic import statically_known_nonnegative, sym_max

recorded(
    "aten::reflection_pad2d aten::reflection_pad3d aten::replication_pad2d aten::replication_pad3d",
    like=0,
)
recorded(
    "aten::reflection_pad2d_backward aten::reflection_pad3d_backward"
    " aten::replication_pad2d_backward aten::replication_pad3d_backward",
    like=1,
)

_CORNERS = {"f64": (1e-11, 1e-11), "f32": (2e-5, 1e-5), "f16": (4e-2, 1e-2), "bf16": (2e-1, 1e-1)}
"""Tolerance of the gradients: PyTorch's CPU kernels accumulate in the half types."""


class _Part(NamedTuple):
    """A range of the result along one dimension, and its source window.

    Attributes:
        start: First element of the window.
        length: Length of the window.
        extent: Length of the range: `length`, or any if the window has one element.
        mirrored: Read the window backwards.
    """

    start: int
    length: int
    extent: int
    mirrored: bool = False


Border = Callable[[int, int, int], _Part]
"""Returns the part for positions [begin, end), all before or all after a dimension's elements."""


def _reflected(begin: int, end: int, size: int) -> _Part:
    first = 1 - end if statically_known_nonnegative(-end) else 2 * (size - 1) - end + 1
    return _Part(first, end - begin, end - begin, mirrored=True)


def _replicated(begin: int, end: int, size: int) -> _Part:
    return _Part(0 if statically_known_nonnegative(-end) else size - 1, 1, end - begin)


def _parts(size: int, before: int, behind: int, border: Border) -> list[_Part]:
    """Return the parts of a padded dimension."""
    begin, end = -before, size + behind
    # end of the first border, begin of the second
    first, last = -sym_max(-end, 0), sym_max(begin, size)
    inside = sym_max(begin, 0), -sym_max(-end, -size)
    parts = []
    if first > begin:
        parts.append(border(begin, first, size))
    if inside[1] > inside[0]:
        parts.append(_Part(inside[0], inside[1] - inside[0], inside[1] - inside[0]))
    if end > last:
        parts.append(border(last, end, size))
    return parts


def _padded(b: LinalgBuilder, x: StridedValue, dim: int, parts: Sequence[_Part]) -> StridedValue:
    result = []
    for part in parts:
        window = x.slice(dim, part.start, part.length)
        shape = (*x.shape[:dim], part.extent, *x.shape[dim + 1 :])
        result.append(flip(b, window, [dim]) if part.mirrored else window.expand(shape))
    return concat(b, result, dim)


def _gathered(
    b: LinalgBuilder, grad: StridedValue, dim: int, size: int, parts: Sequence[_Part]
) -> StridedValue:
    """Return the gradient: add each part to its source window."""
    total, begin = None, 0
    for part in parts:
        own = grad.slice(dim, begin, part.extent)
        if part.mirrored:
            own = flip(b, own, [dim])
        elif part.length != part.extent:
            own = sum_of(b, own, [dim], grad.dtype)
        low, high = [0] * grad.rank, [0] * grad.rank
        low[dim], high[dim] = part.start, size - part.start - part.length
        placed = b.pad(own, low, high, 0)
        total = (
            placed
            if total is None
            else b.pointwise(lambda x, y: x + y, [total, placed], placed.type)
        )
        begin += part.extent
    assert total is not None  # the caller handles empty gradients
    return total


def _border(kind: str, border: Border, dims: int) -> None:
    def each(shape: tuple[int, ...], padding: list[int]) -> list[tuple[int, list[_Part]]]:
        """Return padded dimensions and their parts; `padding` begins with the last dimension."""
        rank = len(shape)
        return [
            (rank - 1 - k, _parts(shape[rank - 1 - k], padding[2 * k], padding[2 * k + 1], border))
            for k in range(dims)
        ]

    @lowering(f"aten::{kind}_pad{dims}d", (*NUMBERS, "i1"), "border", EXACT)
    def forward(b: LinalgBuilder, self: StridedValue, padding: list[int]) -> StridedValue:
        if not b.result.numel:
            return b.full(0, self.dtype, b.result.shape)
        result = self
        for dim, parts in each(self.shape, padding):
            result = _padded(b, result, dim, parts)
        return result

    @lowering(f"aten::{kind}_pad{dims}d_backward", FLOATS, "border_backward", _CORNERS)
    def backward(
        b: LinalgBuilder, grad_output: StridedValue, self: StridedValue, padding: list[int]
    ) -> StridedValue:
        if not grad_output.type.numel or not self.type.numel:
            return b.full(0, self.dtype, self.shape)
        result = b.cast(grad_output, compute_dtype(self.dtype))
        for dim, parts in each(self.shape, padding):
            result = _gathered(b, result, dim, self.shape[dim], parts)
        return b.cast(result, self.dtype)


for _dims in (1, 2, 3):
    _border("reflection", _reflected, _dims)
    _border("replication", _replicated, _dims)
