"""Reading at places that data says: embeddings, gathers, indexing by tensors of integers.

Gathers read with ``tensor.extract`` in an elementwise body.
"""

from __future__ import annotations

from typing import Any

from ftm_backend.dtypes import ALL, FLOATS, INTS, STORED, compute_dtype
from ftm_backend.frontend import elements as e
from ftm_backend.frontend.ops.places import inside, scatter_rows, typed, wrapped
from ftm_backend.frontend.ops.record import EXACT, lowering
from ftm_backend.frontend.ops.recording import Indices, recorded
from ftm_backend.frontend.ops.reduction import _SUMS

recorded("aten::embedding", indices=Indices(1, "first"), composite="whole")
recorded("aten::embedding_dense_backward aten::_unsafe_index", may_fail=True)
recorded("aten::gather", indices=Indices(2, "dim"), reads_apart=True)
recorded("aten::index", indices=Indices(1, "each", wraps=True), cpu_indices=True, reads_apart=True)
recorded("aten::index_select", indices=Indices(2, "dim"), reads_apart=True, tried=("always",))
recorded("aten::take", indices=Indices(1, "all", wraps=True), reads_apart=True, tried=("always",))

# --- embedding --------------------------------------------------------------------------------------------


@lowering("aten::embedding", STORED, "embedding", EXACT)
def _embedding(b: Any, weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    table = weight
    rank = len(b.result.shape)

    def body(index: Any) -> Any:
        return b.extract(table, [inside(index, weight.shape[0]), b.index(rank - 1)])

    places = b.reshape(indices, (*indices.shape, 1)).expand(b.result.shape)
    return b.pointwise(body, [places], b.result)


@lowering("aten::embedding_dense_backward", FLOATS + ("i64", "i32"), "embedding_backward", _SUMS)
def _embedding_backward(b: Any, grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    dtype, width, count = compute_dtype(b.result.dtype), b.result.shape[-1], indices.type.numel
    rows = b.cast(b.reshape(indices, (count,)), "i64")
    updates = b.cast(b.reshape(grad_output, (count, width)), dtype)
    column = b.reshape(rows, (count, 1))
    if scale_grad_by_freq:
        often = frequencies(b, rows, num_weights)

        def divided(g: Any, row: Any) -> Any:
            count = b.extract(often, [inside(row, num_weights), b.index(1) * 0])
            return g / count.to(dtype) if g.is_float else e.where(count.eq(1), g, 0)  # 1 / count is an integer there

        updates = b.pointwise(divided, [updates, column], updates.type)
    if 0 <= padding_idx:
        updates = b.pointwise(lambda g, row: e.where(row.eq(padding_idx), 0, g), [updates, column], updates.type)
    made = scatter_rows(b, b.full(0, dtype, (num_weights, width)), rows, updates, "add")
    return b.cast(made, b.result.dtype)


def frequencies(b: Any, rows: Any, size: int) -> Any:
    """How often each of [0, size) is among ``rows``: i64 [size, 1]."""
    ones = b.full(1, "i64", (rows.type.numel, 1))
    return scatter_rows(b, b.full(0, "i64", (size, 1)), rows, ones, "add")


@lowering("aten::embedding_renorm", FLOATS + ("i64", "i32"), "embedding_renorm", _SUMS)
def _embedding_renorm(b: Any, self: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Scales the rows that are indexed down to the norm; a row once, however often it is indexed."""
    from ftm_backend.frontend.ops.reduction import vector_norm

    dtype, entries = compute_dtype(self.dtype), self.shape[0]
    often = frequencies(b, b.cast(b.reshape(indices, (indices.type.numel,)), "i64"), entries)
    wanted, b.results = b.results, (typed(dtype, (entries, 1)),)
    norm = vector_norm(b, b.cast(self, dtype), norm_type, [1], True)
    b.results = wanted

    def body(x: Any, n: Any, hits: Any) -> Any:
        scaled = x.to(dtype) * (n.const(max_norm) / (n + 1e-7))
        return e.where((hits > 0) & (n > max_norm), scaled.to(self.dtype), x)

    return b.pointwise(body, [self, norm, often], self.type)


# --- gathers ----------------------------------------------------------------------------------------------


@lowering("aten::index_select", ALL, "index_select", EXACT)
def _index_select(b: Any, self: Any, dim: int, index: Any) -> Any:
    self = self if self.rank else b.reshape(self, (1,))
    shape = [1] * self.rank
    dim %= self.rank
    shape[dim] = index.type.numel
    wanted = (*self.shape[:dim], index.type.numel, *self.shape[dim + 1 :])
    return b.reshape(_along(b, self, dim, b.reshape(index, shape).expand(wanted)), b.result.shape)


@lowering("aten::gather", ALL, "gather", EXACT)
def _gather(b: Any, self: Any, dim: int, index: Any, sparse_grad: bool = False) -> Any:
    self = self if self.rank else b.reshape(self, (1,))
    index = index if index.rank else b.reshape(index, (1,))
    return b.reshape(_along(b, self, dim % self.rank, index), b.result.shape)


def _along(b: Any, self: Any, dim: int, index: Any) -> Any:
    """self[.., index[..], ..] at ``dim``."""
    if not index.type.numel:
        return b.full(0, self.dtype, index.shape)
    source = self

    def body(place: Any) -> Any:
        return b.extract(source, [inside(place, self.shape[k]) if k == dim else b.index(k) for k in range(self.rank)])

    return b.pointwise(body, [index], typed(self.dtype, index.shape))


@lowering("aten::take", ALL, "take", EXACT)
def _take(b: Any, self: Any, index: Any) -> Any:
    count = self.type.numel
    flat = b.reshape(self, (count,))
    return b.pointwise(lambda place: b.extract(flat, [wrapped(place, count)]), [index], b.result)


def indexed(x: Any, indices: list[Any]) -> tuple[list[int], list[int], int]:
    """(indexed dimensions, the others, where the index dimensions stand in the result of x[indices])."""
    indices = [*indices, *[None] * (x.rank - len(indices))]
    dims = [k for k, i in enumerate(indices) if i is not None]
    rest = [k for k in range(x.rank) if k not in dims]
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    return dims, rest, dims[0] if adjacent else 0


def check_integers(indices: list[Any]) -> None:
    """TypeError unless every index is one of integers."""
    for index in indices:
        if index is not None and index.dtype not in INTS:
            raise TypeError(f"an index of {index.dtype} selects a number of elements that only the data knows")


def common_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """What ``shapes`` broadcast to."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((n for n in column if n != 1), 1) for column in zip(*padded, strict=True))


@lowering(
    "aten::index.Tensor aten::_unsafe_index.Tensor",
    STORED,
    "index",
    EXACT,
    gap="a mask as index selects a number of elements that only the data knows",
)
def _index(b: Any, self: Any, indices: list[Any]) -> Any:
    check_integers(indices)
    dims, rest, front = indexed(self, indices)
    source, chosen = self, [i for i in indices if i is not None]
    width = len(common_shape([i.shape for i in chosen]))
    places = [b.reshape(i, (*i.shape, *[1] * (len(rest) - front))) for i in chosen]

    def body(*values: Any) -> Any:
        coordinates: dict[int, Any] = {d: wrapped(v, self.shape[d]) for d, v in zip(dims, values, strict=True)}
        for position, k in enumerate(rest):
            coordinates[k] = b.index(position if position < front else position + width)
        return b.extract(source, [coordinates[k] for k in range(self.rank)])

    return b.pointwise(body, places, b.result)
