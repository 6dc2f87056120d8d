"""Op records of reductions: sums, means, extremes, tests, variances, norms."""

from __future__ import annotations

import math

from ftm_backend.dtypes import ALL, FLOATS, NUMBERS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.moments import variance_and_mean, vector_norm
from ftm_backend.frontend.oplib.op_registry import EXACT, SUMS, Lower, lowering
from ftm_backend.frontend.oplib.op_traits import ValueDomain, recorded
from ftm_backend.frontend.oplib.reductions import (
    canonical_dims,
    extreme_with_index,
    mean_of,
    reduce,
    sum_of,
)
from ftm_backend.frontend.scalar_math import Number, ScalarExpr

recorded("aten::linalg_vector_norm", constants=("ord",))
recorded("aten::max aten::min aten::aminmax", tried=("out",))
recorded("aten::norm aten::dist", constants=("p",))
recorded("aten::renorm", constants=("p",), domain=ValueDomain(0, "maxnorm"))
recorded("aten::all aten::any", composite="whole")
recorded("aten::logsumexp", tried=("no_dims",))
recorded("aten::nansum", asks_cpu="no_dims")


@lowering("aten::nansum", ALL, "reduction", SUMS)
def _nansum(b: LinalgBuilder, self: StridedValue, dim: list[int] | None = None) -> StridedValue:
    dims = canonical_dims(dim, self.rank)
    number = (lambda x: e.where(e.isnan(x), 0, x)) if e.info(self.dtype).kind == "float" else None
    return b.as_type(sum_of(b, self, dims, compute_dtype(b.result.dtype), number))


@lowering("aten::count_nonzero.dim_IntList", ALL, "reduction", EXACT)
def _count_nonzero(
    b: LinalgBuilder, self: StridedValue, dim: list[int] | None = None
) -> StridedValue:
    return b.as_type(sum_of(b, self, canonical_dims(dim, self.rank), "i64", lambda x: x.ne(0)))


@lowering("aten::mean aten::mean.dim", ALL, "reduction", SUMS)
def _mean(b: LinalgBuilder, self: StridedValue, dim: list[int] | None = None) -> StridedValue:
    dims = canonical_dims(dim, self.rank)
    return b.as_type(mean_of(b, self, dims, compute_dtype(b.result.dtype)))


def _reduction(
    kind: str, names: str, family: str, tolerance: dict[str, tuple[float, float]], dtype: str = ""
) -> None:
    """Register a plain reduction in `dtype`, by default that in which the result is computed."""

    @lowering(names, ALL, family, tolerance)
    def lower(
        b: LinalgBuilder, self: StridedValue, dim: int | list[int] | None = None
    ) -> StridedValue:
        dims = canonical_dims(dim, self.rank)
        return b.as_type(reduce(b, kind, [self], dims, dtype or compute_dtype(b.result.dtype)))


_reduction("sum", "aten::sum aten::sum.dim_IntList", "reduction", SUMS)
_reduction("prod", "aten::prod aten::prod.dim_int", "reduction", SUMS)
_reduction("or", "aten::any aten::any.dim aten::any.dims", "reduction", EXACT, "i1")
_reduction("and", "aten::all aten::all.dim aten::all.dims", "reduction", EXACT, "i1")


def _extreme(kind: str) -> Lower:
    def lower(
        b: LinalgBuilder, self: StridedValue, dim: int | list[int] | None = None
    ) -> StridedValue:
        return b.as_type(reduce(b, kind, [self], canonical_dims(dim, self.rank), self.dtype))

    return lower


def _extreme_dim(kind: str) -> Lower:
    def lower(b: LinalgBuilder, self: StridedValue, dim: int) -> tuple[StridedValue, StridedValue]:
        if not self.rank:
            return self, b.full(0, "i64", ())
        values, indices = extreme_with_index(b, kind, self, dim % self.rank)
        shape = b.result.shape
        return b.reshape(values, shape), b.reshape(indices, shape)

    return lower


def _extreme_place(kind: str) -> Lower:
    def lower(b: LinalgBuilder, self: StridedValue, dim: int | None = None) -> StridedValue:
        if not self.rank:
            return b.full(0, "i64", b.result.shape)
        x = self if dim is not None else b.reshape(self, (self.type.numel,))
        _, indices = extreme_with_index(b, kind, x, (dim or 0) % x.rank)
        return b.reshape(indices, b.result.shape)

    return lower


for _kind in ("max", "min"):
    lowering(f"aten::a{_kind} aten::{_kind}", ALL, "extreme", EXACT)(_extreme(_kind))
    lowering(f"aten::{_kind}.dim", ALL, "extreme_dim", EXACT)(_extreme_dim(_kind))
    lowering(f"aten::arg{_kind}", NUMBERS, "extreme_place", EXACT)(_extreme_place(_kind))


