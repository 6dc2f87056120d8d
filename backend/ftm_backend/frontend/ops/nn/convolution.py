"""Op records of convolutions in one to three dimensions, forward and backward.

They may be grouped, strided, dilated and transposed. In two dimensions they are named ops after a
``tensor.pad``, in three generic loop nests over windows (``o * stride + k * dilation``).
One-dimensional convolutions get an extra dimension of extent 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.dtypes import FLOATS, INTS, compute_dtype
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.named_op_builder import contraction
from ftm_backend.frontend.oplib.op_registry import lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.oplib.subpixel_convolution import interleaved_phases, phases_of
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.named_ops import CONV_TRANSPOSE, WEIGHT_GRADIENT
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.symbolic import ceildiv

recorded(
    "aten::convolution",
    tried=("mixed", "negatives", "transposed_integers"),
    composite="unfit",
    layout="convolution",
)
recorded("aten::convolution_backward", composite="unfit", layout="convolution_backward")

_CONV = {"f64": (1e-10, 1e-11), "f32": (1e-4, 2e-5), "f16": (4e-3, 2e-3), "bf16": (3e-2, 2e-2)}


def _spread(values: Sequence[int], dims: int) -> list[int]:
    return list(values) * dims if len(values) == 1 else list(values)


class _Geometry:
    """Padding, strides and dilation per spatial dimension, with a leading 1 for 1-D input."""

    def __init__(
        self,
        dims: int,
        stride: list[int],
        padding: list[int],
        dilation: list[int],
        groups: int,
    ) -> None:
        widened = dims == 1
        self.widened, self.dims, self.groups = widened, max(dims, 2), groups
        self.stride, self.padding, self.dilation = (
            [default] * widened + _spread(values, dims)
            for values, default in ((stride, 1), (padding, 0), (dilation, 1))
        )

    def lift(self, x: StridedValue) -> StridedValue:
        """View a 1-D activation or weight as a 2-D one."""
        return x.unsqueeze(2) if self.widened else x


def _flip(b: LinalgBuilder, weight: StridedValue, dims: int) -> StridedValue:
    """Copy the weight with its spatial dimensions reversed."""
    if all(n == 1 for n in weight.shape[-dims:]):
        return weight
    rank = weight.rank
    index = [
        b.dim(k) if k < rank - dims else b.dim(k) * -1 + (weight.shape[k] - 1) for k in range(rank)
    ]
    (flipped,) = b.generic(
        weight.shape,
        [LoopInput(weight, index)],
        [LoopOutput(weight.dtype, weight.shape, range(rank))],
        lambda v: v,
    )
    return flipped


def correlate(
    b: LinalgBuilder,
    x: StridedValue,
    weight: StridedValue,
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> StridedValue:
    """Return the valid correlation of x[N,C,...] with weight[F,C/groups,...].

    Args:
        b: The builder.
        x: The input, already padded.
        weight: The filters.
        stride: By spatial dimension.
        dilation: By spatial dimension.
        groups: Number of groups.

    Returns:
        [N,F,...] in the compute dtype.
    """
    dims, batch, filters = x.rank - 2, x.shape[0], weight.shape[0]
    out = tuple(
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], weight.shape[2:], stride, dilation, strict=True)
    )
    name, shape = "linalg.conv_2d_nchw_fchw", (batch, filters, *out)
    if groups != 1 or dims != 2:
        is_depthwise = type(groups) is int and x.shape[1] == filters == groups and dims == 2
        if is_depthwise:
            name = "linalg.depthwise_conv_2d_nchw_chw"
            weight = b.reshape(weight, (groups, *weight.shape[2:]))
        else:
            name, shape = "linalg.conv_2d_ngchw_gfchw", (batch, groups, filters // groups, *out)
            x = b.reshape(x, (batch, groups, x.shape[1] // groups, *x.shape[2:]))
            weight = b.reshape(weight, (groups, filters // groups, *weight.shape[1:]))
    if dims == 2:
        dtype = compute_dtype(x.dtype)
        result = contraction(
            b,
            name,
            x,
            weight,
            shape,
            dtype,
            {"strides": tuple(stride), "dilations": tuple(dilation)},
        )
    else:
        result = _window_correlation(b, x, weight, stride, dilation, shape)
    return b.reshape(result, (batch, filters, *out))


def _window_correlation(
    b: LinalgBuilder,
    data: StridedValue,
    parameters: StridedValue,
    stride: Sequence[int],
    dilation: Sequence[int],
    shape: tuple[int, ...],
) -> StridedValue:
    """Compute `correlate` of [N,G,C,...] with [G,F,C,...] as a generic loop nest."""
    channels, *kernel = parameters.shape[2:]
    dims, dtype = len(kernel), compute_dtype(data.dtype)
    c = 3 + dims
    windows = [b.dim(3 + k) * stride[k] + b.dim(c + 1 + k) * dilation[k] for k in range(dims)]
    loops = (*shape, channels, *kernel)
    (result,) = b.generic(
        loops,
        [
            LoopInput(data, [0, 1, c, *windows]),
            LoopInput(parameters, [1, 2, c, *range(c + 1, c + 1 + dims)]),
        ],
        [LoopOutput(dtype, shape, range(3 + dims), 0)],
        lambda v, w, carried: carried + v.to(dtype) * w.to(dtype),
        reduced=range(c, c + 1 + dims),
    )
    return result


def _transposed_weight(b: LinalgBuilder, weight: StridedValue, groups: int) -> StridedValue:
    """Transpose [F, C/g, ...] to [C, F/g, ...]: the backward convolution's unflipped weight."""
    filters = weight.shape[0] // groups
    split = b.reshape(weight, (groups, filters, *weight.shape[1:]))
    swapped = split.permute((0, 2, 1, *range(3, split.rank)))
    return b.reshape(swapped, (groups * weight.shape[1], filters, *weight.shape[2:]))


