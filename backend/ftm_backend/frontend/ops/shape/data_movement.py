"""Op records that move elements: concatenation, flips, padding, triangles, repetition."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.dtypes import ALL, STORED
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.concat import concat, concat_into, flip
from ftm_backend.frontend.oplib.op_registry import EXACT, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.scalar_math import Number, ScalarExpr
from ftm_backend.ir.linalg.strided_view import Strided

recorded("aten::cat", forbids_overlap=True, concatenates="dim")
recorded("aten::stack", concatenates="new_dim")
recorded("aten::narrow_copy", checks_dim=True, composite="serves")
recorded("aten::select_scatter aten::slice_scatter", tried=("always",))


@lowering("aten::cat", STORED, "cat", EXACT)
def _cat(b: LinalgBuilder, tensors: list[StridedValue], dim: int) -> StridedValue:
    """Write each tensor at its offset in the result."""
    shape, dtype = b.result.shape, b.result.dtype
    parts = [
        b.cast(t, dtype)
        for t in tensors
        if not (t.shape == (0,) and len(shape) != 1) and t.type.numel
    ]
    if not parts:
        return b.full(0, dtype, shape)
    if len(parts) == 1:
        return parts[0]
    dim %= len(shape)
    return concat(b, parts, dim)


@lowering("aten::stack", STORED, "stack", EXACT)
def _stack(b: LinalgBuilder, tensors: list[StridedValue], dim: int) -> StridedValue:
    dim %= len(b.result.shape)
    parts = [b.cast(t, b.result.dtype).unsqueeze(dim) for t in tensors]
    if b.result.numel == 0:
        return b.full(0, b.result.dtype, b.result.shape)
    return concat(b, parts, dim)


@lowering("aten::flip", ALL, "flip", EXACT)
def _flip(b: LinalgBuilder, self: StridedValue, dims: list[int]) -> StridedValue:
    return flip(b, self, dims)


@lowering("aten::roll", STORED, "roll", EXACT)
def _roll(b: LinalgBuilder, self: StridedValue, shifts: list[int], dims: list[int]) -> StridedValue:
    shape = self.shape
    x = self if dims else b.reshape(self, (self.type.numel,))
    for shift, dim in zip(shifts, dims or [0], strict=True):
        size = x.shape[dim] if x.rank else 1
        shift = shift % size if size else 0
        if shift:
            dim %= x.rank
            ahead, behind = x.slice(dim, size - shift, shift), x.slice(dim, 0, size - shift)
            x = concat_into(b, (ahead, behind), dim, x.shape, x.dtype)
    return b.reshape(x, shape)


def _triangle(name: str, keep: Callable[..., ScalarExpr]) -> None:
    @lowering(f"aten::{name}", ALL, "triangle", EXACT)
    def lower(b: LinalgBuilder, self: StridedValue, diagonal: int) -> StridedValue:
        rank = self.rank

        def body(v: ScalarExpr) -> ScalarExpr:
            return e.where(keep(b.index(rank - 1) - b.index(rank - 2), diagonal), v, 0)

        return b.pointwise(body, [self])


_triangle("tril", lambda distance, diagonal: distance <= diagonal)
_triangle("triu", lambda distance, diagonal: distance >= diagonal)


def _triangle_indices(name: str, lower_part: bool) -> None:
    @lowering(f"aten::{name}", ("i64", "i32"), "triangle_indices", EXACT)
    def lower(b: LinalgBuilder, row: int, col: int, offset: int = 0) -> StridedValue:
        """Return the coordinates of the triangle's elements, row by row.

        The number of elements before a row has a closed form, so bisection finds an element's row.
        """

        def clamped(last: ScalarExpr) -> ScalarExpr:
            """Return the sum of min(k, col) over 0 < k <= last."""
            inner = e.minimum(e.maximum(last, 0), col)
            return ((inner * (inner + 1)) >> 1) + e.maximum(last - col, 0) * col

        def before(line: ScalarExpr) -> ScalarExpr:
            """Return the number of elements in the rows before ``line``."""
            start = b.constant(offset if lower_part else offset - 1, "i64")
            lower_count = clamped(line + start) - clamped(start)
            return lower_count if lower_part else line * col - lower_count

        def body() -> ScalarExpr:
            element, line = b.index(1), b.constant(0, "i64")
            step = 1 << max(0, row - 1).bit_length() >> 1
            while step:
                further = line + step
                line = e.where((further < row) & (before(further) <= element), further, line)
                step >>= 1
            first = (
                b.constant(0, "i64") if lower_part else e.minimum(e.maximum(line + offset, 0), col)
            )
            return e.where(b.index(0).eq(0), line, element - before(line) + first)

        shape = b.result.shape
        return b.generic(shape, [], [LoopOutput(b.result.dtype, shape, (0, 1))], body)[0]


_triangle_indices("tril_indices", True)
_triangle_indices("triu_indices", False)


@lowering("aten::constant_pad_nd", ALL, "pad", EXACT)
def _pad(b: LinalgBuilder, self: StridedValue, pad: list[int], value: Number) -> StridedValue:
    low, high = [0] * self.rank, [0] * self.rank
    for k in range(len(pad) // 2):
        low[self.rank - 1 - k], high[self.rank - 1 - k] = pad[2 * k], pad[2 * k + 1]
    if b.result.numel == 0:
        return b.full(0, self.dtype, b.result.shape)
    if self.type.numel == 0:
        return b.full(value, self.dtype, b.result.shape)
    return b.pad(self, low, high, value)


@lowering("aten::repeat", ALL, "repeat", EXACT)
def _repeat(b: LinalgBuilder, self: StridedValue, repeats: list[int]) -> StridedValue:
    shape = (1,) * (len(repeats) - self.rank) + self.shape
    if b.result.numel == 0:
        return b.full(0, self.dtype, b.result.shape)
    split = [n for size in shape for n in (1, size)]
    full = [n for size, times in zip(shape, repeats, strict=True) for n in (times, size)]
    return b.reshape(b.reshape(self, split).expand(full), b.result.shape)


@lowering("aten::slice_scatter aten::select_scatter", ALL, "slice_scatter", EXACT)
def _slice_scatter(
    b: LinalgBuilder,
    self: StridedValue,
    src: StridedValue,
    dim: int,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    index: int | None = None,
) -> StridedValue:
    dim %= self.rank
    whole, src = Strided.whole(self.shape), b.cast(src, self.dtype)
    if index is not None:
        return b.update(self, src, whole.select(dim, index % self.shape[dim]))
    size = self.shape[dim]
    first = 0 if start is None else max(0, min(size, start + size if start < 0 else start))
    return b.update(self, src, whole.slice(dim, first, src.shape[dim], step))


@lowering("aten::select_backward aten::slice_backward", ALL, "slice_backward", EXACT)
def _slice_backward(
    b: LinalgBuilder,
    grad_output: StridedValue,
    input_sizes: list[int],
    dim: int,
    index: int | None = None,
    start: int = 0,
    end: int = 0,
    step: int = 1,
) -> StridedValue:
    """Insert the gradient into zeros."""
    zeros, whole = b.full(0, b.result.dtype, input_sizes), Strided.whole(input_sizes)
    dim %= len(input_sizes)
    size = input_sizes[dim]
    if index is not None:
        return b.update(zeros, grad_output, whole.select(dim, index % size))
    first = max(0, min(size, start + size if start < 0 else start))
    return b.update(zeros, grad_output, whole.slice(dim, first, grad_output.shape[dim], step))
