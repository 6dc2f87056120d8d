"""Pooling of two dimensions (and one), nearest upsampling, with gradients."""

from __future__ import annotations

from typing import Any

from ftm_backend.frontend import elements as e
from ftm_backend.frontend.dtypes import FLOATS, INTS, compute_dtype
from ftm_backend.frontend.ops.record import EXACT, lowering
from ftm_backend.frontend.ops.reduction import _SUMS
from ftm_backend.frontend.strided import Strided, contiguous_strides
from ftm_backend.frontend.trace import TensorType


class _Window:
    """Geometry of a 2-D pooling over x[..., H, W], with lists of one entry meaning both dimensions."""

    def __init__(self, x_shape: tuple[int, ...], out_shape: tuple[int, ...], kernel: list[int], stride: list[int],
                 padding: list[int], dilation: list[int]) -> None:
        self.kernel = kernel * 2 if len(kernel) == 1 else kernel
        self.stride = (stride * 2 if len(stride) == 1 else stride) or self.kernel
        self.padding = padding * 2 if len(padding) == 1 else padding
        self.dilation = dilation * 2 if len(dilation) == 1 else dilation
        self.size, self.out = x_shape[-2:], out_shape[-2:]
        self.planes = 1
        for n in x_shape[:-2]:
            self.planes *= n

    def high(self, k: int) -> int:
        """Elements that the last window needs behind the end of dimension k."""
        last = (self.out[k] - 1) * self.stride[k] + self.dilation[k] * (self.kernel[k] - 1) + 1
        return max(0, last - self.size[k] - self.padding[k])

    @property
    def tiles(self) -> bool:
        """Windows touch but do not overlap, and cover the input exactly."""
        return all(
            s == k and d == 1 and p == 0 and n == o * k
            for s, k, d, p, n, o in zip(self.stride, self.kernel, self.dilation, self.padding, self.size, self.out, strict=True)
        )


def _positions(b: Any, w: _Window) -> Any:
    """[H, W] of i64: the number of each place in its plane.

    Read through the windows like the data, it spares every window the arithmetic on its coordinates.
    """
    from ftm_backend.frontend.builder import Output

    output = Output("i64", tuple(w.size), [0, 1])
    return b.generic(w.size, [], [output], lambda: b.index(0) * w.size[1] + b.index(1))[0]


def _windows(b: Any, x: Any, w: _Window, fill: Any) -> tuple[Any, list[Any], tuple[int, ...]]:
    """(padded [P,H,W] input, its index over loops (p, oh, ow, kh, kw), the loops)."""
    planes = b.reshape(x, (w.planes, *w.size))
    padded = b.pad(planes, [0, *w.padding], [0, w.high(0), w.high(1)], fill)
    index = [0, *(b.dim(1 + k) * w.stride[k] + b.dim(3 + k) * w.dilation[k] for k in range(2))]
    loops = (w.planes, *w.out, *w.kernel)
    return padded, index, loops


@lowering("aten::max_pool2d_with_indices", FLOATS + INTS, "max_pool", EXACT)
def _max_pool(b: Any, self: Any, kernel_size: list[int], stride: list[int], padding: list[int], dilation: list[int],
              ceil_mode: bool) -> Any:
    from ftm_backend.frontend.builder import Input, Output

    w = _Window(self.shape, b.result.shape, kernel_size, stride, padding, dilation)
    padded, index, loops = _windows(b, self, w, e.lowest(self.dtype))
    out_shape = (w.planes, *w.out)
    (values,) = b.generic(
        loops, [Input(padded, index)],
        [Output(self.dtype, out_shape, [0, 1, 2], e.lowest(self.dtype))],
        lambda v, best: e.maximum(best, v), reduced=(3, 4),
    )
    far = e.highest("i64")

    def place(v: Any, position: Any, best: Any, first: Any) -> Any:
        hit = v.eq(best)
        if v.is_float:
            hit = hit | e.isnan(v)
        return e.minimum(first, e.where(hit, position, far))

    places = b.pad(_positions(b, w), w.padding, [w.high(0), w.high(1)], far)  # the border is never chosen
    (indices,) = b.generic(
        loops, [Input(padded, index), Input(places, index[1:]), Input(values, [0, 1, 2])],
        [Output("i64", out_shape, [0, 1, 2], far)], place, reduced=(3, 4),
    )
    return b.reshape(values, b.result.shape), b.reshape(indices, b.result.shape)


