"""Indexing by tensors: embeddings, gathers, scatters, advanced indexing.

Gathers read with ``tensor.extract`` in an elementwise body; scatters are ``ftm.scatter`` on rows.
"""

from __future__ import annotations

import math
from typing import Any

from ftm_backend.frontend import elements as e
from ftm_backend.frontend.dtypes import ALL, FLOATS, INTS, NUMBERS, compute_dtype
from ftm_backend.frontend.ops.record import EXACT, lowering
from ftm_backend.frontend.ops.reduction import _SUMS
from ftm_backend.frontend.strided import contiguous_strides
from ftm_backend.frontend.trace import TensorType


def _typed(b: Any, dtype: str, shape: Any) -> Any:
    return TensorType(dtype, tuple(shape))


_NOWHERE = 2**36
"""An index that no buffer has, even as one of several dimensions: reading or writing there is a fault."""


def inside(index: Any, size: int) -> Any:
    """An index Elem as i64; one that is not in [0, size) makes the machine fault, whatever else is addressed."""
    index = index.to("i64")
    return e.where((index >= 0) & (index < size), index, _NOWHERE)


def wrapped(index: Any, size: int) -> Any:
    """As `inside`, with negative indices counted from the end."""
    index = index.to("i64")
    return inside(e.where(index < 0, index + size, index), size)


def scatter_rows(b: Any, dest: Any, rows: Any, updates: Any, kind: str) -> Any:
    """``ftm.scatter``: dest[N, D], rows[M] of i64 in [0, N), updates[M, D]."""
    if not rows.type.numel or not dest.type.numel:
        return dest
    return b.create("ftm.scatter", dest.dtype, dest.shape, [b.tensor(dest), b.tensor(rows), b.tensor(updates)],
                    {"reduce": b.ir.StringAttr.get(kind)})


# --- embedding --------------------------------------------------------------------------------------------


@lowering("aten::embedding", ALL, "embedding", EXACT)
def _embedding(b: Any, weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False,
               sparse: bool = False) -> Any:
    table = b.whole(weight)
    rank = len(b.result.shape)

    def body(index: Any) -> Any:
        return b.extract(table, [inside(index, weight.shape[0]), b.index(rank - 1)])

    places = b.reshape(indices, (*indices.shape, 1)).expand(b.result.shape)
    return b.pointwise(body, [places], b.result)


@lowering("aten::embedding_dense_backward", FLOATS + ("i64", "i32"), "embedding_backward", _SUMS,
          gap="scale_grad_by_freq needs a count of each index first")
def _embedding_backward(b: Any, grad_output: Any, indices: Any, num_weights: int, padding_idx: int,
                        scale_grad_by_freq: bool) -> Any:
    if scale_grad_by_freq:
        raise TypeError("scale_grad_by_freq is not compiled")
    dtype, width, count = compute_dtype(b.result.dtype), b.result.shape[-1], indices.type.numel
    rows = b.cast(b.reshape(indices, (count,)), "i64")
    updates = b.cast(b.reshape(grad_output, (count, width)), dtype)
    if 0 <= padding_idx:
        updates = b.pointwise(lambda g, row: e.where(row.eq(padding_idx), 0, g),
                              [updates, b.reshape(rows, (count, 1))], updates.type)
    made = scatter_rows(b, b.full(0, dtype, (num_weights, width)), rows, updates, "add")
    return b.cast(made, b.result.dtype)


# --- gathers ----------------------------------------------------------------------------------------------


@lowering("aten::index_select", ALL, "index_select", EXACT)
def _index_select(b: Any, self: Any, dim: int, index: Any) -> Any:
    if not self.rank:
        return self
    dim, rank, source = dim % self.rank, self.rank, b.whole(self)
    shape = [1] * rank
    shape[dim] = index.type.numel

    def body(place: Any) -> Any:
        return b.extract(source, [inside(place, self.shape[dim]) if k == dim else b.index(k) for k in range(rank)])

    return b.pointwise(body, [b.reshape(index, shape).expand(b.result.shape)], b.result)


