"""Calls to test what reads windows or neighbours: pooling, interpolation, borders, folds, sampling
at a grid."""

from __future__ import annotations

import math
from typing import Any

import torch

from ops.samples import Calls, Source, name_of, sampler

aten = torch.ops.aten


def dims_of(op: Any) -> int:
    """The number in ``max_pool3d_with_indices``."""
    return next(d for d in (1, 2, 3) if f"{d}d" in name_of(op))


# input, kernel, stride, padding, ceil; the first entries of kernel, stride and padding go in 2-D
POOLS = (
    ((2, 3, 4, 6, 6), [2, 2, 2], [2, 2, 2], [0, 0, 0], False),
    ((2, 2, 5, 7, 8), [3, 2, 3], [2, 1, 2], [1, 1, 0], False),
    ((1, 2, 4, 7, 7), [3, 3, 2], [2, 2, 2], [0, 1, 1], True),
    ((3, 4, 5, 5), [2, 2, 2], [], [0, 0, 0], False),
    ((1, 1, 5, 8, 8), [4, 4, 2], [1, 3, 1], [2, 2, 1], False),
    ((0, 2, 4, 6, 6), [2, 2, 2], [2, 2, 2], [0, 0, 0], False),
)
# windows larger than the input, which ceil_mode allows in 2-D
LARGER = ((2, 3, 2, 3), [40, 9], [40, 9], [0, 1], True)


def pools(dims: int) -> Any:
    for shape, *lists, ceil in POOLS:
        yield (
            (*shape[: len(shape) - 3], *shape[len(shape) - dims :]),
            *(v[:dims] for v in lists),
            ceil,
        )
    if dims == 2:
        yield LARGER


def nans(x: torch.Tensor) -> torch.Tensor:
    """Insert several adjacent NaN, and infinities, into x."""
    if x.dtype.is_floating_point and x.numel():
        flat = x.flatten()
        flat[1:4] = math.nan
        flat[7:20] = -math.inf
        flat[-3:] = math.inf
    return x