def _gather_windows(b: Any, w: _Window, inputs: list[tuple[Any, Any]], dtype: str, element: Any,
                    positions: bool = False) -> Any:
    """Gradient of a pooling: for each input place the sum of ``element`` over the windows that see it.

    inputs: (value [P, OH, OW], what to read where there is no window).  element: gets their Elems and, if
    ``positions`` is set, the number of the input place in its plane; gives an Elem of ``dtype``.
    Windows that tile the input give each place exactly one window, so nothing has to be summed.
    """
    from ftm_backend.frontend.builder import Input, Output

    if w.tiles:
        (oh, ow), (kh, kw) = w.out, w.kernel
        loops = (w.planes, oh, kh, ow, kw)
        reading = [Input(x, [0, 1, 3]) for x, _ in inputs]
        if positions:
            reading.append(Input(b.reshape(_positions(b, w), loops[1:]), [1, 2, 3, 4]))
        (made,) = b.generic(loops, reading, [Output(dtype, loops, range(5))], element)
        return b.reshape(made, (w.planes, *w.size))
    reading = []
    index = [0, *(b.dim(1 + k) + b.dim(3 + k) * w.dilation[k] for k in range(2))]
    for x, missing in inputs:
        # Window o reaches input place i with kernel place k when o * stride = i + padding - k * dilation; with
        # k counted backwards that is a stride-1 window over the windows spread `stride` apart.
        shape = (w.planes, *((n - 1) * s + 1 if n else 0 for n, s in zip(w.out, w.stride, strict=True)))
        strides = contiguous_strides(shape)
        steps = (strides[0], *(t * s for t, s in zip(strides[1:], w.stride, strict=True)))
        spread = b.update(b.full(missing, x.dtype, shape), x, Strided(x.shape, steps))
        low = [0, *(d * (k - 1) - p for d, k, p in zip(w.dilation, w.kernel, w.padding, strict=True))]
        high = [0, *(n + p - m for n, p, m in zip(w.size, w.padding, shape[1:], strict=True))]
        reading.append(Input(b.pad(spread, low, high, missing), index))

    if positions:
        reading.append(Input(_positions(b, w), [1, 2]))

    def body(*args: Any) -> Any:
        *elems, carried = args
        return carried + element(*elems)

    out = Output(dtype, (w.planes, *w.size), [0, 1, 2], 0)
    (made,) = b.generic((w.planes, *w.size, *w.kernel), reading, [out], body, reduced=(3, 4))
    return made


@lowering("aten::max_pool2d_with_indices_backward", (*FLOATS, "i64"), "max_pool_backward", _SUMS)
def _max_pool_backward(b: Any, grad_output: Any, self: Any, kernel_size: list[int], stride: list[int], padding: list[int],
                       dilation: list[int], ceil_mode: bool, indices: Any) -> Any:
    w = _Window(self.shape, grad_output.shape, kernel_size, stride, padding, dilation)
    dtype = compute_dtype(self.dtype)
    shape = (w.planes, *w.out)

    def element(grad: Any, chosen: Any, position: Any) -> Any:
        return e.where(chosen.eq(position), grad.to(dtype), 0)

    inputs = [(b.reshape(grad_output, shape), 0), (b.reshape(indices, shape), -1)]
    return b.cast(b.reshape(_gather_windows(b, w, inputs, dtype, element, positions=True), self.shape), self.dtype)


def _divisors(w: _Window, include_pad: bool, override: int | None) -> tuple[list[int], list[int]] | int:
    """What average pooling divides by: one number, or the extents of each window by row and by column."""
    if override is not None:
        return override
    extents: list[list[int]] = []
    for k in range(2):
        row = []
        for o in range(w.out[k]):
            start = o * w.stride[k] - w.padding[k]
            end = min(start + w.kernel[k], w.size[k] + w.padding[k])
            row.append(end - start if include_pad else min(end, w.size[k]) - max(start, 0))
        extents.append(row)
    if len(set(extents[0])) == 1 and len(set(extents[1])) == 1:
        return extents[0][0] * extents[1][0]
    return extents[0], extents[1]


def _divided(b: Any, x: Any, divisors: Any, dtype: str) -> Any:
    """x[P, OH, OW] divided by the extents of its windows."""
    type_ = TensorType(dtype, x.shape)
    if isinstance(divisors, int):
        return b.pointwise(lambda v: v.to(dtype) / divisors, [x], type_)
    rows = b.reshape(b.numbers(divisors[0], dtype), (1, len(divisors[0]), 1))
    columns = b.reshape(b.numbers(divisors[1], dtype), (1, 1, len(divisors[1])))
    return b.pointwise(lambda v, r, c: v.to(dtype) / (r * c), [x, rows, columns], type_)


@lowering("aten::avg_pool2d", FLOATS, "avg_pool", _SUMS)
def _avg_pool(b: Any, self: Any, kernel_size: list[int], stride: list[int], padding: list[int], ceil_mode: bool,
              count_include_pad: bool, divisor_override: int | None) -> Any:
    from ftm_backend.frontend.builder import Input, Output

    w = _Window(self.shape, b.result.shape, kernel_size, stride, padding, [1])
    dtype = compute_dtype(self.dtype)
    padded, index, loops = _windows(b, self, w, 0)
    (total,) = b.generic(
        loops, [Input(padded, index)], [Output(dtype, (w.planes, *w.out), [0, 1, 2], 0)],
        lambda v, carried: carried + v.to(dtype), reduced=(3, 4),
    )
    mean = _divided(b, total, _divisors(w, count_include_pad, divisor_override), dtype)
    return b.cast(b.reshape(mean, b.result.shape), b.result.dtype)