@lowering("aten::gather", ALL, "gather", EXACT)
def _gather(b: Any, self: Any, dim: int, index: Any, sparse_grad: bool = False) -> Any:
    if not self.rank:
        return b.reshape(self, b.result.shape) if b.result.numel else b.full(0, self.dtype, b.result.shape)
    rank, source = self.rank, b.whole(self)
    if not index.rank:
        index = b.reshape(index, (1,))
    dim %= rank

    def body(place: Any) -> Any:
        return b.extract(source, [inside(place, self.shape[dim]) if k == dim else b.index(k) for k in range(rank)])

    return b.reshape(b.pointwise(body, [index], _typed(b, self.dtype, index.shape)), b.result.shape)


@lowering("aten::take", ALL, "take", EXACT)
def _take(b: Any, self: Any, index: Any) -> Any:
    count = self.type.numel
    flat = b.whole(b.reshape(self, (count,)))
    return b.pointwise(lambda place: b.extract(flat, [wrapped(place, count)]), [index], b.result)


def _indexed(x: Any, indices: list[Any]) -> tuple[list[int], list[int], int]:
    """(indexed dimensions, the others, where the index dimensions stand in the result of x[indices])."""
    indices = [*indices, *[None] * (x.rank - len(indices))]
    dims = [k for k, i in enumerate(indices) if i is not None]
    rest = [k for k in range(x.rank) if k not in dims]
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    return dims, rest, dims[0] if adjacent else 0


def _check_integers(indices: list[Any]) -> None:
    for index in indices:
        if index is not None and index.dtype not in INTS:
            raise TypeError(f"an index of {index.dtype} selects a number of elements that only the data knows")


def _common(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((n for n in column if n != 1), 1) for column in zip(*padded, strict=True))


_MASKS = "a mask as index selects a number of elements that only the data knows"


@lowering("aten::index.Tensor", NUMBERS + ("i1",), "index", EXACT, gap=_MASKS)
def _index(b: Any, self: Any, indices: list[Any]) -> Any:
    _check_integers(indices)
    dims, rest, front = _indexed(self, indices)
    source, chosen = b.whole(self), [i for i in indices if i is not None]
    width = len(_common([i.shape for i in chosen]))
    places = [b.reshape(i, (*i.shape, *[1] * (len(rest) - front))) for i in chosen]

    def body(*values: Any) -> Any:
        coordinates: dict[int, Any] = {d: wrapped(v, self.shape[d]) for d, v in zip(dims, values, strict=True)}
        for position, k in enumerate(rest):
            coordinates[k] = b.index(position if position < front else position + width)
        return b.extract(source, [coordinates[k] for k in range(self.rank)])

    return b.pointwise(body, places, b.result)


# --- scatters ---------------------------------------------------------------------------------------------


def _element_rows(b: Any, shape: tuple[int, ...], dim: int, index: Any) -> Any:
    """For ``index`` along ``dim`` the place of each element in the flattening of ``shape``, as i64 [count]."""
    strides = contiguous_strides(shape)

    def body(place: Any) -> Any:
        flat = inside(place, shape[dim]) * strides[dim]
        for k in range(len(shape)):
            if k != dim:
                flat = flat + b.index(k) * strides[k]
        return flat

    made = b.pointwise(body, [index], _typed(b, "i64", index.shape))
    return b.reshape(made, (index.type.numel,))


def _scatter(b: Any, self: Any, dim: int, index: Any, src: Any, kind: str) -> Any:
    accumulate = compute_dtype(self.dtype) if kind != "set" else self.dtype
    shape = self.shape or (1,)
    index = index if index.rank else b.reshape(index, (1,))
    dim %= len(shape)
    if isinstance(src, e.Elem) or not hasattr(src, "rank"):
        updates = b.full(src, accumulate, (index.type.numel, 1))
    else:
        src = src if src.rank else b.reshape(src, (1,))
        for k, n in enumerate(index.shape):
            src = src.slice(k, 0, n)
        updates = b.reshape(b.cast(src, accumulate), (index.type.numel, 1))
    dest = b.reshape(b.cast(self, accumulate), (self.type.numel, 1))
    made = scatter_rows(b, dest, _element_rows(b, shape, dim, index), updates, kind)
    return b.cast(b.reshape(made, self.shape), self.dtype)


