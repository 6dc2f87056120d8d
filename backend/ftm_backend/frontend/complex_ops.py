"""Each op on complex tensors, in the real and imaginary parts; see `complex_pairs.py`."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.dtypes import PART, info
from ftm_backend.frontend.complex_pairs import Operand, Rewriter, Tensor, is_number, pair_type, rewrites
from ftm_backend.frontend.trace import Argument, DType, Ref, TensorType
from ftm_backend.linalg.strided import contiguous_strides

# --- windows, copies, moves ------------------------------------------------------------------------------


@rewrites("ftm.view")
def _view(r: Rewriter, result: TensorType, base: Tensor, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Ref:
    return r.view(base.ref, (*sizes, 2), (*(2 * s for s in strides), 1), 2 * offset)


@rewrites("ftm.update")
def _update(
    r: Rewriter, result: TensorType, base: Tensor, value: Tensor, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Ref:
    return r.emit(
        "ftm.update",
        pair_type(result),
        base=base.ref,
        value=value.ref,
        sizes=(*sizes, 2),
        strides=(*(2 * s for s in strides), 1),
        offset=2 * offset,
    )


@rewrites("ftm.bitcast")
def _bitcast(r: Rewriter, result: TensorType, base: Tensor, dtype: DType) -> Ref:
    wanted = pair_type(result)
    assert wanted is not None, "a bitcast has a result"
    own = r.shape(base.ref)
    if r.dtype(base.ref) == wanted.dtype:
        return r.view(base.ref, wanted.shape, contiguous_strides(wanted.shape))
    count = wanted.numel * info(wanted.dtype).bits // info(r.dtype(base.ref)).bits
    if count != TensorType("", own).numel:
        raise ValueError("a bitcast keeps the bytes")
    flat = r.view(base.ref, (count,), (1,))
    made = r.emit("ftm.bitcast", TensorType(wanted.dtype, (wanted.numel,)), base=flat, dtype=DType(wanted.dtype))
    return r.view(made, wanted.shape, contiguous_strides(wanted.shape))


@rewrites("aten::_to_copy aten::copy aten::clone aten::alias aten::detach aten::lift_fresh aten::contiguous aten::positive")
def _convert(r: Rewriter, result: TensorType, self: Tensor, src: Tensor | None = None) -> Ref:
    x = self if src is None else src
    if result.dtype in PART:
        if x.type.dtype in PART:
            return r.expand(r.cast(x.ref, PART[result.dtype]), (*result.shape, 2))
        return r.join(r.parts(x, result)[0], None)
    if result.dtype == "i1":
        type_ = TensorType("i1", x.type.shape)
        return r.expand(r.emit("aten::any.dim", type_, self=x.ref, dim=-1, keepdim=False), result.shape)
    return r.expand(r.cast(r.part(x.ref, 0), result.dtype), result.shape)


@rewrites("aten::expand aten::expand_copy aten::broadcast_to")
def _expand(r: Rewriter, result: TensorType, self: Tensor) -> Ref:
    return r.expand(self.ref, (*result.shape, 2))


@rewrites(
    "aten::zeros aten::zeros_like aten::new_zeros aten::zero aten::empty.memory_format aten::empty_like "
    "aten::new_empty aten::new_empty_strided aten::empty_strided aten::empty_permuted"
)
def _zeros(r: Rewriter, result: TensorType, **_: object) -> Ref:
    type_ = pair_type(result)
    assert type_ is not None, "zeros have a type"
    return r.emit("aten::zeros", type_, size=type_.shape, dtype=DType(type_.dtype))


@rewrites("aten::full aten::full_like aten::new_full aten::fill.Scalar")
def _full(r: Rewriter, result: TensorType, fill_value: Argument = None, value: Argument = None) -> Ref:
    return r.join(*r.parts(value if fill_value is None else fill_value, result))


@rewrites("aten::ones aten::ones_like aten::new_ones")
def _ones(r: Rewriter, result: TensorType, **_: object) -> Ref:
    return r.join(r.parts(1, result)[0], None)


@rewrites("aten::cat")
def _cat(r: Rewriter, result: TensorType, tensors: tuple[Tensor, ...], dim: int) -> Ref:
    type_ = pair_type(result)
    assert type_ is not None, "cat has a result"
    pairs = []
    for t in tensors:
        whole = TensorType(result.dtype, t.type.shape)
        pairs.append(_convert(r, whole, t))
    return r.emit("aten::cat", type_, tensors=tuple(pairs), dim=dim % max(1, len(result.shape)))


@rewrites("aten::flip")
def _flip(r: Rewriter, result: TensorType, self: Tensor, dims: tuple[int, ...]) -> Ref:
    if not result.shape:
        return self.ref  # dims name none, though eager takes 0 and -1
    return r.emit("aten::flip", pair_type(result), self=self.ref, dims=tuple(d % len(result.shape) for d in dims))


# --- arithmetic --------------------------------------------------------------------------------------------


@rewrites("aten::complex")
def _complex(r: Rewriter, result: TensorType, real: Tensor, imag: Tensor) -> Ref:
    return r.join(r.expand(real.ref, result.shape), r.expand(imag.ref, result.shape))


@rewrites("aten::polar")
def _polar(r: Rewriter, result: TensorType, abs: Tensor, angle: Tensor) -> Ref:
    size, turn = r.expand(abs.ref, result.shape), r.expand(angle.ref, result.shape)
    return r.join(r.mul(size, r.unary("cos", turn)), r.mul(size, r.unary("sin", turn)))


@rewrites("aten::neg")
def _neg(r: Rewriter, result: TensorType, self: Tensor) -> Ref:
    return r.unary("neg", self.ref)


@rewrites("aten::conj_physical aten::_conj_physical")
def _conjugate(r: Rewriter, result: TensorType, self: Tensor) -> Ref:
    return r.join(r.part(self.ref, 0), r.unary("neg", r.part(self.ref, 1)))


@rewrites("aten::abs")
def _abs(r: Rewriter, result: TensorType, self: Tensor) -> Ref:
    return r.binary("hypot", r.part(self.ref, 0), r.part(self.ref, 1))


@rewrites("aten::linalg_vector_norm")
def _vector_norm(r: Rewriter, result: TensorType, self: Tensor, ord: Argument, dim: Argument, keepdim: bool, dtype: DType | None) -> Ref:
    """Of absolute values that are those of `abs` to the last bit: the gradient of a greatest one compares with them."""
    size = r.binary("hypot", r.part(self.ref, 0), r.part(self.ref, 1))
    return r.emit("aten::linalg_vector_norm", result, self=size, ord=ord, dim=dim, keepdim=keepdim, dtype=DType(result.dtype))


@rewrites("aten::angle")
def _angle(r: Rewriter, result: TensorType, self: Tensor) -> Ref:
    return r.binary("atan2", r.part(self.ref, 1), r.part(self.ref, 0))


@rewrites("aten::sgn")
def _sgn(r: Rewriter, result: TensorType, self: Tensor) -> Ref:
    real, imaginary = r.part(self.ref, 0), r.part(self.ref, 1)
    size = r.binary("hypot", real, imaginary)
    zero = r.emit("aten::logical_not", TensorType("i1", r.shape(size)), self=size)
    size = r.add(size, r.cast(zero, r.dtype(size)))  # 0 / 1 for 0
    return r.join(r.binary("div.Tensor", real, size), r.binary("div.Tensor", imaginary, size))


@rewrites("aten::exp")
def _exp(r: Rewriter, result: TensorType, self: Tensor) -> Ref:
    size, turn = r.unary("exp", r.part(self.ref, 0)), r.part(self.ref, 1)
    return r.join(r.mul(size, r.unary("cos", turn)), r.mul(size, r.unary("sin", turn)))


@rewrites("aten::log")
def _log(r: Rewriter, result: TensorType, self: Tensor) -> Ref:
    real, imaginary = r.part(self.ref, 0), r.part(self.ref, 1)
    return r.join(r.unary("log", r.binary("hypot", real, imaginary)), r.binary("atan2", imaginary, real))


def _sum(op: str) -> Callable[..., Ref]:
    def rewrite(r: Rewriter, result: TensorType, self: Operand, other: Operand, alpha: Argument) -> Ref:
        (a, b), (c, d) = r.parts(self, result), r.parts(other, result)
        if is_number(alpha):
            c, d = _times(r, (c, d), r.parts(alpha, result))
            alpha = 1
        real = r.binary(op, a, c, alpha=alpha)
        if d is None:
            return r.join(real, b)
        return r.join(real, r.binary(op, _or_zeros(r, b, a), d, alpha=alpha))

    return rewrite


def _or_zeros(r: Rewriter, part: Ref | None, x: Ref) -> Ref:
    """``part``, or zeros of x's type."""
    if part is not None:
        return part
    return r.emit("aten::zeros", TensorType(r.dtype(x), r.shape(x)), size=r.shape(x), dtype=DType(r.dtype(x)))


