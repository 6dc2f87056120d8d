"""Lowerings of reductions: one loop nest per reduction, in f32 for half types."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend.dtypes import compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.trace.trace import TensorType
from ftm_backend.symbolic import statically_known_equal

COMBINE: dict[
    str, tuple[Callable[[ScalarExpr, ScalarExpr], ScalarExpr], Callable[[str], float]]
] = {
    "sum": (lambda x, a: a + x, lambda t: 0),
    "prod": (lambda x, a: a * x, lambda t: 1),
    "max": (lambda x, a: e.maximum(a, x), e.lowest),
    "min": (lambda x, a: e.minimum(a, x), e.highest),
    "or": (lambda x, a: a | x, lambda t: 0),
    "and": (lambda x, a: a & x, lambda t: 1),
}
"""By reduction: the function of element and carried value, and the identity of a dtype."""


def canonical_dims(dims: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Convert a dim argument (None, int or list; empty means all) to sorted dimensions >= 0."""
    if dims is None or dims == []:
        return tuple(range(rank))
    dims = [dims] if isinstance(dims, int) else dims
    return tuple(sorted({d % max(rank, 1) for d in dims if rank}))


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that `shapes` broadcast to, aligned from the right."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*padded, strict=True))


def keep_dims(shape: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    """Replace the extents of `dims` by 1."""
    return tuple(1 if k in dims else size for k, size in enumerate(shape))


def reduce(
    b: LinalgBuilder,
    kind: str,
    inputs: Sequence[StridedValue],
    dims: Sequence[int],
    dtype: str,
    element: Callable[..., ScalarExpr] | None = None,
) -> StridedValue:
    """Reduce ``element(*inputs)`` over `dims`.

    Args:
        b: The builder.
        kind: A key of COMBINE.
        inputs: Tensors that broadcast to the first one's shape.
        dims: The dimensions to reduce.
        dtype: Dtype of accumulator and result.
        element: From the inputs' ScalarExprs to one of any dtype; the identity by default.

    Returns:
        A view with the first input's shape, where `dims` have extent 1.
    """
    combine, identity = COMBINE[kind]
    shape = inputs[0].shape
    rank = len(shape)
    dims = [k for k in dims if not statically_known_equal(shape[k], 1)]
    if not dims:
        convert = (
            (lambda *elems: element(*elems).to(dtype))
            if element is not None
            else (lambda x: x.to(dtype))
        )
        if element is None and inputs[0].dtype == dtype:
            return inputs[0]
        return b.pointwise(convert, inputs, TensorType(dtype, shape))
    kept = [k for k in range(rank) if k not in dims]

    def body(*args: ScalarExpr) -> ScalarExpr:
        *elems, carried = args
        x = element(*elems) if element is not None else elems[0]
        return combine(x.to(dtype), carried)

    output = LoopOutput(dtype, tuple(shape[k] for k in kept), kept, identity(dtype))
    reading = [LoopInput(x, range(rank - x.rank, rank)) for x in inputs]
    (result,) = b.generic(shape, reading, [output], body, reduced=dims)
    return b.reshape(result, keep_dims(shape, dims))


def sum_of(
    b: LinalgBuilder,
    x: StridedValue,
    dims: Sequence[int],
    dtype: str | None = None,
    element: Callable[..., ScalarExpr] | None = None,
) -> StridedValue:
    """Sum over `dims`, with extents 1, in `dtype` or x's compute dtype."""
    return reduce(b, "sum", [x], dims, dtype or compute_dtype(x.dtype), element)


def mean_of(
    b: LinalgBuilder,
    x: StridedValue,
    dims: Sequence[int],
    dtype: str,
    element: Callable[..., ScalarExpr] | None = None,
) -> StridedValue:
    """Average over `dims` in `dtype`, with extents 1; NaN for no elements."""
    total = reduce(b, "sum", [x], dims, dtype, element)
    count = reduced_count(x.shape, dims)
    return b.pointwise(lambda s: s / count, [total])


def reduced_count(shape: Sequence[int], dims: Sequence[int]) -> int:
    """Return the number of elements that a reduction over `dims` combines."""
    count = 1
    for k in dims:
        count *= shape[k]
    return count


def extreme_with_index(
    b: LinalgBuilder, kind: str, x: StridedValue, dim: int
) -> tuple[StridedValue, StridedValue]:
    """Return the extreme along `dim` and its first index; NaN wins.

    Uses two plain reductions, so that no reduction carries a pair.
    """
    best = reduce(b, kind, [x], [dim], x.dtype)
    # an index in bounds, so that its uses need no check
    last = max(x.shape[dim] - 1, 0)

    def index_if_extreme(value: ScalarExpr, extreme: ScalarExpr) -> ScalarExpr:
        hit = value.eq(extreme)
        if value.is_float:
            hit = hit | e.isnan(value)
        return e.where(hit, b.index(dim), b.constant(last, "i64"))

    return best, reduce(b, "min", [x, best], [dim], "i64", index_if_extreme)
