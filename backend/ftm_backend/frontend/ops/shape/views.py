"""Op records of views: PyTorch's view ops, and the recorder's ``ftm.view`` and ``ftm.update``.

A view lowers to another access into the same buffer, without an operation; see
`frontend/strided_value.py`.
"""

from __future__ import annotations

from ftm_backend.dtypes import STORED, info
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.op_registry import EXACT, lowering
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.symbolic import guarded_equal


@lowering(
    "aten::view aten::_unsafe_view aten::reshape aten::_reshape_alias aten::unsqueeze"
    " aten::squeeze aten::squeeze.dim aten::squeeze.dims aten::flatten.using_ints"
    " aten::unflatten.int aten::view_copy",
    STORED,
    "view",
    EXACT,
)
def _reshape(b: LinalgBuilder, self: StridedValue, **_: object) -> StridedValue:
    return b.reshape(self, b.result.shape)


@lowering("aten::expand aten::broadcast_to aten::expand_copy", STORED, "view", EXACT)
def _expand(b: LinalgBuilder, self: StridedValue, size: list[int]) -> StridedValue:
    return self.expand(b.result.shape)


@lowering("aten::transpose.int", STORED, "view", EXACT)
def _transpose(b: LinalgBuilder, self: StridedValue, dim0: int, dim1: int) -> StridedValue:
    return self.transpose(dim0, dim1) if self.rank else self


@lowering("aten::t aten::t_copy", STORED, "view", EXACT)
def _t(b: LinalgBuilder, self: StridedValue) -> StridedValue:
    return self.transpose(0, 1) if self.rank == 2 else self


@lowering("aten::permute aten::permute_copy", STORED, "view", EXACT)
def _permute(b: LinalgBuilder, self: StridedValue, dims: list[int]) -> StridedValue:
    return self.permute([d % self.rank for d in dims])


@lowering("aten::slice.Tensor aten::slice_copy.Tensor", STORED, "view", EXACT)
def _slice(
    b: LinalgBuilder, self: StridedValue, dim: int, start: int | None, end: int | None, step: int
) -> StridedValue:
    dim %= self.rank
    size = self.shape[dim]
    start = 0 if start is None else max(0, min(size, start + size if start < 0 else start))
    return self.slice(dim, start, b.result.shape[dim], step)


@lowering("aten::narrow", STORED, "view", EXACT)
def _narrow(
    b: LinalgBuilder, self: StridedValue, dim: int, start: int, length: int
) -> StridedValue:
    dim %= self.rank
    return self.slice(dim, start % self.shape[dim] if self.shape[dim] else 0, length)


@lowering("aten::select.int aten::select_copy.int", STORED, "view", EXACT)
def _select(b: LinalgBuilder, self: StridedValue, dim: int, index: int) -> StridedValue:
    dim %= self.rank
    return self.at(self.access.select(dim, index % self.shape[dim]))


@lowering("aten::diagonal aten::diagonal_copy", STORED, "view", EXACT)
def _diagonal(
    b: LinalgBuilder, self: StridedValue, offset: int, dim1: int, dim2: int
) -> StridedValue:
    dim1, dim2 = dim1 % self.rank, dim2 % self.rank
    rest = [k for k in range(self.rank) if k not in (dim1, dim2)]
    strides = self.access.strides
    start = self.access.offset + (
        offset * strides[dim2] if offset >= 0 else -offset * strides[dim1]
    )
    length = b.result.shape[-1]
    return self.at(
        Strided(
            (*(self.shape[k] for k in rest), length),
            (*(strides[k] for k in rest), strides[dim1] + strides[dim2]),
            start if length else self.access.offset,
        )
    )


@lowering("aten::unfold", STORED, "view", EXACT)
def _unfold(
    b: LinalgBuilder, self: StridedValue, dimension: int, size: int, step: int
) -> StridedValue:
    a = self.access
    if not self.rank:
        return b.reshape(self, b.result.shape)
    dimension %= self.rank
    strides = list(a.strides)
    strides[dimension] *= step
    return self.at(Strided(b.result.shape, (*strides, a.strides[dimension]), a.offset))