@sampler("max_pool", "max_pool_backward")
def max_pool(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    dims = dims_of(op)
    for shape, kernel, stride, padding, ceil in pools(dims):
        for dilation in ([1] * dims, [2] + [1] * (dims - 1)):
            if dilation[0] == 2 and kernel[0] in (2, 40):  # nothing is left of the input
                continue
            x = source.tensor(shape, dtype, -30, 30)
            args = (kernel, stride, padding, dilation, ceil)
            if "backward" in name_of(op):
                out, indices = getattr(aten, f"max_pool{dims}d_with_indices")(x, *args)
                yield (source.tensor(tuple(out.shape), dtype), x, *args, indices), {}
            else:
                yield (nans(x) if ceil or not stride else x, *args), {}


@sampler("avg_pool", "avg_pool_backward")
def avg_pool(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    dims = dims_of(op)
    for shape, kernel, stride, padding, ceil in pools(dims):
        for include, override in ((True, None), (False, None), (True, 3)):
            x = source.tensor(shape, dtype)
            args = (kernel, stride, padding, ceil, include, override)
            if "backward" in name_of(op):
                out = getattr(aten, f"avg_pool{dims}d")(x, *args)
                yield (source.tensor(tuple(out.shape), dtype), x, *args), {}
            else:
                yield (x, *args), {}


@sampler("adaptive_pool", "adaptive_pool_backward")
def adaptive(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    dims, name = dims_of(op), name_of(op)
    for shape, out in (
        ((2, 3, 4, 6, 8), [1, 1, 1]),
        ((2, 3, 4, 6, 8), [2, 3, 2]),
        ((1, 2, 5, 7, 5), [2, 3, 4]),
        ((3, 4, 5, 7), [3, 2, 9]),
        ((0, 2, 4, 4, 4), [2, 2, 2]),
    ):
        shape, out = (*shape[: len(shape) - 3], *shape[len(shape) - dims :]), out[3 - dims :]
        x = source.tensor(shape, dtype)
        if "backward" not in name:
            yield (nans(x) if "max" in name and out[-1] == 4 else x, out), {}
            continue
        grad = source.tensor((*shape[:-dims], *out), dtype)
        yield (
            (grad, x, getattr(aten, f"adaptive_max_pool{dims}d")(x, out)[1])
            if "max" in name
            else (grad, x),
            {},
        )


@sampler("fractional_pool", "fractional_pool_backward")
def fractional(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    dims = dims_of(op)
    for shape, kernel, out in (
        ((2, 3, 5, 7, 6), [2, 3, 2], [3, 3, 4]),
        ((1, 2, 4, 4, 5), [2, 2, 2], [2, 1, 3]),
        ((3, 4, 5, 6), [2, 2, 2], [2, 3, 3]),
    ):
        shape, kernel, out = (
            (*shape[: len(shape) - 3], *shape[len(shape) - dims :]),
            kernel[:dims],
            out[:dims],
        )
        x = source.tensor(shape, dtype)
        batch = shape[: len(shape) - dims] if len(shape) == dims + 2 else (1, *shape[:1])
        samples = source.tensor((*batch, dims), dtype, 0, 1)
        made, indices = getattr(aten, f"fractional_max_pool{dims}d")(x, kernel, out, samples)
        if "backward" in name_of(op):
            yield (source.tensor(tuple(made.shape), dtype), x, kernel, out, indices), {}
        else:
            yield (x, kernel, out, samples), {}


@sampler("max_unpool")
def max_unpool(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    dims = dims_of(op)
    extra = ([2] * 3, [0] * 3) if dims == 3 else ()
    for lead in ((2, 3), (2,), (0, 2)):
        x = source.tensor((*lead, *[2] * dims), dtype)
        places = torch.arange(2**dims) * 2 + source.indices((*lead, 2**dims), 2)
        yield (
            (
                x,
                places.reshape(x.shape),
                [4, *[2] * (dims - 1)] if dims == 2 else [4, 4, 4],
                *extra,
            ),
            {},
        )


INTERPOLATIONS = (  # input, output, scales
    ((2, 3, 3, 4, 5), (6, 8, 10), None),
    ((1, 2, 4, 5, 3), (6, 3, 4), None),
    ((2, 1, 3, 4, 6), (4, 6, 9), (1.4, 1.6, 1.5)),
    ((1, 2, 6, 5, 4), (2, 4, 1), (0.4, 0.8, 0.3)),
    ((2, 2, 1, 1, 3), (3, 1, 3), None),
)


@sampler("interpolate", "interpolate_backward")
def interpolate(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    dims, name = dims_of(op), name_of(op)
    for shape, out, scales in INTERPOLATIONS:
        for align in ([] if "nearest" in name else [False, True]) or [None]:
            size = (*shape[:2], *shape[-dims:])
            args = (
                *([] if align is None else [align]),
                *(scales[-dims:] if scales else [None] * dims),
            )
            target = list(out[-dims:])
            if name.endswith("_aa"):
                # the CPU goes wrong where the result is one place wide
                target[-1] = max(2, target[-1])
            if "backward" in name:
                yield (source.tensor((*size[:2], *target), dtype), target, list(size), *args), {}
            else:
                x = source.tensor(size, dtype)
                if size[-1] == 5 and dtype.is_floating_point:
                    x.flatten()[3] = math.inf
                yield (x, target, *args), {}


@sampler("border", "border_backward")
def border(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    dims = dims_of(op)
    for padding in ([1, 2, 0, 1, 2, 1], [2, -1, 1, 1, 0, 0], [0, 3, 2, 0, 1, -1]):
        for lead in ((2, 3), (2,)):
            x = source.tensor((*lead, 4, 5, 6)[: len(lead) + dims], dtype)
            args = (padding[: 2 * dims],)
            if "backward" in name_of(op):
                shape = getattr(aten, name_of(op).removesuffix("_backward"))(x, *args).shape
                yield (source.tensor(tuple(shape), dtype), x, *args), {}
            else:
                yield (x, *args), {}


FOLDS = (  # size, kernel, dilation, padding, stride
    ([5, 6], [2, 3], [1, 1], [0, 0], [1, 1]),
    ([6, 7], [2, 3], [2, 1], [1, 0], [1, 2]),
    ([4, 4], [2, 2], [1, 1], [0, 0], [2, 2]),
    ([7, 5], [3, 2], [1, 2], [2, 1], [3, 1]),
)


@sampler("fold")
def fold(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for size, *geometry in FOLDS:
        for lead in ((2, 3), (3,)):
            x = source.tensor((*lead, *size), dtype)
            if name_of(op) == "im2col":
                yield (x, *geometry), {}
            else:
                yield (
                    (source.tensor(tuple(aten.im2col(x, *geometry).shape), dtype), size, *geometry),
                    {},
                )


@sampler("grid_sampler", "grid_sampler_backward")
def grid_sampler(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    dims = dims_of(op)
    size, places = (3, 5, 4)[3 - dims :], (2, 3, 4)[3 - dims :]
    for mode in (0, 1, 2)[: 5 - dims]:
        for padding in (0, 1, 2):
            for align in (False, True):
                x = source.tensor((2, 3, *size), dtype)
                grid = source.tensor((2, *places, dims), dtype, -1.6, 1.6)
                # the CPU computes coordinates in the half types: take those that are exact there
                if dtype.itemsize == 2:
                    grid = (grid * 4).round() / 4
                if "backward" in name_of(op):
                    yield (
                        (
                            source.tensor((2, 3, *places), dtype),
                            x,
                            grid,
                            mode,
                            padding,
                            align,
                            [True, mode != 1],
                        ),
                        {},
                    )
                else:
                    yield (x, grid, mode, padding, align), {}
