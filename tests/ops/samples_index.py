"""Sample calls of indexing: writes and reductions at data-dependent indices."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples import Calls, Source, name_of, sampler

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@sampler("scatter_reduce")
def scatter_reduce(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    for shape, some, dim in (
        ((4, 5), (3, 5), 0),
        ((3, 1, 4), (3, 1, 6), -1),
        ((), (), 0),
        ((6,), (0,), 0),
    ):
        index = source.indices(some, shape[dim] if shape else 1)
        x, values = source.tensor(shape, dtype), source.tensor(some, dtype)
        if name == "scatter_reduce.two":
            for number, reduce in enumerate(REDUCTIONS):
                yield (
                    (x, dim, index, values, reduce),
                    {"include_self": bool(number % 2) != (len(shape) == 2)},
                )
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
                    yield (
                        (x, dim, index, source.tensor(tuple(some), dtype), reduce),
                        {"include_self": include},
                    )


@sampler("unfold_backward")
def unfold_backward(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for sizes, dim, size, step in (
        ((7,), 0, 3, 1),
        ((2, 7, 3), 1, 3, 2),
        ((3, 8), -1, 2, 3),
        ((), 0, 1, 1),
    ):
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
    for shape, mask in (
        ((3, 4), (3, 4)),
        ((3, 4), (4,)),
        ((5,), ()),
        ((3, 1), (1, 6)),
        ((0, 3), (3,)),
    ):
        yield (
            (
                source.tensor(shape, dtype),
                source.tensor(mask, torch.bool),
                source.tensor((20,), dtype),
            ),
            {},
        )
    yield (
        (source.tensor((3,), dtype), torch.zeros(3, dtype=torch.bool), source.tensor((0,), dtype)),
        {},
    )


@sampler("embedding_renorm")
def embedding_renorm(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for norm in (2.0, 1.0, 3.0):
        yield (source.tensor((5, 4), dtype), source.indices((2, 3), 5), 2.0, norm), {}


@sampler("nonzero_static")
def nonzero_static(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape, size, fill in (
        ((3, 5), 4, -1),
        ((3, 5), 30, 7),
        ((6,), 0, -1),
        ((0, 2), 3, -1),
        ((2, 1, 4), 6, -1),
    ):
        yield (source.tensor(shape, dtype, -1, 1),), {"size": size, "fill_value": fill}


@sampler("search")
def search(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    for rows, shape in (
        ((9,), (2, 5)),
        ((2, 6), (2, 3)),
        ((1,), (4,)),
        ((5,), ()),
        ((0,), (3,)),
        ((8,), (0,)),
    ):
        table = source.tensor(rows, dtype).sort(-1).values
        values = source.tensor(shape, dtype)
        if dtype.is_floating_point and shape == (2, 5):
            values[0, 0], values[1, 1] = float("nan"), float("inf")
        for extra in ({}, {"right": True}, {"out_int32": True}):
            if name.startswith("bucketize"):
                if len(rows) == 1:
                    yield ((values, table) if name.endswith("Tensor") else (1, table)), extra
            elif name == "searchsorted.Scalar":
                if len(rows) == 1:
                    yield (table, 1), extra
            else:
                yield (table, values), extra
    if name == "searchsorted.Tensor":
        table = source.tensor((2, 6), dtype)
        yield (table, source.tensor((2, 3), dtype)), {"sorter": table.argsort(-1), "side": "right"}


BAGS = (([1, 2, 2, 5, 0], [0, 2, 2], -1), ([1, 2, 2, 5, 0], [0, 2, 4], 2), ([3], [0, 1], 1))


@sampler("embedding_bag", "embedding_bag_backward", "embedding_bag_weights")
def embedding_bag(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    aten = torch.ops.aten
    floats = dtype if dtype.is_floating_point else torch.float32
    for numbers, begins, padding in BAGS:
        for mode in (1, 2, 0):
            kind = dtype if not dtype.is_floating_point else torch.int64
            indices, offsets, weight = (
                torch.tensor(numbers, dtype=kind),
                torch.tensor(begins, dtype=kind),
                source.tensor((6, 3), floats),
            )
            forward = aten._embedding_bag(weight, indices, offsets, mode=mode, padding_idx=padding)
            grad = source.tensor(tuple(forward[0].shape), floats)
            if name_of(op) in ("_embedding_bag", "_embedding_bag_forward_only"):
                if mode:  # a sum leaves the other results as they are
                    yield (weight, indices, offsets, False, mode, False, None, False, padding), {}
            elif forward[1].numel() == 0:
                continue
            elif name_of(op) == "_embedding_bag_dense_backward":
                scaled = source.tensor(tuple(indices.shape), floats) if mode == 0 else None
                yield (grad, indices, *forward[1:], 6, False, mode, scaled, padding), {}
            elif mode == 0:
                yield (grad, weight, indices, offsets, forward[1], mode, padding), {}


@sampler("segment_reduce", "segment_reduce_backward")
def segment_reduce(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    floats = dtype if dtype.is_floating_point else torch.float32
    kind = torch.int64 if dtype.is_floating_point else dtype
    for shape, runs in (((6, 2), [2, 0, 3, 1]), ((5,), [5]), ((2, 4, 1), [[1, 3], [0, 4]])):
        lengths = torch.tensor(runs, dtype=kind)
        axis = lengths.dim() - 1
        offsets = torch.nn.functional.pad(lengths.cumsum(-1, dtype=kind), (1, 0))
        for reduce in ("sum", "mean", "max", "min", "prod"):
            for initial in (None, 1):
                x = source.tensor(shape, floats)
                if reduce == "prod":
                    x.view(-1)[3:4] = 0
                for given in ({"lengths": lengths}, {"offsets": offsets}):
                    extra = {**given, "axis": axis, "initial": initial}
                    if name_of(op) == "segment_reduce":
                        yield (x, reduce), extra
                        continue
                    out = torch.ops.aten.segment_reduce(x, reduce, **extra)
                    yield (source.tensor(tuple(out.shape), floats), out, x, reduce), extra


@sampler("histc")
def histc(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape, bins, low, high in (
        ((40,), 7, -2, 2),
        ((5, 6), 10, 0, 0),
        ((1,), 3, 0, 0),
        ((0,), 4, 0, 0),
        ((9,), 1, 1, 5),
    ):
        yield (source.tensor(shape, dtype), bins, low, high), {}
    if dtype.is_floating_point:
        yield (torch.tensor([float("nan"), 1.0, -1.0, float("inf")], dtype=dtype), 4, -1, 1), {}


@sampler("triangle_indices")
def triangle_indices(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for rows, columns in ((3, 4), (5, 2), (1, 1), (0, 3), (4, 4), (6, 3)):
        for offset in (0, 1, -2, 5, -6):
            yield (rows, columns, offset), {"dtype": dtype}


@sampler("histogram", "histogramdd")
def histogram(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    for density in (False, True):
        for weighted in (False, True):
            if name.startswith("histogram."):
                x = source.tensor((4, 6), dtype)
                extra = {
                    "weight": source.tensor((4, 6), dtype, 0, 2) if weighted else None,
                    "density": density,
                }
                if name == "histogram.bins_tensor":
                    yield (x, source.tensor((6,), dtype).sort().values), extra
                else:
                    yield (x, 5), extra
                    yield (x, 7), {"range": [-1.0, 2.0], **extra}
                    if not weighted:
                        yield (source.tensor((1,), dtype), 3), extra
                continue
            x = source.tensor((20, 2), dtype)
            extra = {
                "weight": source.tensor((20,), dtype, 0, 2) if weighted else None,
                "density": density,
            }
            if name == "_histogramdd_from_bin_tensors":
                yield (x, [source.tensor((n,), dtype).sort().values for n in (4, 6)]), extra
            else:
                yield (x, [3, 4]), extra
                yield (x, [2, 3]), {"range": [-1.0, 2.0, 0.0, 3.0], **extra}


@sampler("masked_scatter_backward")
def masked_scatter_backward(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape, mask, sizes in (
        ((3, 4), (3, 4), [2, 7]),
        ((3, 4), (4,), [12]),
        ((5,), (5,), [5]),
        ((0, 3), (3,), [2]),
    ):
        yield (source.tensor(shape, dtype), source.tensor(mask, torch.bool), sizes), {}
