"""Places that data says: index checks, scatters of rows, and what equal places do to each other.

Every place is checked. One outside becomes a place that no buffer has, so that the machine faults
instead of reading or writing what the index does not mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend.dtypes import compute_dtype, info
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

__all__ = [
    "NOWHERE",
    "averaged",
    "combining",
    "from_rows",
    "inside",
    "scatter_rows",
    "to_rows",
    "typed",
    "wrapped",
]

NOWHERE = 2**36
"""An index that no buffer has, even as one of several dimensions: reading or writing there is a
fault."""


def typed(dtype: str, shape: Sequence[int]) -> TensorType:
    """The type of a tensor that a lowering makes on the way."""
    return TensorType(dtype, tuple(shape))


def inside(index: ScalarExpr, size: int) -> ScalarExpr:
    """An index Elem as i64; one that is not in [0, size) makes the machine fault, whatever else is
    addressed."""
    index = index.to("i64")
    return e.where((index >= 0) & (index < size), index, NOWHERE)


def wrapped(index: ScalarExpr, size: int) -> ScalarExpr:
    """As `inside`, with negative indices counted from the end."""
    index = index.to("i64")
    return inside(e.where(index < 0, index + size, index), size)


def scatter_rows(
    b: LinalgBuilder, dest: StridedValue, rows: StridedValue, updates: StridedValue, kind: str
) -> StridedValue:
    """``ftm.scatter``: dest[N, D], rows[M] of i64 in [0, N), updates[M, D]."""
    if not rows.type.numel or not dest.type.numel:
        return dest
    return b.create(
        "ftm.scatter",
        dest.dtype,
        dest.shape,
        [b.tensor(dest), b.tensor(rows), b.tensor(updates)],
        {"reduce": kind},
    )


def to_rows(b: LinalgBuilder, x: StridedValue, dim: int) -> StridedValue:
    """``x`` as rows along ``dim``: [extent of dim, everything else]."""
    order = [dim, *(k for k in range(x.rank) if k != dim)]
    return b.reshape(x.permute(order), (x.shape[dim], x.type.numel // max(1, x.shape[dim])))


def from_rows(b: LinalgBuilder, rows: StridedValue, shape: Sequence[int], dim: int) -> StridedValue:
    """The reverse of `to_rows`, for a tensor of ``shape``."""
    order = [dim, *(k for k in range(len(shape)) if k != dim)]
    moved = b.reshape(rows, [shape[k] for k in order])
    return moved.permute([order.index(k) for k in range(len(shape))])


# PyTorch's word -> (reduction of ftm.scatter, the same for bools, identity)
_COMBINING: dict[str, tuple[str, str, Callable[[str], float]]] = {
    "sum": ("add", "max", lambda t: 0),
    "add": ("add", "max", lambda t: 0),
    "mean": ("add", "max", lambda t: 0),
    "prod": ("mul", "min", lambda t: 1),
    "multiply": ("mul", "min", lambda t: 1),
    "amax": ("max", "max", e.lowest),
    "amin": ("min", "min", e.highest),
}


def combining(reduce: str, dtype: str) -> tuple[str, str, float]:
    """How values of ``dtype`` combine at equal places.

    Returns:
        Reduction of ``ftm.scatter``, dtype in which it runs (halves in f32; a bool is a number
        there, since scatters combine signed numbers), identity.
    """
    number, logical, identity = _COMBINING[reduce]
    if dtype == "i1":
        return logical, "i8", int(identity("i1"))
    wide = "i32" if dtype == "u8" and number in ("min", "max") else compute_dtype(dtype)
    return number, wide, identity(dtype)


def averaged(b: LinalgBuilder, total: StridedValue, counts: StridedValue) -> StridedValue:
    """``total`` over ``counts`` (0 counts as 1), for integers rounded down as PyTorch does."""

    def body(t: ScalarExpr, n: ScalarExpr) -> ScalarExpr:
        n = e.where(n.eq(0), 1, n).to(t.dtype)
        if t.is_float:
            return t / n
        quotient = t / n
        if not info(t.dtype).signed:
            return quotient
        return e.where((quotient * n).ne(t) & ((t < 0) ^ (n < 0)), quotient - 1, quotient)

    return b.pointwise(body, [total, counts], total.type)