@lowering("aten::avg_pool2d_backward", FLOATS, "avg_pool_backward", _SUMS)
def _avg_pool_backward(b: Any, grad_output: Any, self: Any, kernel_size: list[int], stride: list[int], padding: list[int],
                       ceil_mode: bool, count_include_pad: bool, divisor_override: int | None) -> Any:
    w = _Window(self.shape, grad_output.shape, kernel_size, stride, padding, [1])
    dtype = compute_dtype(self.dtype)
    grad = b.reshape(grad_output, (w.planes, *w.out))
    share = _divided(b, grad, _divisors(w, count_include_pad, divisor_override), dtype)
    made = _gather_windows(b, w, [(share, 0)], dtype, lambda g: g)
    return b.cast(b.reshape(made, self.shape), self.dtype)


def _adaptive(size: tuple[int, ...], out: tuple[int, ...]) -> tuple[list[int], list[int]] | None:
    """(kernel, stride) of the ordinary pooling that an adaptive one is, where sizes divide."""
    if any(o == 0 or n % o for n, o in zip(size, out, strict=True)):
        return None
    steps = [n // o for n, o in zip(size, out, strict=True)]
    return steps, steps


def _averaging(b: Any, size: int, out: int, dtype: str) -> Any:
    """Matrix [out, size] whose rows average the ranges of an adaptive pooling."""
    rows = []
    for o in range(out):
        start, end = o * size // out, -(-(o + 1) * size // out)
        rows += [1 / (end - start) if start <= i < end else 0.0 for i in range(size)]
    return b.reshape(b.numbers(rows, dtype), (out, size))


@lowering("aten::_adaptive_avg_pool2d", FLOATS, "adaptive_avg_pool", _SUMS)
def _adaptive_avg_pool(b: Any, self: Any, output_size: list[int]) -> Any:
    even = _adaptive(self.shape[-2:], b.result.shape[-2:])
    if even is not None:
        return _avg_pool(b, self, even[0], even[1], [0], False, True, None)
    return _averaged(b, self, b.result, backward=False)


def _averaged(b: Any, x: Any, result: Any, backward: bool) -> Any:
    """Uneven adaptive pooling as two small matrix products, rows[o,i] . x . columns[p,j]^T, or its transpose."""
    from ftm_backend.frontend.builder import Input, Output

    dtype = compute_dtype(x.dtype)
    planes = b.reshape(x, (-1 if not x.type.numel else x.type.numel // (x.shape[-1] * x.shape[-2]), *x.shape[-2:]))
    for axis in (1, 2):
        source, target = planes.shape[axis], result.shape[axis - 3]
        weights = _averaging(b, target, source, dtype).transpose() if backward else _averaging(b, source, target, dtype)
        shape = tuple(target if k == axis else n for k, n in enumerate(planes.shape))
        (planes,) = b.generic(
            (*shape, source),
            [Input(planes, [3 if k == axis else k for k in range(3)]), Input(weights, [axis, 3])],
            [Output(dtype, shape, range(3), 0)],
            lambda v, w, carried: carried + v.to(dtype) * w, reduced=(3,),
        )
    return b.cast(b.reshape(planes, result.shape), result.dtype)


@lowering("aten::_adaptive_avg_pool2d_backward", FLOATS, "adaptive_avg_pool_backward", _SUMS)
def _adaptive_avg_pool_backward(b: Any, grad_output: Any, self: Any) -> Any:
    even = _adaptive(self.shape[-2:], grad_output.shape[-2:])
    if even is not None:
        return _avg_pool_backward(b, grad_output, self, even[0], even[1], [0], False, True, None)
    return _averaged(b, grad_output, b.result, backward=True)


@lowering("aten::upsample_nearest2d", FLOATS, "upsample_nearest", EXACT,
          gap="only to a whole multiple of the input's size")
def _upsample(b: Any, self: Any, output_size: list[int], scales_h: Any = None, scales_w: Any = None) -> Any:
    n, c, h, w = self.shape
    if output_size[0] % h or output_size[1] % w:
        raise TypeError("upsample_nearest2d is compiled for whole multiples of the input's size")
    repeated = b.reshape(self, (n, c, h, 1, w, 1)).expand((n, c, h, output_size[0] // h, w, output_size[1] // w))
    return b.reshape(repeated, b.result.shape)


@lowering("aten::upsample_nearest2d_backward", FLOATS, "upsample_nearest_backward", _SUMS,
          gap="only from a whole multiple of the input's size")
def _upsample_backward(b: Any, grad_output: Any, output_size: list[int], input_size: list[int], scales_h: Any = None,
                       scales_w: Any = None) -> Any:
    from ftm_backend.frontend.ops.reduce import reduce

    n, c, h, w = input_size
    if output_size[0] % h or output_size[1] % w:
        raise TypeError("upsample_nearest2d_backward is compiled for whole multiples of the input's size")
    split = b.reshape(grad_output, (n, c, h, output_size[0] // h, w, output_size[1] // w))
    total = reduce(b, "sum", [split], [3, 5], compute_dtype(grad_output.dtype))
    return b.cast(b.reshape(total, b.result.shape), b.result.dtype)