_subtract = _sum("sub.Tensor")
rewrites("aten::add.Tensor aten::add.Scalar")(_sum("add.Tensor"))
rewrites("aten::sub.Tensor aten::sub.Scalar")(_subtract)


@rewrites("aten::rsub.Tensor aten::rsub.Scalar")
def _rsub(r: Rewriter, result: TensorType, self: Operand, other: Operand, alpha: Argument) -> Ref:
    return _subtract(r, result, self=other, other=self, alpha=alpha)


@rewrites("aten::mul.Tensor aten::mul.Scalar")
def _mul(r: Rewriter, result: TensorType, self: Operand, other: Operand) -> Ref:
    return r.join(*_times(r, r.parts(self, result), r.parts(other, result)))


Parts = tuple[Ref, Ref | None]


def _times(r: Rewriter, x: Parts, y: Parts) -> Parts:
    """The parts of a product; None for the imaginary part of a real one."""
    (a, b), (c, d) = x, y
    if b is None or d is None:
        scale, real, imaginary = (a, c, d) if b is None else (c, a, b)
        return r.mul(real, scale), None if imaginary is None else r.mul(imaginary, scale)
    return r.sub(r.mul(a, c), r.mul(b, d)), r.add(r.mul(a, d), r.mul(b, c))


@rewrites("aten::div.Tensor aten::div.Scalar")
def _div(r: Rewriter, result: TensorType, self: Operand, other: Operand) -> Ref:
    return r.join(*_quotient(r, r.parts(self, result), r.parts(other, result)))


