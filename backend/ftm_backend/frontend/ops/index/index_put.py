"""Op records that write at indices or masks: index_put, put."""

from __future__ import annotations

import math

from ftm_backend.dtypes import ALL, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import (
    OUT_OF_BOUNDS,
    checked_index,
    scatter_reduction,
    scatter_rows,
    tensor_type,
    wrapped_index,
)
from ftm_backend.frontend.oplib.op_registry import SUMS, lowering
from ftm_backend.frontend.oplib.op_traits import IndexArguments, recorded
from ftm_backend.frontend.ops.index.gather import check_integers, common_shape, indexed
from ftm_backend.frontend.ops.index.masks import flat_source, ranks_of
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.linalg.affine import row_major

recorded(
    "aten::index_put",
    indices=IndexArguments(1, "each", wraps=True),
    cpu_indices=True,
    forbids_overlap=True,
)
recorded("aten::index_put_", composite="unfit")
recorded("aten::_unsafe_index_put", may_fail=True)
recorded(
    "aten::put",
    indices=IndexArguments(1, "all", wraps=True),
    forbids_overlap=True,
    tried=("always",),
)


@lowering(
    "aten::index_put aten::_unsafe_index_put",
    ALL,
    "index_put",
    SUMS,
    gap="a mask together with other indices selects a data-dependent number of elements",
)
def _index_put(
    b: LinalgBuilder,
    self: StridedValue,
    indices: list[StridedValue],
    values: StridedValue,
    accumulate: bool = False,
) -> StridedValue:
    chosen = [i for i in indices if i is not None]
    if len(chosen) == 1 and chosen[0].dtype == "i1":
        return _put_where(b, self, indices, values, accumulate)
    check_integers(indices)
    dims, other_dims, front = indexed(self, indices)
    kind, dtype, _ = scatter_reduction("sum", self.dtype) if accumulate else ("set", self.dtype, 0)
    positions = common_shape([i.shape for i in chosen])
    inner = tuple(self.shape[k] for k in other_dims)
    count, width = math.prod(positions), math.prod(inner)
    row_strides = row_major([self.shape[k] for k in dims])

    def flat(*coordinates: ScalarExpr) -> ScalarExpr:
        terms = [
            wrapped_index(c, self.shape[d]) * s
            for c, d, s in zip(coordinates, dims, row_strides, strict=True)
        ]
        return sum(terms[1:], terms[0])

    rows = b.reshape(b.pointwise(flat, chosen, tensor_type("i64", positions)), (count,))
    # values broadcast to the shape of x[indices], which may contain the index dimensions anywhere
    selected = (*inner[:front], *positions, *inner[front:])
    spread = b.cast(values, dtype).expand(selected)
    order = [
        *range(front, front + len(positions)),
        *range(front),
        *range(front + len(positions), len(selected)),
    ]
    updates = b.reshape(spread.permute(order), (count, width))
    dims_first = b.cast(self, dtype).permute([*dims, *other_dims])
    dest = b.reshape(dims_first, (math.prod(self.shape[k] for k in dims), width))
    result = b.reshape(scatter_rows(b, dest, rows, updates, kind), dims_first.shape)
    order_back = [*dims, *other_dims]
    return b.cast(result.permute([order_back.index(k) for k in range(self.rank)]), self.dtype)


def _put_where(
    b: LinalgBuilder,
    self: StridedValue,
    indices: list[StridedValue],
    values: StridedValue,
    accumulate: bool,
) -> StridedValue:
    """Compute x[.., mask, ..] = values: the k-th True of the mask takes element k of values."""
    front = next(k for k, i in enumerate(indices) if i is not None)
    mask = indices[front]
    if not self.type.numel:
        return self
    behind = self.rank - front - mask.rank
    spread = b.reshape(mask, (*mask.shape, *[1] * behind))
    values = values if values.rank else b.reshape(values, (1,))
    # the dimension of values that counts the True elements, if any
    count_dim = values.rank - 1 - behind
    counted = count_dim >= 0 and values.shape[count_dim] != 1

    def combined(x: ScalarExpr, v: ScalarExpr) -> ScalarExpr:
        return (
            (x.to(compute_dtype(self.dtype)) + v.to(compute_dtype(self.dtype))).to(self.dtype)
            if accumulate
            else v
        )

    if not counted:  # all selected elements take the same values
        head = [1] * mask.rank if count_dim >= 0 else []
        shape = (*values.shape[: max(0, count_dim)], *head, *values.shape[max(0, count_dim + 1) :])
        one = b.reshape(
            values, shape if len(shape) <= self.rank else shape[len(shape) - self.rank :]
        )
        return b.pointwise(lambda x, m, v: e.where(m, combined(x, v), x), [self, spread, one])
    ranks, total = ranks_of(b, mask)
    value_count, source, strides = (
        values.shape[count_dim],
        flat_source(b, values),
        row_major(values.shape),
    )

    def body(x: ScalarExpr, m: ScalarExpr, rank: ScalarExpr, ones: ScalarExpr) -> ScalarExpr:
        # any other count of values than the mask's is an error, even if larger
        index = (
            e.where(
                ones.eq(value_count), e.where(m, checked_index(rank, value_count), 0), OUT_OF_BOUNDS
            )
            * strides[count_dim]
        )
        for k, size in enumerate(values.shape):
            if k != count_dim and size != 1:
                loop = k + self.rank - values.rank + (0 if k > count_dim else 1 - mask.rank)
                index = index + b.index(loop) * strides[k]
        return e.where(m, combined(x, b.extract(source, [index])), x)

    reading = [self, spread, b.reshape(ranks, spread.shape), b.reshape(total, (1,) * self.rank)]
    return b.pointwise(body, reading, self.type)


@lowering("aten::put", ALL, "put", SUMS)
def _put(
    b: LinalgBuilder,
    self: StridedValue,
    index: StridedValue,
    source: StridedValue,
    accumulate: bool = False,
) -> StridedValue:
    kind, dtype, _ = scatter_reduction("sum", self.dtype) if accumulate else ("set", self.dtype, 0)
    size, count = self.type.numel, index.type.numel
    rows = b.pointwise(
        lambda position: wrapped_index(position, size),
        [b.reshape(index, (count,))],
        tensor_type("i64", (count,)),
    )
    updates = b.cast(b.reshape(source, (count, 1)), dtype)
    result = scatter_rows(b, b.cast(b.reshape(self, (size, 1)), dtype), rows, updates, kind)
    return b.as_type(result, self.type)
