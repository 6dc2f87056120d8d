"""Op records that read at data-dependent indices.

Gathers lower to ``tensor.extract`` in an elementwise body.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.dtypes import ALL, INTS, STORED
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import checked_index, wrapped_index
from ftm_backend.frontend.oplib.op_registry import EXACT, lowering
from ftm_backend.frontend.oplib.op_traits import IndexArguments, recorded
from ftm_backend.frontend.scalar_math import ScalarExpr

recorded("aten::_unsafe_index", may_fail=True)
recorded("aten::gather", indices=IndexArguments(2, "dim"), forbids_overlap=True)
recorded(
    "aten::index",
    indices=IndexArguments(1, "each", wraps=True),
    cpu_indices=True,
    forbids_overlap=True,
)
recorded(
    "aten::index_select", indices=IndexArguments(2, "dim"), forbids_overlap=True, tried=("always",)
)
recorded(
    "aten::take",
    indices=IndexArguments(1, "all", wraps=True),
    forbids_overlap=True,
    tried=("always",),
)


@lowering("aten::index_select", ALL, "index_select", EXACT)
def _index_select(
    b: LinalgBuilder, self: StridedValue, dim: int, index: StridedValue
) -> StridedValue:
    self = self if self.rank else b.reshape(self, (1,))
    shape = [1] * self.rank
    dim %= self.rank
    shape[dim] = index.type.numel
    expanded_shape = (*self.shape[:dim], index.type.numel, *self.shape[dim + 1 :])
    return b.reshape(
        _along(b, self, dim, b.reshape(index, shape).expand(expanded_shape)), b.result.shape
    )


@lowering("aten::gather", ALL, "gather", EXACT)
def _gather(b: LinalgBuilder, self: StridedValue, dim: int, index: StridedValue) -> StridedValue:
    self = self if self.rank else b.reshape(self, (1,))
    index = index if index.rank else b.reshape(index, (1,))
    return b.reshape(_along(b, self, dim % self.rank, index), b.result.shape)


def _along(b: LinalgBuilder, self: StridedValue, dim: int, index: StridedValue) -> StridedValue:
    """Return self[.., index[..], ..] at `dim`."""
    if not index.type.numel:
        return b.full(0, self.dtype, index.shape)
    source = self

    def body(position: ScalarExpr) -> ScalarExpr:
        return b.extract(
            source,
            [
                checked_index(position, self.shape[k]) if k == dim else b.index(k)
                for k in range(self.rank)
            ],
        )

    return b.pointwise(body, [index])


@lowering("aten::take", ALL, "take", EXACT)
def _take(b: LinalgBuilder, self: StridedValue, index: StridedValue) -> StridedValue:
    count = self.type.numel
    flat = b.reshape(self, (count,))
    return b.pointwise(
        lambda position: b.extract(flat, [wrapped_index(position, count)]), [index], b.result
    )


def indexed(
    x: StridedValue, indices: Sequence[StridedValue | None]
) -> tuple[list[int], list[int], int]:
    """Analyse x[indices].

    Returns:
        The indexed dimensions, the other dimensions, and the position of the index dimensions in
        the result.
    """
    indices = [*indices, *[None] * (x.rank - len(indices))]
    dims = [k for k, i in enumerate(indices) if i is not None]
    other_dims = [k for k in range(x.rank) if k not in dims]
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    return dims, other_dims, dims[0] if adjacent else 0


def check_integers(indices: Sequence[StridedValue | None]) -> None:
    """Check index dtypes.

    Raises:
        TypeError: An index is a mask, whose number of selected elements depends on data.
    """
    for index in indices:
        if index is not None and index.dtype not in INTS:
            raise TypeError(
                f"an index of {index.dtype} selects a data-dependent number of elements"
            )


def common_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape that `shapes` broadcast to."""
    if len({*shapes}) == 1:
        return shapes[0]  # without asking whether a symbolic size is 1
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((n for n in column if n != 1), 1) for column in zip(*padded, strict=True))


@lowering(
    "aten::index.Tensor aten::_unsafe_index.Tensor",
    STORED,
    "index",
    EXACT,
    gap="a mask as index selects a data-dependent number of elements",
)
def _index(b: LinalgBuilder, self: StridedValue, indices: list[StridedValue]) -> StridedValue:
    check_integers(indices)
    dims, other_dims, front = indexed(self, indices)
    source, chosen = self, [i for i in indices if i is not None]
    width = len(common_shape([i.shape for i in chosen]))
    positions = [b.reshape(i, (*i.shape, *[1] * (len(other_dims) - front))) for i in chosen]

    def body(*values: ScalarExpr) -> ScalarExpr:
        coordinates: dict[int, ScalarExpr] = {
            d: wrapped_index(v, self.shape[d]) for d, v in zip(dims, values, strict=True)
        }
        for position, k in enumerate(other_dims):
            coordinates[k] = b.index(position if position < front else position + width)
        return b.extract(source, [coordinates[k] for k in range(self.rank)])

    return b.pointwise(body, positions, b.result)