def _quotient(r: Rewriter, x: Parts, y: Parts) -> Parts:
    """By a real number part by part; by a complex one through its square, parts scaled by its larger side."""
    (a, b), (c, d) = x, y

    def div(x: Ref, y: Ref) -> Ref:
        return r.binary("div.Tensor", x, y)

    b = _or_zeros(r, b, a)
    if d is None:
        return div(a, c), div(b, c)
    scale = r.binary("maximum", r.unary("abs", c), r.unary("abs", d))
    c, d = div(c, scale), div(d, scale)
    square = r.mul(r.add(r.mul(c, c), r.mul(d, d)), scale)
    real, imaginary = r.add(r.mul(a, c), r.mul(b, d)), r.sub(r.mul(b, c), r.mul(a, d))
    return div(real, square), div(imaginary, square)


def _fused(join: Callable[..., Parts]) -> Callable[..., Ref]:
    """``self`` and ``value`` times what ``join`` makes of two tensors, as optimizers of complex parameters call it."""

    def rewrite(r: Rewriter, result: TensorType, self: Operand, tensor1: Operand, tensor2: Operand, value: Argument) -> Ref:
        (a, b), factor = r.parts(self, result), r.parts(value, result)
        real, imaginary = _times(r, join(r, r.parts(tensor1, result), r.parts(tensor2, result)), factor)
        if imaginary is None:
            return r.join(r.add(a, real), b)
        return r.join(r.add(a, real), imaginary if b is None else r.add(b, imaginary))

    return rewrite


rewrites("aten::addcmul")(_fused(_times))
rewrites("aten::addcdiv")(_fused(_quotient))


