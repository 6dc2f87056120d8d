"""Rewrites of Fourier transforms as matrix products.

A transform of length n is a product with the n x n matrix of roots of unity. A length with a factor
near its square root is split into two shorter transforms with twiddle factors between them,
recursively. Roots are computed on the device from products of indices reduced modulo n, so that no
angle loses digits. A long prime length becomes a convolution, i.e. three transforms of a power of
two (Bluestein's algorithm).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ftm_backend.dtypes import PART
from ftm_backend.frontend.complex.complex_to_real import ComplexRewriter, ComplexTensor, rewrites
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.trace.trace import DType, Ref, TensorType

recorded("aten::_fft_r2c aten::_fft_c2r aten::_fft_c2c", layout="cpu")

_DIRECT = 64
"""Longest length computed as one product without trying to split it."""

_MATRIX = 512
"""Longest length computed as one product if it cannot be split."""


class _Transform:
    """Builds one transform; a complex value is a pair of Refs of one shape."""

    def __init__(self, r: ComplexRewriter, dtype: str, sign: int) -> None:
        self.r, self.dtype, self.sign = r, dtype, sign

    def along_last(self, x: tuple[Ref, Ref]) -> tuple[Ref, Ref]:
        """Transform each row of x[rows, n]."""
        rows, n = self.r.shape(x[0])
        if n == 1:
            return x
        inner = self._divisor(n)
        if inner is None:
            return (
                self._product(x, self._roots(n, n, n)) if n <= _MATRIX else self._by_convolution(x)
            )
        # With j = outer * a + b and k = c + inner * d: transform over a, multiply by twiddle
        # factors of b * c, transform over b.
        outer = n // inner
        split = (rows, inner, outer)
        first = self._permuted(x, split, (0, 2, 1), (rows * outer, inner))  # [rows, b, a]
        first = self.along_last(first)  # [rows, b, c]
        twiddle = self._roots(outer, inner, n)
        twisted = self._times(
            self._permuted(first, (rows, outer, inner), (0, 1, 2), (rows, outer, inner)), twiddle
        )
        # [rows, c, b]
        second = self._permuted(twisted, (rows, outer, inner), (0, 2, 1), (rows * inner, outer))
        second = self.along_last(second)  # [rows, c, d]
        return self._permuted(second, (rows, inner, outer), (0, 2, 1), (rows, n))  # [rows, d, c]

    def _by_convolution(self, x: tuple[Ref, Ref]) -> tuple[Ref, Ref]:
        """Transform by Bluestein's algorithm.

        With j k = (j**2 + k**2 - (k - j)**2) / 2: multiply by a chirp, convolve with its conjugate,
        multiply by the chirp.
        """
        r, (rows, n) = self.r, self.r.shape(x[0])
        length = 1 << (2 * n - 1).bit_length()
        chirp = self._chirp(n)
        padded = tuple(self._zero_padded(part, length, 0) for part in self._times(x, chirp))
        mirrored = (
            r.emit("aten::flip", TensorType(self.dtype, (1, n)), self=chirp[0], dims=(1,)),
            r.emit("aten::flip", TensorType(self.dtype, (1, n)), self=chirp[1], dims=(1,)),
        )
        kernel = []
        # indices 0 .. n - 1 first, then -(n - 1) .. 0 at the end
        for part, mirror in zip(chirp, mirrored, strict=True):
            start = self._zero_padded(mirror, length, length - n + 1, n - 1)
            kernel.append(
                r.emit(
                    "ftm.update",
                    TensorType(self.dtype, (1, length)),
                    base=start,
                    value=part,
                    sizes=(1, n),
                    strides=(length, 1),
                    offset=0,
                )
            )
        conjugate = kernel[0], r.unary("neg", kernel[1])
        forward, inverse = _Transform(r, self.dtype, -1), _Transform(r, self.dtype, 1)
        product = self._times(
            forward.along_last((padded[0], padded[1])), forward.along_last(conjugate)
        )
        result = [inverse.scaled(part, (length,), 2) for part in inverse.along_last(product)]
        first = [r.view(part, (rows, n), (length, 1)) for part in result]
        return self._times((first[0], first[1]), chirp)

    def _zero_padded(self, x: Ref, length: int, offset: int, count: int | None = None) -> Ref:
        """Insert the first `count` columns of x[rows, n] at `offset` into zeros [rows, length]."""
        r, (rows, n) = self.r, self.r.shape(x)
        type_, sizes = TensorType(self.dtype, (rows, length)), (rows, n if count is None else count)
        zeros = r.emit("aten::zeros", type_, size=type_.shape, dtype=DType(self.dtype))
        value = x if sizes[1] == n else r.view(x, sizes, (n, 1))
        return r.emit(
            "ftm.update",
            type_,
            base=zeros,
            value=value,
            sizes=sizes,
            strides=(length, 1),
            offset=offset,
        )

    def _chirp(self, n: int) -> tuple[Ref, Ref]:
        """Return cos and sin of ``sign * pi * k**2 / n``, as 1 x n."""
        r, type_ = self.r, TensorType("i64", (1, n))
        count = r.view(
            r.emit("aten::arange", TensorType("i64", (n,)), end=n, dtype=DType("i64")),
            (1, n),
            (n, 1),
        )
        square = r.emit("aten::mul.Tensor", type_, self=count, other=count)
        return self._unit_circle(
            r.emit("aten::fmod.Scalar", type_, self=square, other=2 * n), self.sign * math.pi / n
        )

    def _unit_circle(self, multiples: Ref, unit: float) -> tuple[Ref, Ref]:
        """Return cos and sin of ``steps * unit``."""
        r = self.r
        angle = r.emit(
            "aten::mul.Scalar",
            TensorType("f64", r.shape(multiples)),
            self=r.cast(multiples, "f64"),
            other=unit,
        )
        return r.cast(r.unary("cos", angle), self.dtype), r.cast(r.unary("sin", angle), self.dtype)

    def _divisor(self, n: int) -> int | None:
        if n <= _DIRECT:
            return None
        return next((d for d in range(math.isqrt(n), 1, -1) if n % d == 0), None)

    def _permuted(
        self, x: tuple[Ref, Ref], sizes: Sequence[int], order: Sequence[int], shape: Sequence[int]
    ) -> tuple[Ref, Ref]:
        """Reshape both parts to `sizes`, permute them, and reshape to `shape`."""
        strides = row_major(tuple(sizes))
        result = []
        for part in x:
            permuted = self.r.view(part, [sizes[k] for k in order], [strides[k] for k in order])
            result.append(self.r.view(permuted, shape, row_major(tuple(shape))))
        return result[0], result[1]

    def _roots(self, rows: int, columns: int, n: int) -> tuple[Ref, Ref]:
        """Return cos and sin of ``sign * 2 pi j k / n`` for j < rows, k < columns."""
        r, whole = self.r, TensorType("i64", (rows, columns))

        def count(length: int) -> Ref:
            return r.emit(
                "aten::arange", TensorType("i64", (length,)), end=length, dtype=DType("i64")
            )

        down = r.view(count(rows), (rows, columns), (1, 0))
        across = r.view(count(columns), (rows, columns), (0, 1))
        product = r.emit("aten::mul.Tensor", whole, self=down, other=across)
        reduced = r.emit("aten::fmod.Scalar", whole, self=product, other=n)
        return self._unit_circle(reduced, self.sign * 2 * math.pi / n)

    def _times(self, x: tuple[Ref, Ref], y: tuple[Ref, Ref]) -> tuple[Ref, Ref]:
        """Multiply elementwise; `y` broadcasts over the rows."""
        r = self.r
        c, d = (r.expand(part, r.shape(x[0])) for part in y)
        return r.sub(r.mul(x[0], c), r.mul(x[1], d)), r.add(r.mul(x[0], d), r.mul(x[1], c))

    def _product(self, x: tuple[Ref, Ref], y: tuple[Ref, Ref]) -> tuple[Ref, Ref]:
        r = self.r
        type_ = TensorType(self.dtype, (r.shape(x[0])[0], r.shape(y[0])[1]))

        def mm(a: Ref, b: Ref) -> Ref:
            return r.emit("aten::mm", type_, self=a, mat2=b)

        return r.sub(mm(x[0], y[0]), mm(x[1], y[1])), r.add(mm(x[0], y[1]), mm(x[1], y[0]))

    def along(self, x: tuple[Ref, Ref], dim: int) -> tuple[Ref, Ref]:
        """Transform along dimension `dim`."""
        shape = self.r.shape(x[0])
        rank = len(shape)
        order = [k for k in range(rank) if k != dim] + [dim]
        permuted_shape = [shape[k] for k in order]
        rows = self._permuted(x, shape, order, (math.prod(permuted_shape[:-1]), permuted_shape[-1]))
        back = [order.index(k) for k in range(rank)]
        return self._permuted(self.along_last(rows), permuted_shape, back, shape)

    def scaled(self, x: Ref, lengths: Sequence[int], normalization: int) -> Ref:
        """Normalize as PyTorch: 0 no, 1 by the square root of the element count, 2 by the count."""
        factor = {0: 1.0, 1: 1 / math.sqrt(math.prod(lengths)), 2: 1 / math.prod(lengths)}[
            normalization
        ]
        return (
            x
            if factor == 1.0
            else self.r.emit(
                "aten::mul.Scalar", TensorType(self.dtype, self.r.shape(x)), self=x, other=factor
            )
        )


def _complex(
    r: ComplexRewriter,
    x: tuple[Ref, Ref],
    transform: _Transform,
    lengths: Sequence[int],
    normalization: int,
) -> Ref:
    return r.join(
        transform.scaled(x[0], lengths, normalization),
        transform.scaled(x[1], lengths, normalization),
    )


def _transformed(
    r: ComplexRewriter, x: tuple[Ref, Ref], dims: Sequence[int], transform: _Transform
) -> tuple[Ref, Ref]:
    for dim in dims:
        x = transform.along(x, dim)
    return x


@rewrites("aten::_fft_c2c")
def _c2c(
    r: ComplexRewriter,
    result: TensorType,
    self: ComplexTensor,
    dim: tuple[int, ...],
    normalization: int,
    forward: bool,
) -> Ref:
    transform = _Transform(r, PART[result.dtype], -1 if forward else 1)
    dims = [d % len(result.shape) for d in dim]
    x = _transformed(r, (r.part(self.ref, 0), r.part(self.ref, 1)), dims, transform)
    return _complex(r, x, transform, [result.shape[d] for d in dims], normalization)


@rewrites("aten::_fft_r2c")
def _r2c(
    r: ComplexRewriter,
    result: TensorType,
    self: ComplexTensor,
    dim: tuple[int, ...],
    normalization: int,
    onesided: bool,
) -> Ref:
    dtype, shape = PART[result.dtype], self.type.shape
    transform = _Transform(r, dtype, -1)
    dims = [d % len(shape) for d in dim]
    zeros = r.emit("aten::zeros", TensorType(dtype, shape), size=shape, dtype=DType(dtype))
    x = _transformed(r, (self.ref, zeros), dims[::-1], transform)
    # the result is the first half of the last dimension
    half = [r.view(part, result.shape, row_major(shape)) for part in x]
    return _complex(r, (half[0], half[1]), transform, [shape[d] for d in dims], normalization)


@rewrites("aten::_fft_c2r")
def _c2r(
    r: ComplexRewriter,
    result: TensorType,
    self: ComplexTensor,
    dim: tuple[int, ...],
    normalization: int,
    last_dim_size: int,
) -> Ref:
    """Invert _fft_r2c; the missing half of the last dimension is conjugate to the given half."""
    transform = _Transform(r, result.dtype, 1)
    shape, n = self.type.shape, last_dim_size
    dims = [d % len(shape) for d in dim]
    x = _transformed(r, (r.part(self.ref, 0), r.part(self.ref, 1)), dims[:-1], transform)
    last, half_length = dims[-1], n // 2 + 1
    order = [k for k in range(len(shape)) if k != last] + [last]
    rows = math.prod(shape[k] for k in order[:-1])
    x = transform._permuted(x, shape, order, (rows, shape[last]))
    if shape[last] != half_length:
        x = tuple(r.view(part, (rows, half_length), (shape[last], 1)) for part in x)  # type: ignore[assignment]
    real = _short(r, transform, x, n) if n <= _DIRECT else _mirrored(r, transform, x, n)
    permuted_shape = [result.shape[k] for k in order]
    back = [order.index(k) for k in range(len(order))]
    output, _ = transform._permuted((real, real), permuted_shape, back, result.shape)
    return transform.scaled(output, [result.shape[d] for d in dims], normalization)


def _short(r: ComplexRewriter, transform: _Transform, x: tuple[Ref, Ref], n: int) -> Ref:
    """Return the real part for n <= 64 from x[rows, n / 2 + 1].

    Each element counts twice, except the first, and the middle of an even length.
    """
    rows, half_length = r.shape(x[0])
    cosines, sines = transform._roots(half_length, n, n)
    weights = r.view(_weights(r, n, transform.dtype), (half_length, n), (1, 0))
    type_ = TensorType(transform.dtype, (rows, n))
    return r.sub(
        r.emit("aten::mm", type_, self=x[0], mat2=r.mul(cosines, weights)),
        r.emit("aten::mm", type_, self=x[1], mat2=r.mul(sines, weights)),
    )


def _mirrored(r: ComplexRewriter, transform: _Transform, x: tuple[Ref, Ref], n: int) -> Ref:
    """Return the real part of the transform of x[rows, n / 2 + 1] with its mirror image."""
    rows, half_length = r.shape(x[0])
    whole = []
    for part, conjugate in zip(x, (False, True), strict=True):
        tail = r.view(part, (rows, n - half_length), (half_length, 1), 1)
        tail = r.emit(
            "aten::flip", TensorType(transform.dtype, (rows, n - half_length)), self=tail, dims=(1,)
        )
        tail = r.unary("neg", tail) if conjugate else tail
        whole.append(
            r.emit("aten::cat", TensorType(transform.dtype, (rows, n)), tensors=(part, tail), dim=1)
        )
    return transform.along_last((whole[0], whole[1]))[0]


def _weights(r: ComplexRewriter, n: int, dtype: str) -> Ref:
    """Return 2 for each element, but 1 for elements 0 and n / 2."""
    count = n // 2 + 1
    result = r.emit(
        "aten::full", TensorType(dtype, (count,)), size=(count,), fill_value=2.0, dtype=DType(dtype)
    )
    for k in {0, n // 2} if n % 2 == 0 else {0}:
        one = r.emit(
            "aten::full", TensorType(dtype, (1,)), size=(1,), fill_value=1.0, dtype=DType(dtype)
        )
        result = r.emit(
            "ftm.update",
            TensorType(dtype, (count,)),
            base=result,
            value=one,
            sizes=(1,),
            strides=(1,),
            offset=k,
        )
    return result
