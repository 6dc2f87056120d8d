"""How reductions are written: one generic per reduction, in f32 for the half types."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend.dtypes import compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.trace.trace import TensorType
from ftm_backend.symbolic import always_equal

__all__ = ["COMBINE", "extreme_index", "keep_dims", "mean_of", "normal_dims", "reduce", "sum_of"]

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
"""Reduction -> (element and carried value to carried value, identity of a dtype)."""


def normal_dims(dims: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """A dim argument (None, int or list; empty means all) as sorted non-negative dimensions."""
    if dims is None or dims == []:
        return tuple(range(rank))
    dims = [dims] if isinstance(dims, int) else dims
    return tuple(sorted({d % max(rank, 1) for d in dims if rank}))


def keep_dims(shape: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    """``shape`` with extent 1 in ``dims``."""
    return tuple(1 if k in dims else size for k, size in enumerate(shape))


def reduce(
    b: LinalgBuilder,
    kind: str,
    inputs: Sequence[StridedValue],
    dims: Sequence[int],
    dtype: str,
    element: Callable[..., ScalarExpr] | None = None,
) -> StridedValue:
    """Reduces ``element(*inputs)`` over ``dims``.

    Args:
        kind: a key of COMBINE. inputs: Values of one shape, or that broadcast to the first's from
        the right. dtype: of the accumulator and of the result. element: from the inputs' Elems to
        an Elem of any dtype; the identity if not given.

    Returns:
        Value of the first input's shape with extent 1 in ``dims`` (a view: the result itself is
        without them).
    """
    combine, identity = COMBINE[kind]
    shape = inputs[0].shape
    rank = len(shape)
    dims = [k for k in dims if not always_equal(shape[k], 1)]
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
    """Sum over ``dims`` in the compute dtype of x (or ``dtype``), extents 1 kept."""
    return reduce(b, "sum", [x], dims, dtype or compute_dtype(x.dtype), element)


def mean_of(
    b: LinalgBuilder,
    x: StridedValue,
    dims: Sequence[int],
    dtype: str,
    element: Callable[..., ScalarExpr] | None = None,
) -> StridedValue:
    """Mean over ``dims`` in ``dtype``, extents 1 kept; NaN over nothing."""
    total = reduce(b, "sum", [x], dims, dtype, element)
    count = count_of(x.shape, dims)
    return b.pointwise(lambda s: s / count, [total], TensorType(dtype, total.shape))


def count_of(shape: Sequence[int], dims: Sequence[int]) -> int:
    """Number of elements that a reduction over ``dims`` combines."""
    count = 1
    for k in dims:
        count *= shape[k]
    return count


def extreme_index(
    b: LinalgBuilder, kind: str, x: StridedValue, dim: int
) -> tuple[StridedValue, StridedValue]:
    """(extreme, index of its first place) along ``dim``; NaN wins, and its first place is given.

    Two plain reductions, so that no reduction has to carry a pair.
    """
    best = reduce(b, kind, [x], [dim], x.dtype)
    # a bound that the compiler can see: the index needs no check where it is used
    far = max(x.shape[dim] - 1, 0)

    def place(value: ScalarExpr, extreme: ScalarExpr) -> ScalarExpr:
        hit = value.eq(extreme)
        if value.is_float:
            hit = hit | e.isnan(value)
        return e.where(hit, b.index(dim), b.constant(far, "i64"))

    return best, reduce(b, "min", [x, best], [dim], "i64", place)