@rewrites("aten::reciprocal")
def _reciprocal(r: Rewriter, result: TensorType, self: Tensor) -> Ref:
    return _div(r, result, 1, self)


@rewrites("aten::mm aten::bmm")
def _product(r: Rewriter, result: TensorType, self: Tensor, mat2: Tensor) -> Ref:
    type_ = TensorType(PART[result.dtype], result.shape)
    op = "aten::mm" if len(result.shape) == 2 else "aten::bmm"
    (a, b), (c, d) = ((r.part(x.ref, 0), r.part(x.ref, 1)) for x in (self, mat2))

    def product(x: Ref, y: Ref) -> Ref:
        return r.emit(op, type_, self=x, mat2=y)

    return r.join(r.sub(product(a, c), product(b, d)), r.add(product(a, d), product(b, c)))


@rewrites("aten::where.self")
def _where(r: Rewriter, result: TensorType, condition: Tensor, self: Tensor, other: Tensor) -> Ref:
    (a, b), (c, d) = r.parts(self, result), r.parts(other, result)
    chosen = [
        r.emit("aten::where.self", TensorType(r.dtype(a), result.shape), condition=condition.ref, self=x, other=y)
        for x, y in ((a, c), (_or_zeros(r, b, a), _or_zeros(r, d, a)))
    ]
    return r.join(chosen[0], chosen[1])


@rewrites("aten::index.Tensor")
def _index(r: Rewriter, result: TensorType, self: Tensor, indices: tuple[Tensor | None, ...]) -> Ref:
    refs = tuple(i if i is None else i.ref for i in indices)
    return r.emit("aten::index.Tensor", pair_type(result), self=self.ref, indices=refs)


def _equal(op: str, join: str) -> Callable[..., Ref]:
    def rewrite(r: Rewriter, result: TensorType, self: Operand, other: Operand) -> Ref:
        dtypes = {x.type.dtype for x in (self, other) if isinstance(x, Tensor)}
        wide = dtypes & {*PART} or {"c128" if "f64" in dtypes else "c64"}  # beside a complex number: as wide as a real tensor
        common = TensorType("c128" if "c128" in wide else wide.pop(), result.shape)
        (a, b), (c, d) = r.parts(self, common), r.parts(other, common)
        b, d = _or_zeros(r, b, a), _or_zeros(r, d, a)
        real, imaginary = (r.emit(op, result, self=x, other=y) for x, y in ((a, c), (b, d)))
        return r.emit(join, result, self=real, other=imaginary)

    return rewrite


rewrites("aten::eq.Tensor aten::eq.Scalar")(_equal("aten::eq.Tensor", "aten::logical_and"))
rewrites("aten::ne.Tensor aten::ne.Scalar")(_equal("aten::ne.Tensor", "aten::logical_or"))


@rewrites("aten::mean aten::mean.dim")
def _mean(r: Rewriter, result: TensorType, self: Tensor, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> Ref:
    return _reduced(r, result, self, dim, keepdim, "aten::mean.dim")


@rewrites("aten::sum aten::sum.dim_IntList")
def _total(r: Rewriter, result: TensorType, self: Tensor, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> Ref:
    return _reduced(r, result, self, dim, keepdim, "aten::sum.dim_IntList")


@rewrites("aten::cumsum")
def _running_total(r: Rewriter, result: TensorType, self: Tensor, dim: int, dtype: DType | None = None) -> Ref:
    pair, rank = _convert(r, result, self), len(result.shape)
    return r.emit("aten::cumsum", pair_type(result), self=pair, dim=dim % rank, dtype=None) if rank else pair


def _reduced(r: Rewriter, result: TensorType, x: Tensor, dim: tuple[int, ...] | None, keepdim: bool, op: str) -> Ref:
    pair, rank = _convert(r, TensorType(result.dtype, x.type.shape), x), len(x.type.shape)
    if not rank:
        return pair
    dims = tuple(range(rank)) if not dim else tuple(d % rank for d in dim)
    return r.emit(op, pair_type(result), self=pair, dim=dims, keepdim=keepdim, dtype=None)
