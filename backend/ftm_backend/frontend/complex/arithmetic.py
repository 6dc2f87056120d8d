"""Rewrites of complex arithmetic, comparisons and reductions, in real and imaginary parts."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.dtypes import PART
from ftm_backend.frontend.complex.complex_to_real import (
    ComplexRewriter,
    ComplexTensor,
    Operand,
    is_complex_number,
    real_type,
    rewrites,
)
from ftm_backend.frontend.complex.data_movement import cast_complex, or_zeros
from ftm_backend.ir.trace.trace import Argument, DType, Ref, TensorType


@rewrites("aten::complex")
def _complex(
    r: ComplexRewriter, result: TensorType, real: ComplexTensor, imag: ComplexTensor
) -> Ref:
    return r.join(r.expand(real.ref, result.shape), r.expand(imag.ref, result.shape))


@rewrites("aten::polar")
def _polar(r: ComplexRewriter, result: TensorType, abs: ComplexTensor, angle: ComplexTensor) -> Ref:
    magnitude, phase = r.expand(abs.ref, result.shape), r.expand(angle.ref, result.shape)
    return r.join(r.mul(magnitude, r.unary("cos", phase)), r.mul(magnitude, r.unary("sin", phase)))


@rewrites("aten::neg")
def _neg(r: ComplexRewriter, result: TensorType, self: ComplexTensor) -> Ref:
    return r.unary("neg", self.ref)


@rewrites("aten::conj_physical aten::_conj_physical")
def _conjugate(r: ComplexRewriter, result: TensorType, self: ComplexTensor) -> Ref:
    return r.join(r.part(self.ref, 0), r.unary("neg", r.part(self.ref, 1)))


@rewrites("aten::abs")
def _abs(r: ComplexRewriter, result: TensorType, self: ComplexTensor) -> Ref:
    return r.binary("hypot", r.part(self.ref, 0), r.part(self.ref, 1))


@rewrites("aten::linalg_vector_norm")
def _vector_norm(
    r: ComplexRewriter,
    result: TensorType,
    self: ComplexTensor,
    ord: Argument,
    dim: Argument,
    keepdim: bool,
    dtype: DType | None,
) -> Ref:
    """Use the absolute values of `abs` bit by bit: the gradient of a maximum compares with them."""
    magnitude = r.binary("hypot", r.part(self.ref, 0), r.part(self.ref, 1))
    return r.emit(
        "aten::linalg_vector_norm",
        result,
        self=magnitude,
        ord=ord,
        dim=dim,
        keepdim=keepdim,
        dtype=DType(result.dtype),
    )


@rewrites("aten::angle")
def _angle(r: ComplexRewriter, result: TensorType, self: ComplexTensor) -> Ref:
    return r.binary("atan2", r.part(self.ref, 1), r.part(self.ref, 0))


@rewrites("aten::sgn")
def _sgn(r: ComplexRewriter, result: TensorType, self: ComplexTensor) -> Ref:
    real, imaginary = r.part(self.ref, 0), r.part(self.ref, 1)
    magnitude = r.binary("hypot", real, imaginary)
    zero = r.emit("aten::logical_not", TensorType("i1", r.shape(magnitude)), self=magnitude)
    magnitude = r.add(magnitude, r.cast(zero, r.dtype(magnitude)))  # divides 0 by 1
    return r.join(
        r.binary("div.Tensor", real, magnitude), r.binary("div.Tensor", imaginary, magnitude)
    )


@rewrites("aten::exp")
def _exp(r: ComplexRewriter, result: TensorType, self: ComplexTensor) -> Ref:
    magnitude, phase = r.unary("exp", r.part(self.ref, 0)), r.part(self.ref, 1)
    return r.join(r.mul(magnitude, r.unary("cos", phase)), r.mul(magnitude, r.unary("sin", phase)))


@rewrites("aten::log")
def _log(r: ComplexRewriter, result: TensorType, self: ComplexTensor) -> Ref:
    real, imaginary = r.part(self.ref, 0), r.part(self.ref, 1)
    return r.join(
        r.unary("log", r.binary("hypot", real, imaginary)), r.binary("atan2", imaginary, real)
    )


def _sum(op: str) -> Callable[..., Ref]:
    def rewrite(
        r: ComplexRewriter, result: TensorType, self: Operand, other: Operand, alpha: Argument
    ) -> Ref:
        (a, b), (c, d) = r.parts(self, result), r.parts(other, result)
        if is_complex_number(alpha):
            c, d = _times(r, (c, d), r.parts(alpha, result))
            alpha = 1
        real = r.binary(op, a, c, alpha=alpha)
        if d is None:
            return r.join(real, b)
        return r.join(real, r.binary(op, or_zeros(r, b, a), d, alpha=alpha))

    return rewrite


_subtract = _sum("sub.Tensor")
rewrites("aten::add.Tensor aten::add.Scalar")(_sum("add.Tensor"))
rewrites("aten::sub.Tensor aten::sub.Scalar")(_subtract)


@rewrites("aten::rsub.Tensor aten::rsub.Scalar")
def _rsub(
    r: ComplexRewriter, result: TensorType, self: Operand, other: Operand, alpha: Argument
) -> Ref:
    return _subtract(r, result, self=other, other=self, alpha=alpha)


@rewrites("aten::mul.Tensor aten::mul.Scalar")
def _mul(r: ComplexRewriter, result: TensorType, self: Operand, other: Operand) -> Ref:
    return r.join(*_times(r, r.parts(self, result), r.parts(other, result)))


Parts = tuple[Ref, Ref | None]


def _times(r: ComplexRewriter, x: Parts, y: Parts) -> Parts:
    """Multiply; None stands for the imaginary part of a real number."""
    (a, b), (c, d) = x, y
    if b is None or d is None:
        scale, real, imaginary = (a, c, d) if b is None else (c, a, b)
        return r.mul(real, scale), None if imaginary is None else r.mul(imaginary, scale)
    return r.sub(r.mul(a, c), r.mul(b, d)), r.add(r.mul(a, d), r.mul(b, c))


@rewrites("aten::div.Tensor aten::div.Scalar")
def _div(r: ComplexRewriter, result: TensorType, self: Operand, other: Operand) -> Ref:
    return r.join(*_quotient(r, r.parts(self, result), r.parts(other, result)))


def _quotient(r: ComplexRewriter, x: Parts, y: Parts) -> Parts:
    """Divide. For a complex divisor, scale by its larger part to avoid overflow."""
    (a, b), (c, d) = x, y

    def div(x: Ref, y: Ref) -> Ref:
        return r.binary("div.Tensor", x, y)

    b = or_zeros(r, b, a)
    if d is None:
        return div(a, c), div(b, c)
    scale = r.binary("maximum", r.unary("abs", c), r.unary("abs", d))
    c, d = div(c, scale), div(d, scale)
    square = r.mul(r.add(r.mul(c, c), r.mul(d, d)), scale)
    real, imaginary = r.add(r.mul(a, c), r.mul(b, d)), r.sub(r.mul(b, c), r.mul(a, d))
    return div(real, square), div(imaginary, square)


def _fused(combine: Callable[..., Parts]) -> Callable[..., Ref]:
    """Rewrite ``self + combine(value * tensor1, tensor2)``, as optimizers call it."""

    def rewrite(
        r: ComplexRewriter,
        result: TensorType,
        self: Operand,
        tensor1: Operand,
        tensor2: Operand,
        value: Argument,
    ) -> Ref:
        (a, b), factor = r.parts(self, result), r.parts(value, result)
        scaled = _times(r, factor, r.parts(tensor1, result))
        real, imaginary = combine(r, scaled, r.parts(tensor2, result))
        if imaginary is None:
            return r.join(r.add(a, real), b)
        return r.join(r.add(a, real), imaginary if b is None else r.add(b, imaginary))

    return rewrite


rewrites("aten::addcmul")(_fused(_times))
rewrites("aten::addcdiv")(_fused(_quotient))


@rewrites("aten::reciprocal")
def _reciprocal(r: ComplexRewriter, result: TensorType, self: ComplexTensor) -> Ref:
    return _div(r, result, 1, self)


@rewrites("aten::mm aten::bmm")
def _product(
    r: ComplexRewriter, result: TensorType, self: ComplexTensor, mat2: ComplexTensor
) -> Ref:
    type_ = TensorType(PART[result.dtype], result.shape)
    op = "aten::mm" if len(result.shape) == 2 else "aten::bmm"
    (a, b), (c, d) = ((r.part(x.ref, 0), r.part(x.ref, 1)) for x in (self, mat2))

    def product(x: Ref, y: Ref) -> Ref:
        return r.emit(op, type_, self=x, mat2=y)

    return r.join(r.sub(product(a, c), product(b, d)), r.add(product(a, d), product(b, c)))


def _equal(op: str, join: str) -> Callable[..., Ref]:
    def rewrite(r: ComplexRewriter, result: TensorType, self: Operand, other: Operand) -> Ref:
        dtypes = {x.type.dtype for x in (self, other) if isinstance(x, ComplexTensor)}
        # a complex number is as wide as the real tensor that it is compared with
        wide = dtypes & {*PART} or {"c128" if "f64" in dtypes else "c64"}
        common = TensorType("c128" if "c128" in wide else wide.pop(), result.shape)
        (a, b), (c, d) = r.parts(self, common), r.parts(other, common)
        b, d = or_zeros(r, b, a), or_zeros(r, d, a)
        real, imaginary = (r.emit(op, result, self=x, other=y) for x, y in ((a, c), (b, d)))
        return r.emit(join, result, self=real, other=imaginary)

    return rewrite


rewrites("aten::eq.Tensor aten::eq.Scalar")(_equal("aten::eq.Tensor", "aten::logical_and"))
rewrites("aten::ne.Tensor aten::ne.Scalar")(_equal("aten::ne.Tensor", "aten::logical_or"))


@rewrites("aten::cumsum")
def _running_total(
    r: ComplexRewriter,
    result: TensorType,
    self: ComplexTensor,
    dim: int,
    dtype: DType | None = None,
) -> Ref:
    pair, rank = cast_complex(r, result, self), len(result.shape)
    return (
        r.emit("aten::cumsum", real_type(result), self=pair, dim=dim % rank, dtype=None)
        if rank
        else pair
    )


def _reduced(op: str) -> Callable[..., Ref]:
    def rewrite(
        r: ComplexRewriter,
        result: TensorType,
        self: ComplexTensor,
        dim: tuple[int, ...] | None = None,
        keepdim: bool = False,
    ) -> Ref:
        pair = cast_complex(r, TensorType(result.dtype, self.type.shape), self)
        rank = len(self.type.shape)
        if not rank:
            return pair
        dims = tuple(range(rank)) if not dim else tuple(d % rank for d in dim)
        return r.emit(op, real_type(result), self=pair, dim=dims, keepdim=keepdim, dtype=None)

    return rewrite


rewrites("aten::mean aten::mean.dim")(_reduced("aten::mean.dim"))
rewrites("aten::sum aten::sum.dim_IntList")(_reduced("aten::sum.dim_IntList"))
