"""Op records of matrix products.

Half types accumulate in f32. Transposed operands are views, which the midend folds.
"""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.dtypes import FLOATS, INTS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.matmul import matmul
from ftm_backend.frontend.oplib.op_registry import PRODUCTS, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.overload_arguments import given_argument
from ftm_backend.frontend.scalar_math import Number, ScalarExpr
from ftm_backend.symbolic import statically_known_equal

recorded(
    "aten::mm aten::bmm aten::addmm aten::baddbmm aten::mv aten::addmv aten::addbmm aten::dot"
    " aten::vdot aten::linear",
    tried=("mixed",),
)
recorded("aten::linalg_cross", tried=("mixed",), forbids_overlap=True)

_DTYPES = FLOATS + INTS

Factors = tuple[StridedValue, StridedValue]


@lowering("aten::mm aten::bmm", _DTYPES, "matmul", PRODUCTS)
def _mm(b: LinalgBuilder, self: StridedValue, mat2: StridedValue) -> StridedValue:
    return b.cast(matmul(b, self, mat2), b.result.dtype)


_SKIPPING = ("f32", "f64")
"""Dtypes for which the CPU's BLAS skips the product if alpha is 0, ignoring its NaN and
infinities."""

_SMALL_BATCH_PRODUCT = 400
"""Number of multiplications per matrix below which the CPU's baddbmm does not call BLAS, so it
never skips the product."""


def _scaled_sum(
    b: LinalgBuilder,
    bias: StridedValue,
    left: StridedValue,
    right: StridedValue,
    beta: Number,
    alpha: Number,
    skips_from: int = 0,
) -> StridedValue:
    """Return beta * bias + alpha * (left @ right).

    A factor of 0 skips its term, including NaN and infinities.

    Args:
        b: The builder.
        bias: Broadcasts to the result's shape.
        left: [(B,) M, K].
        right: [(B,) K, N].
        beta: Factor of `bias`.
        alpha: Factor of the product.
        skips_from: Number of multiplications per matrix from which an alpha of 0 skips the product.
    """
    product = b.reshape(matmul(b, left, right), b.result.shape)
    rows, inner, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    dtype = product.dtype
    beta, alpha = (
        b.scalar_operand(beta, dtype),
        b.scalar_operand(0 if statically_known_equal(inner, 0) else alpha, dtype),
    )

    def body(x: ScalarExpr, p: ScalarExpr) -> ScalarExpr:
        if b.result.dtype in _SKIPPING:
            skips = alpha.eq(0)
            if skips_from:
                skips = skips & (b.constant(rows * inner * columns, "i64") >= skips_from)
            p = e.where(skips, 0, p)
        return e.where(beta.eq(0), 0, x.to(dtype) * beta) + p * alpha

    return b.pointwise(body, [bias.expand(b.result.shape), product], b.result)


@lowering("aten::mv", _DTYPES, "matmul", PRODUCTS)
def _mv(b: LinalgBuilder, self: StridedValue, vec: StridedValue) -> StridedValue:
    return b.as_type(matmul(b, self, vec.unsqueeze(1)))


def _factors(b: LinalgBuilder, left: StridedValue, right: StridedValue) -> Factors:
    """Return the factors of a product as they are; a vector is one column."""
    return left, right if right.rank >= 2 else right.unsqueeze(1)


def _merged_batch(b: LinalgBuilder, left: StridedValue, right: StridedValue) -> Factors:
    """Return one product that sums over the batch: it is merged with the inner dimension."""
    count, rows, inner = left.shape
    merged = b.reshape(left.permute([1, 0, 2]), (rows, count * inner))
    return merged, b.reshape(right, (count * inner, right.shape[2]))


def _add_product(
    name: str,
    factors: Callable[[LinalgBuilder, StridedValue, StridedValue], Factors] = _factors,
    skips_from: int = 0,
) -> None:
    """Register ``beta * self + alpha * product``, whose two factors have names of their own."""

    @lowering(f"aten::{name}", _DTYPES, "addmm", PRODUCTS)
    def lower(
        b: LinalgBuilder, self: StridedValue, beta: Number, alpha: Number, **both: StridedValue
    ) -> StridedValue:
        return _scaled_sum(b, self, *factors(b, *both.values()), beta, alpha, skips_from)


_add_product("addmm")
_add_product("addmv")
_add_product("addbmm", _merged_batch)
_add_product("baddbmm", skips_from=_SMALL_BATCH_PRODUCT)


@lowering("aten::dot aten::vdot", _DTYPES, "matmul", PRODUCTS)
def _dot(
    b: LinalgBuilder,
    self: StridedValue,
    tensor: StridedValue | None = None,
    other: StridedValue | None = None,
) -> StridedValue:
    from ftm_backend.frontend.oplib.reductions import reduce

    y = given_argument(tensor, other)
    dtype = compute_dtype(self.dtype)
    total = reduce(b, "sum", [self, y], [0], dtype, lambda p, q: p.to(dtype) * q.to(dtype))
    return b.cast(b.reshape(total, ()), b.result.dtype)


@lowering("aten::linalg_cross", FLOATS + INTS, "cross", PRODUCTS)
def _cross(b: LinalgBuilder, self: StridedValue, other: StridedValue, dim: int) -> StridedValue:
    from ftm_backend.ir.trace.trace import TensorType

    shape = b.result.shape
    x, y, dim = self.expand(shape), other.expand(shape), dim % len(shape)
    dtype = compute_dtype(b.result.dtype)
    result = b.full(0, b.result.dtype, shape)
    for k in range(3):
        sides = [v.slice(dim, (k + step) % 3, 1) for v in (x, y) for step in (1, 2)]
        part = b.pointwise(
            lambda x1, x2, y1, y2: x1.to(dtype) * y2.to(dtype) - x2.to(dtype) * y1.to(dtype),
            sides,
            TensorType(b.result.dtype, sides[0].shape),
        )
        result = b.update(result, part, b.full(0, b.result.dtype, shape).access.slice(dim, k, 1))
    return result


@lowering("aten::trace", FLOATS + INTS, "trace", PRODUCTS)
def _trace(b: LinalgBuilder, self: StridedValue) -> StridedValue:
    from ftm_backend.frontend.oplib.reductions import sum_of
    from ftm_backend.ir.linalg.strided_view import Strided

    length, (down, right) = min(self.shape), self.access.strides
    diagonal = self.at(Strided((length,), (down + right,), self.access.offset))
    return b.cast(
        b.reshape(sum_of(b, diagonal, [0], compute_dtype(b.result.dtype)), ()), b.result.dtype
    )