@lowering(
    "aten::split.Tensor aten::split_with_sizes aten::chunk aten::unbind.int", STORED, "split", EXACT
)
def _split(b: LinalgBuilder, self: StridedValue, dim: int, **_: object) -> tuple[StridedValue, ...]:
    dim %= self.rank
    start, parts = 0, []
    for result in b.results:
        assert result is not None, "a part is undefined"
        unbound = len(result.shape) < self.rank
        length = 1 if unbound else result.shape[dim]
        part = self.slice(dim, start, length)
        parts.append(b.reshape(part, result.shape) if unbound else part)
        start += length
    return tuple(parts)


@lowering("aten::as_strided aten::as_strided_copy", STORED, "as_strided", EXACT)
def _as_strided(
    b: LinalgBuilder,
    self: StridedValue,
    size: list[int],
    stride: list[int],
    storage_offset: int | None,
) -> StridedValue:
    return b.strided(self, Strided(tuple(size), tuple(stride), storage_offset or 0))


@lowering("ftm.view", STORED, "view", EXACT)
def _view(
    b: LinalgBuilder, base: StridedValue, sizes: list[int], strides: list[int], offset: int
) -> StridedValue:
    return b.strided(base, Strided(tuple(sizes), tuple(strides), offset))


@lowering("ftm.update", STORED, "view", EXACT)
def _update(
    b: LinalgBuilder,
    base: StridedValue,
    value: StridedValue,
    sizes: list[int],
    strides: list[int],
    offset: int,
) -> StridedValue:
    access = Strided(tuple(sizes), tuple(strides), offset)
    order = sorted(range(len(sizes)), key=lambda k: -strides[k])
    sorted_access = access.permute(order)
    whole = (
        guarded_equal(sorted_access.numel, len_flat(base))
        and guarded_equal(offset, 0)
        and sorted_access.is_contiguous()
    )
    if whole and sorted_access.strides == row_major(sorted_access.sizes):
        # every element is overwritten
        return b.reshape(value.permute(order), base.shape)
    return b.update(base, value, access)


def len_flat(x: StridedValue) -> int:
    """Return the number of elements."""
    return x.type.numel


@lowering("ftm.bitcast", STORED, "view", EXACT)
def _bitcast(b: LinalgBuilder, base: StridedValue, dtype: str) -> StridedValue:
    old, new = (_width(token) for token in (base.dtype, dtype))
    base = b.reshape(base, (base.type.numel,))
    if old == new:
        result = _reinterpret(b, base, dtype)
    elif old > new:
        result = _reinterpret(b, _split_words(b, _reinterpret(b, base, f"i{old}"), new), dtype)
    else:
        result = _reinterpret(b, _join_words(b, _reinterpret(b, base, f"u{old}"), new), dtype)
    return b.reshape(result, b.result.shape)


def _width(token: str) -> int:
    """Return the width in memory in bits; a bool takes a byte."""
    return max(8, info(token).bits)


def _reinterpret(b: LinalgBuilder, x: StridedValue, dtype: str) -> StridedValue:
    """Reinterpret bits as a dtype of the same width; for bools, nonzero bytes are True."""
    if x.dtype == dtype or "i1" in (x.dtype, dtype):
        return b.cast(x, dtype)
    if info(x.dtype).builtin == info(dtype).builtin:
        return b.reinterpret(x, dtype)
    return b.pointwise(lambda e: e.bitcast(dtype), [x])


def _split_words(b: LinalgBuilder, x: StridedValue, width: int) -> StridedValue:
    """Split integers into words of `width` bits, low words first."""
    count = _width(x.dtype) // width
    shape = (*x.shape, count)

    def body(word: ScalarExpr) -> ScalarExpr:
        return word >> (b.index(1) * width).to(x.dtype)

    return b.generic(shape, [LoopInput(x, [0])], [LoopOutput(f"i{width}", shape, [0, 1])], body)[0]


def _join_words(b: LinalgBuilder, x: StridedValue, width: int) -> StridedValue:
    """Join words to integers of `width` bits, by summing shifted words."""
    factor = width // _width(x.dtype)
    count = x.type.numel // factor
    x = b.reshape(x, (count, factor))

    def body(word: ScalarExpr, sum_: ScalarExpr) -> ScalarExpr:
        return sum_ + (word.to(f"i{width}") << (b.index(1) * _width(x.dtype)).to(f"i{width}"))

    return b.generic(
        (count, factor),
        [LoopInput(x, [0, 1])],
        [LoopOutput(f"i{width}", (count,), [0], 0)],
        body,
        reduced=[1],
    )[0]