def _tap_by_tap(b: LinalgBuilder, weight: StridedValue) -> StridedValue:
    """Copy the weight so that filters and channels of a tap are contiguous."""
    last = weight.rank - 2
    return b.copy(weight.permute((*range(2, weight.rank), 0, 1))).permute(
        (last, last + 1, *range(last))
    )


def _interior_padded(
    b: LinalgBuilder, x: StridedValue, g: _Geometry, size: Sequence[int]
) -> StridedValue:
    """Place element o of each spatial dimension at ``o * stride - padding``, with zeros between.

    A window of one tap multiplies before this, because zeros need no multiplication.
    """
    if all(
        s == 1 and p == 0 and n == m
        for s, p, n, m in zip(g.stride, g.padding, x.shape[2:], size, strict=True)
    ):
        return x
    shape = (*x.shape[:2], *size)
    strides = row_major(shape)
    steps, offset = list(strides[:2]), 0
    for dim, (s, p, n, step) in enumerate(
        zip(g.stride, g.padding, size, strides[2:], strict=True), start=2
    ):
        first = (p + s - 1) // s
        start = first * s - p
        x = x.slice(dim, first, min(x.shape[dim] - first, (n - start + s - 1) // s))
        steps.append(step * s)
        offset += start * step
    return b.update(b.full(0, x.dtype, shape), x, Strided(x.shape, tuple(steps), offset))


def _scatter_windows(
    b: LinalgBuilder, x: StridedValue, weight: StridedValue, g: _Geometry, size: Sequence[int]
) -> StridedValue:
    """Transposed convolution: the adjoint of `correlate`, from x[N,F,...] to extents `size`.

    If it is strided, or in two dimensions, it is the named op ``ftm.conv_transpose``, with the same
    as convolutions for machines that compute it so.
    """
    has_taps = any(n != 1 for n in weight.shape[2:])
    if g.dims == 3 and has_taps and g.stride[0] != 1:
        return _by_depth(b, x, weight, g, size)
    expansion = _expanded(b, x, weight, g, size)
    if g.dims == 3:
        if not has_taps or g.stride == [1, 1, 1]:
            return expansion
        x, weight = _planes_of_taps(b, x, weight, g, size[0])
    # one tap has no dilation
    dilation = [d if n > 1 else 1 for d, n in zip(g.dilation[-2:], weight.shape[2:], strict=True)]
    numbers = {"stride": g.stride[-2:], "dilation": dilation, "padding": g.padding[-2:]}
    return b.create(
        CONV_TRANSPOSE,
        expansion.dtype,
        expansion.shape,
        [b.tensor(x), b.tensor(weight), b.tensor(expansion)],
        {name: ",".join(map(str, pair)) for name, pair in numbers.items()},
    )


def _by_depth(
    b: LinalgBuilder, x: StridedValue, weight: StridedValue, g: _Geometry, size: Sequence[int]
) -> StridedValue:
    """Return a transposed convolution with a stride in depth as some without.

    The planes of one phase of the depth have the same taps.
    """
    shape = (x.shape[0], g.groups * weight.shape[1], *size)
    strides = row_major(shape)
    found = phases_of(g.stride[0], g.padding[0], g.dilation[0], weight.shape[2])
    parts: list[tuple[StridedValue, Strided]] = []
    for r, phase in enumerate(found):
        count = ceildiv(size[0] - r, g.stride[0])
        if phase is None or count <= 0:
            continue
        taps = weight.slice(2, phase.first, phase.count, phase.step)
        stride, padding = [1, *g.stride[1:]], [phase.end, *g.padding[1:]]
        dilation = [phase.spacing, *g.dilation[1:]]
        dense = _Geometry(3, stride, padding, dilation, g.groups)
        part = _scatter_windows(b, x, taps, dense, (count, *size[1:]))
        steps = (*strides[:2], g.stride[0] * strides[2], *strides[3:])
        parts.append((part, Strided(part.shape, steps, r * strides[2])))
    dtype = compute_dtype(x.dtype)
    base = b.full(0, dtype, shape) if None in found else b.empty(dtype, shape)
    return b.insert_slices(base, parts)


def _planes_of_taps(
    b: LinalgBuilder, x: StridedValue, weight: StridedValue, g: _Geometry, depth: int
) -> tuple[StridedValue, StridedValue]:
    """Return operands whose filters are those of all taps of the depth, which has stride 1.

    Args:
        b: The builder.
        x: The input, [N,F,D,...].
        weight: The filters, [F,C/groups,taps,...].
        g: The geometry.
        depth: Planes of the result.

    Returns:
        The planes that the taps read, [N,groups*taps*F/groups,depth,...], and the filters,
        [groups*taps*F/groups,C/groups,...].
    """
    batch, filters, planes, *rest = x.shape
    taps, each = weight.shape[2], filters // g.groups
    shape = (batch, g.groups, taps, each, depth, *rest)
    strides = row_major(shape)
    parts: list[tuple[StridedValue, Strided]] = []
    for tap in range(taps):
        start = g.padding[0] - g.dilation[0] * tap  # the plane that the tap of the first one reads
        first, end = max(start, 0), min(start + depth, planes)
        if first < end:
            read = x.slice(2, first, end - first)
            part = b.reshape(read, (batch, g.groups, each, end - first, *rest))
            offset = tap * strides[2] + (first - start) * strides[4]
            parts.append((part, Strided(part.shape, (*strides[:2], *strides[3:]), offset)))
    is_filled = sum(part.shape[3] for part, _ in parts) == taps * depth
    stacked = b.empty(x.dtype, shape) if is_filled else b.full(0, x.dtype, shape)
    stacked = parts[0][0] if is_filled and taps == 1 else b.insert_slices(stacked, parts)
    split = b.reshape(weight, (g.groups, each, *weight.shape[1:])).permute((0, 3, 1, 2, 4, 5))
    return (
        b.reshape(stacked, (batch, taps * filters, depth, *rest)),
        b.reshape(split, (taps * filters, weight.shape[1], *weight.shape[3:])),
    )


def _expanded(
    b: LinalgBuilder, x: StridedValue, weight: StridedValue, g: _Geometry, size: Sequence[int]
) -> StridedValue:
    """Return a transposed convolution as convolutions."""
    ones = [1] * g.dims
    if all(n == 1 for n in weight.shape[2:]):
        return _interior_padded(
            b,
            correlate(b, x, _transposed_weight(b, weight, g.groups), ones, ones, g.groups),
            g,
            size,
        )
    if any(s != 1 for s in g.stride):
        return interleaved_phases(
            b,
            x,
            _transposed_weight(b, _tap_by_tap(b, weight), g.groups),
            g.stride,
            g.padding,
            g.dilation,
            size,
            lambda part, taps, spacing: correlate(b, part, taps, ones, spacing, g.groups),
        )
    low, high = [0, 0], [0, 0]
    for n, k, d, p, s in zip(
        x.shape[2:], weight.shape[2:], g.dilation, g.padding, size, strict=True
    ):
        low.append(d * (k - 1) - p)
        high.append(s + p - n)
    padded = b.pad(x, low, high, 0)
    flipped = _flip(b, _transposed_weight(b, weight, g.groups), g.dims)
    return correlate(b, padded, flipped, ones, g.dilation, g.groups)


def _forward(
    b: LinalgBuilder,
    x: StridedValue,
    weight: StridedValue,
    g: _Geometry,
    transposed: bool,
    size: Sequence[int],
) -> StridedValue:
    if transposed:
        return _scatter_windows(b, x, weight, g, size)
    # Pad exactly to the extent of the windows: the gradient of a transposed convolution may have
    # elements that no window contains.
    high = [
        (o - 1) * s + d * (k - 1) + 1 - n - p
        for o, s, d, k, n, p in zip(
            size, g.stride, g.dilation, weight.shape[2:], x.shape[2:], g.padding, strict=True
        )
    ]
    padded = b.pad(x, [0, 0, *g.padding], [0, 0, *high], 0)
    return correlate(b, padded, weight, g.stride, g.dilation, g.groups)


@lowering("aten::convolution", FLOATS + INTS, "convolution", _CONV)
def _convolution(
    b: LinalgBuilder,
    input: StridedValue,
    weight: StridedValue,
    bias: StridedValue | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> StridedValue:
    g = _Geometry(len(b.result.shape) - 2, stride, padding, dilation, groups)
    size = [1] * g.widened + list(b.result.shape[2:])
    result = b.reshape(
        _forward(b, g.lift(input), g.lift(weight), g, transposed, size), b.result.shape
    )
    if bias is None:
        return b.cast(result, b.result.dtype)
    channel = b.reshape(bias, (1, bias.type.numel, *[1] * (result.rank - 2)))
    return b.pointwise(lambda v, c: v + c.to(v.dtype), [result, channel], b.result)


@lowering("aten::convolution_backward", FLOATS, "convolution_backward", _CONV)
def _convolution_backward(
    b: LinalgBuilder,
    grad_output: StridedValue,
    input: StridedValue,
    weight: StridedValue,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> tuple[StridedValue | None, ...]:
    if not input.type.numel or not weight.type.numel or not grad_output.type.numel:
        return tuple(None if r is None else b.full(0, r.dtype, r.shape) for r in b.results)
    g = _Geometry(input.rank - 2, stride, padding, dilation, groups)
    grads: list[StridedValue | None] = [None, None, None]
    x, w, grad = g.lift(input), g.lift(weight), g.lift(grad_output)
    if b.results[0] is not None:
        if transposed:
            result = _forward(b, grad, w, g, False, x.shape[2:])
        else:
            result = _scatter_windows(b, grad, w, g, x.shape[2:])
        grads[0] = b.as_type(result, input.type)
    if b.results[1] is not None:
        # the weight gradient of a transposed convolution is that of the convolution with input and
        # gradient exchanged
        source, gradient = (grad, x) if transposed else (x, grad)
        grads[1] = b.as_type(_weight_gradient(b, source, gradient, w, g), weight.type)
    if b.results[2] is not None:
        dims = [k for k in range(grad_output.rank) if k != 1]
        total = reduce(b, "sum", [grad_output], dims, compute_dtype(grad_output.dtype))
        grads[2] = b.cast(b.reshape(total, (grad_output.shape[1],)), grad_output.dtype)
    return tuple(grads)


def _weight_gradient(
    b: LinalgBuilder, x: StridedValue, grad: StridedValue, weight: StridedValue, g: _Geometry
) -> StridedValue:
    """Return [F, C/g, kernel...]: grad times the window of x, summed over batch and positions."""
    dtype, dims, groups = compute_dtype(x.dtype), g.dims, g.groups
    border = [0, 0, *g.padding]
    padded = b.pad(x, border, border, 0)
    batch, channels, filters = x.shape[0], x.shape[1] // groups, weight.shape[0] // groups
    kernel, out = weight.shape[2:], grad.shape[2:]
    data = b.reshape(padded, (batch, groups, channels, *padded.shape[2:]))
    gradient = b.reshape(grad, (batch, groups, filters, *out))
    shape = (groups, filters, channels, *kernel)
    if dims == 2 and data.base.splat is None and gradient.base.splat is None:
        steps = {"strides": tuple(g.stride), "dilations": tuple(g.dilation)}
        return contraction(b, WEIGHT_GRADIENT, gradient, data, shape, dtype, steps)
    n = 3 + dims  # loops: g, f, c, kernel..., n, out...
    windows = [b.dim(n + 1 + k) * g.stride[k] + b.dim(3 + k) * g.dilation[k] for k in range(dims)]
    (result,) = b.generic(
        (*shape, batch, *out),
        [
            LoopInput(gradient, [n, 0, 1, *range(n + 1, n + 1 + dims)]),
            LoopInput(data, [n, 0, 2, *windows]),
        ],
        [LoopOutput(dtype, shape, range(3 + dims), 0)],
        lambda d, v, carried: carried + d.to(dtype) * v.to(dtype),
        reduced=range(n, n + 1 + dims),
    )
    return result
