"""Op records that write or reduce along one dimension: scatter and index_add and their variants."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.dtypes import ALL, FLOATS, NUMBERS, compute_dtype
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import (
    checked_index,
    dim_to_rows,
    divide_by_counts,
    rows_to_dim,
    scatter_reduction,
    scatter_rows,
    wrapped_index,
)
from ftm_backend.frontend.oplib.op_registry import EXACT, SUMS, lowering
from ftm_backend.frontend.oplib.op_traits import IndexArguments, recorded
from ftm_backend.frontend.scalar_math import Number, ScalarExpr
from ftm_backend.ir.linalg.affine import row_major

recorded(
    "aten::index_add aten::index_copy aten::index_reduce",
    indices=IndexArguments(2, "dim"),
    forbids_overlap=True,
    tried=("always",),
)
recorded(
    "aten::index_fill",
    indices=IndexArguments(2, "dim", wraps=True),
    forbids_overlap=True,
    value_is_number=True,
    tried=("always",),
)
recorded(
    "aten::scatter aten::scatter_add aten::scatter_reduce",
    indices=IndexArguments(2, "dim"),
    forbids_overlap=True,
)

# --- along a dimension, element by element
# -----------------------------------------------------------------------


def element_rows(
    b: LinalgBuilder, shape: tuple[int, ...], dim: int, index: StridedValue
) -> StridedValue:
    """Return the flat index into `shape` of each element of `index` along `dim`, i64 [count]."""
    strides = row_major(shape)

    def body(position: ScalarExpr) -> ScalarExpr:
        flat = checked_index(position, shape[dim]) * strides[dim]
        for k in range(len(shape)):
            if k != dim:
                flat = flat + b.index(k) * strides[k]
        return flat

    result = b.pointwise(body, [index])
    return b.reshape(result, (index.type.numel,))


def _column(
    b: LinalgBuilder, source: StridedValue | Number, index: StridedValue, dtype: str
) -> StridedValue:
    """Return the scattered values as [count, 1] of `dtype`.

    `source` is a number, or a tensor that covers at least `index`.
    """
    if not isinstance(source, StridedValue):
        return b.full(source, dtype, (index.type.numel, 1))
    source = source if source.rank else b.reshape(source, (1,))
    for k, n in enumerate(index.shape):
        source = source.slice(k, 0, n)
    return b.reshape(b.cast(source, dtype), (index.type.numel, 1))


def _scatter(
    b: LinalgBuilder,
    self: StridedValue,
    dim: int,
    index: StridedValue,
    source: StridedValue | Number,
    reduce: str | None = None,
    include_self: bool = True,
) -> StridedValue:
    """Set or reduce `source` into self at `index` along `dim`."""
    kind, dtype, identity = (
        scatter_reduction(reduce, self.dtype) if reduce is not None else ("set", self.dtype, 0)
    )
    shape = self.shape or (1,)
    index = index if index.rank else b.reshape(index, (1,))
    if not index.type.numel:
        return self
    rows, dest = (
        element_rows(b, shape, dim % len(shape), index),
        b.reshape(b.cast(self, dtype), (self.type.numel, 1)),
    )
    total = _combined(
        b,
        dest,
        rows,
        _column(b, source, index, dtype),
        kind,
        identity,
        include_self,
        reduce == "mean",
    )
    return b.as_type(total, self.type)


def _combined(
    b: LinalgBuilder,
    dest: StridedValue,
    rows: StridedValue,
    updates: StridedValue,
    kind: str,
    identity: float,
    include_self: bool,
    mean: bool,
) -> StridedValue:
    """Reduce rows of `updates` into `dest`; without `include_self`, start from the identity."""
    start = dest
    if not include_self:
        start = scatter_rows(b, dest, rows, b.full(identity, dest.dtype, updates.shape), "set")
    total = scatter_rows(b, start, rows, updates, kind)
    if not mean:
        return total
    ones = b.full(1, dest.dtype, (rows.type.numel, 1))
    counts = scatter_rows(
        b, b.full(int(include_self), dest.dtype, (dest.shape[0], 1)), rows, ones, "add"
    )
    return divide_by_counts(b, total, counts)


@lowering("aten::scatter.src aten::scatter.value", ALL, "scatter", EXACT)
def _scatter_set(
    b: LinalgBuilder,
    self: StridedValue,
    dim: int,
    index: StridedValue,
    src: StridedValue | None = None,
    value: Number = 0,
) -> StridedValue:
    return _scatter(b, self, dim, index, value if src is None else src)


@lowering("aten::scatter_add", ALL, "scatter_add", SUMS)
def _scatter_add(
    b: LinalgBuilder, self: StridedValue, dim: int, index: StridedValue, src: StridedValue
) -> StridedValue:
    return _scatter(b, self, dim, index, src, "sum")


@lowering(
    "aten::scatter.reduce aten::scatter.value_reduce aten::scatter_reduce.two",
    ALL,
    "scatter_reduce",
    SUMS,
)
def _scatter_reduce(
    b: LinalgBuilder,
    self: StridedValue,
    dim: int,
    index: StridedValue,
    reduce: str,
    src: StridedValue | None = None,
    value: Number = 0,
    include_self: bool = True,
) -> StridedValue:
    return _scatter(b, self, dim, index, value if src is None else src, reduce, include_self)


# --- whole slices of a dimension
# ------------------------------------------------------------------------------


def _slices(
    b: LinalgBuilder, self: StridedValue, dim: int, index: StridedValue
) -> tuple[StridedValue, int, StridedValue]:
    """Return self with at least one dimension, dim >= 0, and the indices as i64 [count]."""
    self = self if self.rank else b.reshape(self, (1,))
    return self, dim % self.rank, b.reshape(index, (index.type.numel,))


def _checked(
    b: LinalgBuilder,
    index: StridedValue,
    size: int,
    check: Callable[[ScalarExpr, int], ScalarExpr] = checked_index,
) -> StridedValue:
    return b.pointwise(lambda position: check(position, size), [index])


def _put_slices(
    b: LinalgBuilder,
    self: StridedValue,
    dim: int,
    index: StridedValue,
    source: StridedValue | Number,
    check: Callable[[ScalarExpr, int], ScalarExpr],
) -> StridedValue:
    """Write slice k of `source` (a tensor or a number) at ``index[k]`` along `dim`."""
    x, dim, index = _slices(b, self, dim, index)
    dest = dim_to_rows(b, x, dim)
    rows = _checked(b, index, x.shape[dim], check)
    if isinstance(source, StridedValue):
        updates = dim_to_rows(
            b, b.cast(source if source.rank else b.reshape(source, (1,)), x.dtype), dim
        )
    else:
        updates = b.full(source, x.dtype, (index.type.numel, dest.shape[1]))
    result = scatter_rows(b, dest, rows, updates, "set")
    return b.reshape(rows_to_dim(b, result, x.shape, dim), self.shape)


@lowering("aten::index_copy", ALL, "index_copy", EXACT)
def _index_copy(
    b: LinalgBuilder, self: StridedValue, dim: int, index: StridedValue, source: StridedValue
) -> StridedValue:
    return _put_slices(b, self, dim, index, source, checked_index)


@lowering("aten::index_fill.int_Scalar aten::index_fill.int_Tensor", ALL, "index_fill", EXACT)
def _index_fill(
    b: LinalgBuilder,
    self: StridedValue,
    dim: int,
    index: StridedValue,
    value: StridedValue | Number,
) -> StridedValue:
    if isinstance(value, StridedValue):
        x, dim, _ = _slices(b, self, dim, index)
        shape = [n if k != dim else index.type.numel for k, n in enumerate(x.shape)]
        value = b.cast(value, self.dtype).expand(shape)
    return _put_slices(b, self, dim, index, value, wrapped_index)


def _reduce_slices(
    b: LinalgBuilder,
    self: StridedValue,
    dim: int,
    index: StridedValue,
    source: StridedValue,
    reduce: str,
    include_self: bool = True,
) -> StridedValue:
    """Reduce slice k of `source` into self at ``index[k]`` along `dim`."""
    x, dim, index = _slices(b, self, dim, index)
    source = source if source.rank else b.reshape(source, (1,))
    kind, dtype, identity = scatter_reduction(reduce, self.dtype)
    dest, updates = (dim_to_rows(b, b.cast(value, dtype), dim) for value in (x, source))
    rows = _checked(b, index, x.shape[dim])
    result = _combined(b, dest, rows, updates, kind, identity, include_self, reduce == "mean")
    return b.as_type(rows_to_dim(b, result, x.shape, dim), self.type)


@lowering("aten::index_add", ALL, "index_add", SUMS)
def _index_add(
    b: LinalgBuilder,
    self: StridedValue,
    dim: int,
    index: StridedValue,
    source: StridedValue,
    alpha: Number = 1,
) -> StridedValue:
    _, dtype, _ = scatter_reduction("sum", self.dtype)
    scale = b.scalar_operand(alpha, dtype)
    scaled = b.pointwise(lambda v: v.to(dtype) * scale, [source])
    return _reduce_slices(b, self, dim, index, scaled, "sum")


@lowering("aten::index_reduce", NUMBERS, "index_reduce", SUMS)
def _index_reduce(
    b: LinalgBuilder,
    self: StridedValue,
    dim: int,
    index: StridedValue,
    source: StridedValue,
    reduce: str,
    include_self: bool = True,
) -> StridedValue:
    if not index.type.numel or not self.type.numel:
        return self
    return _reduce_slices(b, self, dim, index, source, reduce, include_self)


@lowering("aten::unfold_backward", FLOATS, "unfold_backward", SUMS)
def _unfold_backward(
    b: LinalgBuilder, grad_in: StridedValue, input_sizes: list[int], dim: int, size: int, step: int
) -> StridedValue:
    """Add each window of the gradient, [.., windows at dim, .., size], to its elements."""
    if not input_sizes:
        return b.reshape(grad_in, ())
    dtype, rank = compute_dtype(grad_in.dtype), len(input_sizes)
    dim %= rank
    windows = grad_in.shape[dim]
    order = [dim, rank, *(k for k in range(rank) if k != dim)]
    zeros = b.full(0, dtype, (input_sizes[dim], b.result.numel // max(1, input_sizes[dim])))
    updates = b.reshape(b.cast(grad_in, dtype).permute(order), (windows * size, zeros.shape[1]))

    def row() -> ScalarExpr:
        return b.index(0) * step + b.index(1)

    (indices,) = b.generic((windows, size), [], [LoopOutput("i64", (windows, size), (0, 1))], row)
    result = scatter_rows(b, zeros, b.reshape(indices, (windows * size,)), updates, "add")
    return b.cast(rows_to_dim(b, result, input_sizes, dim), grad_in.dtype)