@lowering("aten::scatter_add", ALL, "scatter_add", _SUMS)
def _scatter_add(b: Any, self: Any, dim: int, index: Any, src: Any) -> Any:
    if self.dtype == "i1":
        return _scatter(b, self, dim, index, src, "max")
    return _scatter(b, self, dim, index, src, "add")


@lowering("aten::scatter.src aten::scatter.value", ALL, "scatter", EXACT)
def _scatter_set(b: Any, self: Any, dim: int, index: Any, src: Any = None, value: Any = None) -> Any:
    return _scatter(b, self, dim, index, value if src is None else src, "set")


@lowering("aten::index_add", NUMBERS, "index_add", _SUMS)
def _index_add(b: Any, self: Any, dim: int, index: Any, source: Any, alpha: Any) -> Any:
    dtype = compute_dtype(self.dtype)
    if not self.rank:
        self_1, source = b.reshape(self, (1,)), b.reshape(source, (1,))
    else:
        self_1 = self
    dim %= self_1.rank
    order = [dim, *(k for k in range(self_1.rank) if k != dim)]
    width = self_1.type.numel // max(1, self_1.shape[dim])
    scale = b.inline(alpha, dtype)
    rows = b.cast(b.reshape(index, (index.type.numel,)), "i64")
    scaled = b.pointwise(lambda v: v.to(dtype) * scale, [source], _typed(b, dtype, source.shape))
    updates = b.reshape(scaled.permute(order), (index.type.numel, width))
    moved = b.cast(self_1, dtype).permute(order)
    made = scatter_rows(b, b.reshape(moved, (self_1.shape[dim], width)), rows, updates, "add")
    back = b.reshape(made, moved.shape).permute([order.index(k) for k in range(self_1.rank)])
    return b.cast(b.reshape(back, self.shape), self.dtype)


@lowering("aten::index_put aten::_unsafe_index_put", ALL, "index_put", _SUMS, gap=_MASKS)
def _index_put(b: Any, self: Any, indices: list[Any], values: Any, accumulate: bool = False) -> Any:
    mask = [i for i in indices if i is not None]
    if len(indices) == 1 and mask[0].dtype == "i1" and values.type.numel == 1:
        # One value for all places of a mask needs no count.
        spread = b.reshape(indices[0], (*indices[0].shape, *[1] * (self.rank - indices[0].rank)))
        one = b.reshape(values, (1,) * self.rank)
        return b.pointwise(lambda x, m, v: e.where(m, x + v if accumulate else v, x), [self, spread, one], self.type)
    _check_integers(indices)
    dims, rest, front = _indexed(self, indices)
    dtype = compute_dtype(self.dtype) if accumulate else self.dtype
    kind = "set" if not accumulate else "max" if dtype == "i1" else "add"
    places = _common([i.shape for i in mask])
    inner = tuple(self.shape[k] for k in rest)
    count, width = math.prod(places), math.prod(inner)
    row_strides = contiguous_strides([self.shape[k] for k in dims])

    def flat(*coordinates: Any) -> Any:
        terms = [wrapped(c, self.shape[d]) * s for c, d, s in zip(coordinates, dims, row_strides, strict=True)]
        return sum(terms[1:], terms[0])

    rows = b.reshape(b.pointwise(flat, mask, _typed(b, "i64", places)), (count,))
    # values broadcast to the shape of x[indices], in which the index dimensions may stand inside.
    selected = (*inner[:front], *places, *inner[front:])
    spread = b.cast(values, dtype).expand(selected)
    order = [*range(front, front + len(places)), *range(front), *range(front + len(places), len(selected))]
    updates = b.reshape(spread.permute(order), (count, width))
    moved = b.cast(self, dtype).permute([*dims, *rest])
    dest = b.reshape(moved, (math.prod(self.shape[k] for k in dims), width))
    made = b.reshape(scatter_rows(b, dest, rows, updates, kind), moved.shape)
    back = [*dims, *rest]
    return b.cast(made.permute([back.index(k) for k in range(self.rank)]), self.dtype)
