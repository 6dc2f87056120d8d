"""Reductions: sums, means, extremes, tests, variances, norms, scans."""

from __future__ import annotations

import math
from typing import Any

from ftm_backend.dtypes import ALL, FLOATS, NUMBERS, compute_dtype
from ftm_backend.frontend import elements as e
from ftm_backend.frontend.ops.record import EXACT, lowering
from ftm_backend.frontend.ops.recording import Domain, recorded
from ftm_backend.frontend.ops.reduce import (
    count_of,
    extreme_index,
    mean_of,
    normal_dims,
    reduce,
    sum_of,
)
from ftm_backend.frontend.trace import TensorType

recorded("aten::linalg_vector_norm", constants=("ord",))
recorded("aten::max aten::min aten::aminmax", tried=("out",))
recorded("aten::norm aten::dist", constants=("p",))
recorded("aten::renorm", constants=("p",), domain=Domain(0, "maxnorm"))
recorded("aten::all aten::any", composite="whole")
recorded("aten::logsumexp", tried=("no_dims",))
recorded("aten::nansum", asks_cpu="no_dims")

_SUMS = {"f64": (1e-11, 1e-11), "f32": (2e-5, 1e-5), "f16": (4e-3, 1e-3), "bf16": (3e-2, 1e-2)}


def _finish(b: Any, x: Any) -> Any:
    return b.cast(b.reshape(x, b.result.shape), b.result.dtype)


@lowering("aten::sum aten::sum.dim_IntList", ALL, "reduction", _SUMS)
def _sum(b: Any, self: Any, dim: Any = None, keepdim: bool = False, dtype: str | None = None) -> Any:
    return _finish(b, sum_of(b, self, normal_dims(dim, self.rank), compute_dtype(b.result.dtype)))


@lowering("aten::nansum", ALL, "reduction", _SUMS)
def _nansum(b: Any, self: Any, dim: Any = None, keepdim: bool = False, dtype: str | None = None) -> Any:
    dims = normal_dims(dim, self.rank)
    number = (lambda x: e.where(e.isnan(x), 0, x)) if e.info(self.dtype).kind == "float" else None
    return _finish(b, sum_of(b, self, dims, compute_dtype(b.result.dtype), number))


@lowering("aten::count_nonzero.dim_IntList", ALL, "reduction", EXACT)
def _count_nonzero(b: Any, self: Any, dim: Any = None) -> Any:
    return _finish(b, sum_of(b, self, normal_dims(dim, self.rank), "i64", lambda x: x.ne(0)))


@lowering("aten::mean aten::mean.dim", ALL, "reduction", _SUMS)
def _mean(b: Any, self: Any, dim: Any = None, keepdim: bool = False, dtype: str | None = None) -> Any:
    return _finish(b, mean_of(b, self, normal_dims(dim, self.rank), compute_dtype(b.result.dtype)))


@lowering("aten::prod aten::prod.dim_int", ALL, "reduction", _SUMS)
def _prod(b: Any, self: Any, dim: Any = None, keepdim: bool = False, dtype: str | None = None) -> Any:
    return _finish(b, reduce(b, "prod", [self], normal_dims(dim, self.rank), compute_dtype(b.result.dtype)))


