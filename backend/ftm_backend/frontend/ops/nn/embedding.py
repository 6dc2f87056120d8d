"""Op records of embeddings and their gradients."""

from __future__ import annotations

from ftm_backend.dtypes import FLOATS, STORED, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import checked_index, scatter_rows
from ftm_backend.frontend.oplib.moments import vector_norm
from ftm_backend.frontend.oplib.op_registry import EXACT, SUMS, lowering
from ftm_backend.frontend.oplib.op_traits import IndexArguments, recorded
from ftm_backend.frontend.scalar_math import ScalarExpr

recorded("aten::embedding", indices=IndexArguments(1, "first"), composite="whole")
recorded("aten::embedding_dense_backward", may_fail=True)


@lowering("aten::embedding", STORED, "embedding", EXACT)
def _embedding(
    b: LinalgBuilder,
    weight: StridedValue,
    indices: StridedValue,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
) -> StridedValue:
    table = weight
    rank = len(b.result.shape)

    def body(index: ScalarExpr) -> ScalarExpr:
        return b.extract(table, [checked_index(index, weight.shape[0]), b.index(rank - 1)])

    positions = b.reshape(indices, (*indices.shape, 1)).expand(b.result.shape)
    return b.pointwise(body, [positions], b.result)


@lowering("aten::embedding_dense_backward", FLOATS + ("i64", "i32"), "embedding_backward", SUMS)
def _embedding_backward(
    b: LinalgBuilder,
    grad_output: StridedValue,
    indices: StridedValue,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> StridedValue:
    dtype, width, count = compute_dtype(b.result.dtype), b.result.shape[-1], indices.type.numel
    rows = b.cast(b.reshape(indices, (count,)), "i64")
    updates = b.cast(b.reshape(grad_output, (count, width)), dtype)
    column = b.reshape(rows, (count, 1))
    if scale_grad_by_freq:
        counts = frequencies(b, rows, num_weights)

        def divided(g: ScalarExpr, row: ScalarExpr) -> ScalarExpr:
            count = b.extract(counts, [checked_index(row, num_weights), b.index(1) * 0])
            # for integers, 1 / count is 0 unless count is 1
            return g / count.to(dtype) if g.is_float else e.where(count.eq(1), g, 0)

        updates = b.pointwise(divided, [updates, column])
    if 0 <= padding_idx:
        updates = b.pointwise(lambda g, row: e.where(row.eq(padding_idx), 0, g), [updates, column])
    result = scatter_rows(b, b.full(0, dtype, (num_weights, width)), rows, updates, "add")
    return b.cast(result, b.result.dtype)


def frequencies(b: LinalgBuilder, rows: StridedValue, size: int) -> StridedValue:
    """Count how often each of [0, size) occurs in `rows`, as i64 [size, 1]."""
    ones = b.full(1, "i64", (rows.type.numel, 1))
    return scatter_rows(b, b.full(0, "i64", (size, 1)), rows, ones, "add")


@lowering("aten::embedding_renorm", FLOATS + ("i64", "i32"), "embedding_renorm", SUMS)
def _embedding_renorm(
    b: LinalgBuilder, self: StridedValue, indices: StridedValue, max_norm: float, norm_type: float
) -> StridedValue:
    """Scale the indexed rows down to the maximum norm, each row once."""
    dtype, entries = compute_dtype(self.dtype), self.shape[0]
    counts = frequencies(b, b.cast(b.reshape(indices, (indices.type.numel,)), "i64"), entries)
    norm = vector_norm(b, self, norm_type, [1], dtype)

    def body(x: ScalarExpr, n: ScalarExpr, hits: ScalarExpr) -> ScalarExpr:
        scaled = x.to(dtype) * (n.const(max_norm) / (n + 1e-7))
        return e.where((hits > 0) & (n > max_norm), scaled.to(self.dtype), x)

    return b.pointwise(body, [self, norm, counts])
