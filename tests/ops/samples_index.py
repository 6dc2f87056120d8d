"""Calls to test indexing with: writes and combinations at places that data says."""

from __future__ import annotations

from typing import Any

import torch
from samples import Calls, Source, name_of, sampler

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@sampler("scatter_reduce")
def scatter_reduce(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    for shape, some, dim in (((4, 5), (3, 5), 0), ((3, 1, 4), (3, 1, 6), -1), ((), (), 0), ((6,), (0,), 0)):
        index = source.indices(some, shape[dim] if shape else 1)
        x, values = source.tensor(shape, dtype), source.tensor(some, dtype)
        if name == "scatter_reduce.two":
            for number, reduce in enumerate(REDUCTIONS):
                yield (x, dim, index, values, reduce), {"include_self": bool(number % 2) != (len(shape) == 2)}
                if shape == (4, 5):
                    yield (x, dim, index, values, reduce), {"include_self": False}
        else:
            value = values if name == "scatter.reduce" else 2
            for reduce in ("add", "multiply"):
                yield (x, dim, index, value), {"reduce": reduce}


@sampler("index_copy", "index_fill", "index_reduce")
def along_slices(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    for shape, dim in (((4, 5), 0), ((3, 1, 4), -1), ((6,), 0), ((), 0)):
        x, count = source.tensor(shape, dtype), shape[dim] if shape else 1
        some = list(shape)
        if shape:
            some[dim] = 3
        index = torch.randperm(count, generator=source.generator)[:3]
        if name == "index_copy":
            yield (x, dim, index, source.tensor(tuple(some), dtype)), {}
        elif name == "index_fill.int_Scalar":
            yield (x, dim, index - count, True if dtype == torch.bool else 2), {}
        elif name == "index_fill.int_Tensor":
            yield (x, dim, index, source.tensor((), dtype)), {}
        else:
            for reduce in REDUCTIONS[1:]:
                for include in (True, False):
                    index = source.indices((3,) if shape else (1,), count)
                    yield (x, dim, index, source.tensor(tuple(some), dtype), reduce), {"include_self": include}


@sampler("unfold_backward")
def unfold_backward(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for sizes, dim, size, step in (((7,), 0, 3, 1), ((2, 7, 3), 1, 3, 2), ((3, 8), -1, 2, 3), ((), 0, 1, 1)):
        windows = torch.zeros(sizes).unfold(dim, size, step)
        yield (source.tensor(tuple(windows.shape), dtype), list(sizes), dim, size, step), {}


@sampler("put")
def put(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    x = source.tensor((3, 4), dtype)
    places = torch.randperm(12, generator=source.generator)[:6].reshape(2, 3) - 6
    yield (x, places, source.tensor((2, 3), dtype), False), {}
    yield (x, source.indices((7,), 12) - 6, source.tensor((7,), dtype), True), {}
    yield (x, source.indices((0,), 12), source.tensor((0,), dtype), False), {}


@sampler("masked_scatter")
def masked_scatter(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape, mask in (((3, 4), (3, 4)), ((3, 4), (4,)), ((5,), ()), ((3, 1), (1, 6)), ((0, 3), (3,))):
        yield (source.tensor(shape, dtype), source.tensor(mask, torch.bool), source.tensor((20,), dtype)), {}
    yield (source.tensor((3,), dtype), torch.zeros(3, dtype=torch.bool), source.tensor((0,), dtype)), {}


@sampler("embedding_renorm")
def embedding_renorm(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for norm in (2.0, 1.0, 3.0):
        yield (source.tensor((5, 4), dtype), source.indices((2, 3), 5), 2.0, norm), {}
