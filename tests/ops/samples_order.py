"""Calls to test scans, sorts and order statistics with: ties, NaN, zeros of both signs, every
dimension."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples import Calls, Source, name_of, sampler, special

SHAPES = ((7,), (3, 5), (2, 9, 1), (2, 3, 4), (1, 6))


def rows(dtype: torch.dtype, source: Source) -> list[torch.Tensor]:
    """Tensors with and without ties, with special values, not contiguous."""
    made = [source.tensor(shape, dtype) for shape in SHAPES]
    return [
        *made,
        special(dtype),
        source.tensor((5, 4), dtype, -100, 100).t(),
        special(dtype)[::2].expand(3, -1),
    ]


@sampler("scan_extreme")
def scan_extreme(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for x in rows(dtype, source):
        for dim in (0, -1):
            yield (x, dim), {}
    yield (source.tensor((), dtype), 0), {}
    yield (source.tensor((0, 3), dtype), 1), {}


@sampler("sort")
def sort(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for x in rows(dtype, source):
        for dim in range(x.dim()):
            for descending in (False, True):
                if name_of(op) == "sort.stable":
                    yield (x,), {"stable": True, "dim": dim, "descending": descending}
                elif x.shape[dim] <= 16:  # up to here PyTorch's other sort is stable as well
                    yield (x, dim, descending), {}
    for shape in ((), (0,), (3, 0), (0, 3)):
        x = source.tensor(shape, dtype)
        yield ((x,), {"stable": True}) if name_of(op) == "sort.stable" else ((x,), {})


def distinct(shape: tuple[int, ...], dtype: torch.dtype, source: Source) -> torch.Tensor:
    """Different values along every dimension, so that the indices are known (bools: one row of
    two)."""
    if dtype == torch.bool:
        return torch.tensor([True, False])
    count = 1
    for extent in shape:
        count *= extent
    return (torch.randperm(count, generator=source.generator) % 120).reshape(shape).to(dtype)


@sampler("topk")
def topk(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in ((7,), (3, 5), (2, 3, 4)):
        x = distinct(shape, dtype, source)
        for dim in range(x.dim()):
            for largest in (True, False):
                yield (x, min(2, x.shape[dim]), dim, largest, True), {}
    yield (distinct((4, 5), dtype, source), 0), {}
    yield (distinct((9,), dtype, source), 1), {}


@sampler("kthvalue")
def kthvalue(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in ((7,), (3, 5), (2, 3, 4)):
        x = distinct(shape, dtype, source)
        for dim in range(x.dim()):
            for keepdim in (True, False):
                yield (x, min(2, x.shape[dim]), dim, keepdim), {}
    yield (distinct((), torch.float32, source).to(dtype), 1), {}


@sampler("median")
def median(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for x in rows(dtype, source):
        yield (x,), {}
    yield (source.tensor((), dtype),), {}
    if dtype.is_floating_point:
        yield (source.tensor((0,), dtype),), {}
        yield (torch.full((3,), float("nan"), dtype=dtype),), {}


@sampler("median_dim")
def median_dim(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in ((7,), (3, 5), (2, 3, 4)):
        x = distinct(shape, dtype, source)
        # two of a kind, whose places PyTorch leaves open, but for the values
        if name_of(op) == "mode":
            x = x if x.dim() == 1 else torch.cat([x, x[..., :1]], -1)
        for dim in range(x.dim()):
            for keepdim in (True, False):
                yield (x, dim, keepdim), {}
    yield (source.tensor((), dtype), 0), {}
    yield (source.tensor((0, 3), dtype), 1), {}
    if dtype.is_floating_point and name_of(op) != "mode":
        x = distinct((4, 6), dtype, source)
        x[1, 2] = x[1, 4] = x[3, 0] = float("nan")
        yield (x, 1), {}


@sampler("isin")
def isin(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape, count in (
        ((7,), 3),
        ((3, 5), 40),
        ((), 1),
        ((4,), 0),
        ((0, 3), 2),
        ((2, 3, 4), 200),
    ):
        elements, tests = source.tensor(shape, dtype, -9, 9), source.tensor((count,), dtype, -9, 9)
        for invert in (False, True):
            if name_of(op) == "isin.Tensor_Tensor":
                yield (elements, tests.reshape(-1, 1)), {"invert": invert}
                yield (
                    (elements, source.tensor((count,), torch.float32, -9, 9).round()),
                    {"invert": invert},
                )
            elif name_of(op) == "isin.Tensor_Scalar":
                yield (elements, 2), {"invert": invert}
            else:
                yield (2, tests), {"invert": invert}
    if dtype.is_floating_point and name_of(op) == "isin.Tensor_Tensor":
        yield (special(dtype), special(dtype)), {}
        yield (special(dtype), special(dtype).repeat(4)), {}
