"""Data-dependent indices: bounds checks, scatters of rows, and reductions of equal indices.

Every index is checked. One out of bounds becomes an index that no buffer has, so the machine faults
instead of accessing an unrelated element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend.dtypes import compute_dtype, info
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

OUT_OF_BOUNDS = 2**33
"""An index outside of every buffer, even as one of several dimensions. Reading or writing there
faults.

Addresses are computed modulo 2^64, so this times a stride of 2^31 is element 0. A dimension of that
stride with two entries takes 2^32 elements, so every smaller buffer is safe. A larger power of two
reaches element 0 at a smaller stride.
"""


def tensor_type(dtype: str, shape: Sequence[int]) -> TensorType:
    """Return the type of an intermediate tensor."""
    return TensorType(dtype, tuple(shape))


def checked_index(index: ScalarExpr, size: int) -> ScalarExpr:
    """Convert an index to i64, and make the machine fault unless it is in ``[0, size)``."""
    index = index.to("i64")
    return e.where((index >= 0) & (index < size), index, OUT_OF_BOUNDS)


def wrapped_index(index: ScalarExpr, size: int) -> ScalarExpr:
    """Like `checked_index`, but negative indices count from the end."""
    index = index.to("i64")
    return checked_index(e.where(index < 0, index + size, index), size)


def scatter_rows(
    b: LinalgBuilder, dest: StridedValue, rows: StridedValue, updates: StridedValue, kind: str
) -> StridedValue:
    """Append ``ftm.scatter``, which combines rows into a matrix.

    Args:
        b: The builder.
        dest: [N, D].
        rows: Row numbers [M], i64 in ``[0, N)``.
        updates: [M, D].
        kind: ``set`` or a reduction: ``add``, ``mul``, ``min``, ``max``.

    Returns:
        The updated matrix [N, D].
    """
    if not rows.type.numel or not dest.type.numel:
        return dest
    return b.create(
        "ftm.scatter",
        dest.dtype,
        dest.shape,
        [b.tensor(dest), b.tensor(rows), b.tensor(updates)],
        {"reduce": kind},
    )


def scatter_planes(
    b: LinalgBuilder,
    x: StridedValue,
    indices: StridedValue,
    planes: int,
    count: int,
    dtype: str,
    kind: str,
) -> StridedValue:
    """Write (``kind`` "set", "add") `x` at `indices` of each plane into zeros [planes, count]."""
    numel = x.type.numel
    flat = b.reshape(indices, (planes, numel // max(1, planes)))
    rows = b.pointwise(lambda i: checked_index(i, count) + b.index(0) * count, [flat])
    updates = b.reshape(b.cast(x, dtype), (numel, 1))
    zeros = b.full(0, dtype, (planes * count, 1))
    return scatter_rows(b, zeros, b.reshape(rows, (numel,)), updates, kind)


def dim_to_rows(b: LinalgBuilder, x: StridedValue, dim: int) -> StridedValue:
    """Reshape to a matrix [extent of `dim`, product of the other extents]."""
    order = [dim, *(k for k in range(x.rank) if k != dim)]
    return b.reshape(x.permute(order), (x.shape[dim], x.type.numel // max(1, x.shape[dim])))


def rows_to_dim(
    b: LinalgBuilder, rows: StridedValue, shape: Sequence[int], dim: int
) -> StridedValue:
    """Invert `dim_to_rows` for a tensor of `shape`."""
    order = [dim, *(k for k in range(len(shape)) if k != dim)]
    reshaped = b.reshape(rows, [shape[k] for k in order])
    return reshaped.permute([order.index(k) for k in range(len(shape))])


# PyTorch's reduction -> (reduction of ftm.scatter, the same for bools, identity)
_COMBINING: dict[str, tuple[str, str, Callable[[str], float]]] = {
    "sum": ("add", "max", lambda t: 0),
    "add": ("add", "max", lambda t: 0),
    "mean": ("add", "max", lambda t: 0),
    "prod": ("mul", "min", lambda t: 1),
    "multiply": ("mul", "min", lambda t: 1),
    "amax": ("max", "max", e.lowest),
    "amin": ("min", "min", e.highest),
}


def scatter_reduction(reduce: str, dtype: str) -> tuple[str, str, float]:
    """Return how ``ftm.scatter`` reduces values of `dtype` at equal indices.

    Returns:
        The reduction, the dtype that it runs in (f32 for half types; an integer for bools, because
        scatters combine signed numbers), and the identity.
    """
    number, logical, identity = _COMBINING[reduce]
    if dtype == "i1":
        return logical, "i8", int(identity("i1"))
    wide = "i32" if dtype == "u8" and number in ("min", "max") else compute_dtype(dtype)
    return number, wide, identity(dtype)


def divide_by_counts(b: LinalgBuilder, total: StridedValue, counts: StridedValue) -> StridedValue:
    """Divide `total` by `counts`, where 0 counts as 1; integers round down as in PyTorch."""

    def body(t: ScalarExpr, n: ScalarExpr) -> ScalarExpr:
        n = e.where(n.eq(0), 1, n).to(t.dtype)
        if t.is_float:
            return t / n
        quotient = t / n
        if not info(t.dtype).signed:
            return quotient
        return e.where((quotient * n).ne(t) & ((t < 0) ^ (n < 0)), quotient - 1, quotient)

    return b.pointwise(body, [total, counts])