@lowering("aten::aminmax", ALL, "aminmax", EXACT)
def _aminmax(
    b: LinalgBuilder, self: StridedValue, dim: int | None = None
) -> tuple[StridedValue, StridedValue]:
    dims = canonical_dims(dim, self.rank)
    low, high = (reduce(b, kind, [self], dims, self.dtype) for kind in ("min", "max"))
    return b.reshape(low, b.result.shape), b.reshape(high, b.result.shape)


def _variance(root: bool, with_mean: bool) -> Lower:
    def lower(
        b: LinalgBuilder,
        self: StridedValue,
        dim: int | list[int] | None = None,
        correction: Number | None = None,
    ) -> StridedValue | tuple[StridedValue, StridedValue]:
        # The square of a deviation may exceed f32 where its root does not.
        dtype = "f64" if root else None
        variance, mean = variance_and_mean(
            b, self, canonical_dims(dim, self.rank), 1 if correction is None else correction, dtype
        )
        if root:
            variance = b.pointwise(e.sqrt, [variance])
        first = b.as_type(variance)
        return (first, b.as_type(mean)) if with_mean else first

    return lower


lowering("aten::var.correction", FLOATS, "variance", SUMS)(_variance(False, False))
lowering("aten::std.correction", FLOATS, "variance", SUMS)(_variance(True, False))
lowering("aten::var_mean.correction", FLOATS, "variance", SUMS)(_variance(False, True))
lowering("aten::std_mean.correction", FLOATS, "variance", SUMS)(_variance(True, True))


@lowering("aten::linalg_vector_norm", FLOATS, "norm", SUMS)
def _vector_norm(
    b: LinalgBuilder, self: StridedValue, ord: Number, dim: list[int] | None = None
) -> StridedValue:
    dims = canonical_dims(dim, self.rank)
    return b.as_type(vector_norm(b, self, ord, dims, compute_dtype(b.result.dtype)))


@lowering(
    "aten::norm.Scalar aten::norm.ScalarOpt_dim aten::norm.ScalarOpt_dtype"
    " aten::norm.ScalarOpt_dim_dtype",
    FLOATS,
    "norm",
    SUMS,
)
def _norm(
    b: LinalgBuilder, self: StridedValue, p: Number | None, dim: list[int] | None = None
) -> StridedValue:
    return _vector_norm(b, self, 2 if p is None else p, dim)


@lowering("aten::renorm", FLOATS, "renorm", SUMS)
def _renorm(
    b: LinalgBuilder, self: StridedValue, p: float, dim: int, maxnorm: Number
) -> StridedValue:
    """Scale slices along `dim` whose p-norm exceeds `maxnorm` down to it."""
    dims = [k for k in range(self.rank) if k != dim % self.rank]
    dtype = compute_dtype(self.dtype)
    if p == 2:
        total = reduce(b, "sum", [self], dims, dtype, lambda x: x.to(dtype) * x.to(dtype))
    elif math.isinf(p):
        total = reduce(b, "max", [self], dims, dtype, lambda x: abs(x.to(dtype)))
    else:
        total = reduce(
            b, "sum", [self], dims, dtype, lambda x: e.pow_(abs(x.to(dtype)), b.constant(p, dtype))
        )
    most = b.scalar_operand(maxnorm, dtype)

    def scaled(x: ScalarExpr, s: ScalarExpr) -> ScalarExpr:
        norm = s if math.isinf(p) else e.sqrt(s) if p == 2 else e.pow_(s, b.constant(1 / p, dtype))
        return (x.to(dtype) * e.where(norm > most, most / (norm + 1e-7), 1)).to(x.dtype)

    return b.pointwise(scaled, [self, total], b.result)


@lowering("aten::logsumexp", ALL, "reduction", SUMS)
def _logsumexp(b: LinalgBuilder, self: StridedValue, dim: list[int]) -> StridedValue:
    dims = canonical_dims(dim, self.rank)
    dtype = compute_dtype(b.result.dtype)
    largest = reduce(b, "max", [self], dims, dtype)
    # an infinite maximum would give inf - inf, so do not shift then
    shift = b.pointwise(lambda m: e.where(abs(m).eq(math.inf), 0, m), [largest])
    total = reduce(b, "sum", [self, shift], dims, dtype, lambda x, m: e.exp(x.to(dtype) - m))
    return b.as_type(b.pointwise(lambda s, m: e.log(s) + m, [total, shift]))