def _extreme(kind: str) -> Any:
    def lower(b: Any, self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return _finish(b, reduce(b, kind, [self], normal_dims(dim, self.rank), self.dtype))

    return lower


def _extreme_dim(kind: str) -> Any:
    def lower(b: Any, self: Any, dim: int, keepdim: bool = False) -> Any:
        if not self.rank:
            return self, b.full(0, "i64", ())
        values, indices = extreme_index(b, kind, self, dim % self.rank)
        shape = b.result.shape
        return b.reshape(values, shape), b.reshape(indices, shape)

    return lower


def _extreme_place(kind: str) -> Any:
    def lower(b: Any, self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if not self.rank:
            return b.full(0, "i64", b.result.shape)
        x = self if dim is not None else b.reshape(self, (self.type.numel,))
        _, indices = extreme_index(b, kind, x, (dim or 0) % x.rank)
        return b.reshape(indices, b.result.shape)

    return lower


for _name, _kind in (("max", "max"), ("min", "min")):
    lowering(f"aten::a{_name} aten::{_name}", ALL, "extreme", EXACT)(_extreme(_kind))
    lowering(f"aten::{_name}.dim", ALL, "extreme_dim", EXACT)(_extreme_dim(_kind))
    lowering(f"aten::arg{_name}", NUMBERS, "extreme_place", EXACT)(_extreme_place(_kind))


@lowering("aten::aminmax", ALL, "aminmax", EXACT)
def _aminmax(b: Any, self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    dims = normal_dims(dim, self.rank)
    low, high = (reduce(b, kind, [self], dims, self.dtype) for kind in ("min", "max"))
    return b.reshape(low, b.result.shape), b.reshape(high, b.result.shape)


def _test(kind: str) -> Any:
    def lower(b: Any, self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return _finish(b, reduce(b, kind, [self], normal_dims(dim, self.rank), "i1"))

    return lower


lowering("aten::any aten::any.dim aten::any.dims", ALL, "reduction", EXACT)(_test("or"))
lowering("aten::all aten::all.dim aten::all.dims", ALL, "reduction", EXACT)(_test("and"))


def moments(b: Any, x: Any, dims: Any, correction: Any) -> tuple[Any, Any]:
    """(variance, mean) over ``dims`` in x's compute dtype, extents 1 kept, in two passes; ``correction`` is a
    number or a runtime scalar."""
    dtype = compute_dtype(x.dtype)
    mean = mean_of(b, x, dims, dtype)
    squares = reduce(b, "sum", [x, mean], dims, dtype, lambda v, m: (v.to(dtype) - m) * (v.to(dtype) - m))
    count = b.constant(count_of(x.shape, dims), dtype) - b.inline(correction, dtype)
    count = e.maximum(count, 0)
    return b.pointwise(lambda s: s / count, [squares], TensorType(dtype, squares.shape)), mean


def _variance(root: bool, with_mean: bool) -> Any:
    def lower(b: Any, self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
        variance, mean = moments(b, self, normal_dims(dim, self.rank), 1 if correction is None else correction)
        if root:
            variance = b.pointwise(e.sqrt, [variance], variance.type)
        first = _finish(b, variance)
        return (first, _finish(b, mean)) if with_mean else first

    return lower


lowering("aten::var.correction", FLOATS, "variance", _SUMS)(_variance(False, False))
lowering("aten::std.correction", FLOATS, "variance", _SUMS)(_variance(True, False))
lowering("aten::var_mean.correction", FLOATS, "variance", _SUMS)(_variance(False, True))
lowering("aten::std_mean.correction", FLOATS, "variance", _SUMS)(_variance(True, True))


@lowering("aten::linalg_vector_norm", FLOATS, "norm", _SUMS)
def vector_norm(b: Any, self: Any, ord: Any, dim: Any = None, keepdim: bool = False, dtype: str | None = None) -> Any:
    """The p-norm; p (``ord``) as a constant gets the code of its own, as a runtime scalar the general one."""
    dims = normal_dims(dim, self.rank)
    compute = compute_dtype(b.result.dtype)
    if isinstance(ord, e.Elem):
        return _general_norm(b, self, ord, dims, compute)
    kind, element, finish = "sum", lambda x: abs(x.to(compute)), lambda s: s
    if ord == 2:
        element, finish = lambda x: x.to(compute) * x.to(compute), e.sqrt
    elif ord == 0:
        element = lambda x: x.to(compute).ne(0)  # noqa: E731
    elif math.isinf(ord):
        kind = "max" if ord > 0 else "min"
    elif ord != 1:
        element = lambda x: e.pow_(abs(x.to(compute)), b.constant(ord, compute))  # noqa: E731
        finish = lambda s: e.pow_(s, b.constant(1 / ord, compute))  # noqa: E731
    result = reduce(b, kind, [self], dims, compute, element)
    if kind == "max":  # the largest magnitude of nothing is 0
        result = b.pointwise(lambda s: e.maximum(s, 0), [result], result.type)
    elif finish is not e.sqrt and ord in (0, 1):
        return _finish(b, result)
    return _finish(b, b.pointwise(finish, [result], result.type) if kind == "sum" else result)


def _general_norm(b: Any, x: Any, ord: Any, dims: Any, compute: str) -> Any:
    p = ord.to(compute)

    def element(v: Any) -> Any:
        magnitude = abs(v.to(compute))
        return e.where(p.eq(0), v.to(compute).ne(0).to(compute), e.pow_(magnitude, p))

    total = reduce(b, "sum", [x], dims, compute, element)
    largest = reduce(b, "max", [x], dims, compute, lambda v: abs(v.to(compute)))
    smallest = reduce(b, "min", [x], dims, compute, lambda v: abs(v.to(compute)))

    def finish(s: Any, high: Any, low: Any) -> Any:
        finite = e.where(p.eq(0), s, e.pow_(s, p.const(1) / p))
        return e.where(p.eq(math.inf), e.maximum(high, 0), e.where(p.eq(-math.inf), low, finite))

    return _finish(b, b.pointwise(finish, [total, largest, smallest], total.type))


@lowering("aten::norm.Scalar aten::norm.ScalarOpt_dim aten::norm.ScalarOpt_dtype aten::norm.ScalarOpt_dim_dtype", FLOATS, "norm", _SUMS)
def _norm(b: Any, self: Any, p: Any, dim: Any = None, keepdim: bool = False, dtype: str | None = None) -> Any:
    return vector_norm(b, self, 2 if p is None else p, dim, keepdim, dtype)


@lowering("aten::renorm", FLOATS, "renorm", _SUMS)
def _renorm(b: Any, self: Any, p: float, dim: int, maxnorm: Any) -> Any:
    """Slices along ``dim`` whose p-norm is over ``maxnorm``, scaled down to it."""
    dims = [k for k in range(self.rank) if k != dim % self.rank]
    dtype = compute_dtype(self.dtype)
    if p == 2:
        total = reduce(b, "sum", [self], dims, dtype, lambda x: x.to(dtype) * x.to(dtype))
    elif math.isinf(p):
        total = reduce(b, "max", [self], dims, dtype, lambda x: abs(x.to(dtype)))
    else:
        total = reduce(b, "sum", [self], dims, dtype, lambda x: e.pow_(abs(x.to(dtype)), b.constant(p, dtype)))
    most = b.inline(maxnorm, dtype)

    def scaled(x: Any, s: Any) -> Any:
        norm = s if math.isinf(p) else e.sqrt(s) if p == 2 else e.pow_(s, b.constant(1 / p, dtype))
        return (x.to(dtype) * e.where(norm > most, most / (norm + 1e-7), 1)).to(x.dtype)

    return b.pointwise(scaled, [self, total], b.result)


@lowering("aten::logsumexp", ALL, "reduction", _SUMS)
def _logsumexp(b: Any, self: Any, dim: Any, keepdim: bool = False) -> Any:
    dims = normal_dims(dim, self.rank)
    dtype = compute_dtype(b.result.dtype)
    largest = reduce(b, "max", [self], dims, dtype)
    # An infinite maximum would make inf - inf; its exponentials are taken as they are.
    shift = b.pointwise(lambda m: e.where(abs(m).eq(math.inf), 0, m), [largest], largest.type)
    total = reduce(b, "sum", [self, shift], dims, dtype, lambda x, m: e.exp(x.to(dtype) - m))
    return _finish(b, b.pointwise(lambda s, m: e.log(s) + m, [total, shift], total.type))
