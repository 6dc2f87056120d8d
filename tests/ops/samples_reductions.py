"""Calls to test reductions and scans with; see samples.py."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples import Calls, Source, name_of, sampler, special


@sampler("reduction")
def reduction(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    names = [a.name for a in op._schema.arguments]
    single = "dim" in names and str(op._schema.arguments[names.index("dim")].type) == "int"
    dims: list[Any] = [None]
    if "dim" in names:
        dims = [0, -1] if single else [[0], [-1, 0], [1]]
    for shape in ((3, 5), (2, 1, 4), (0, 3), (3, 0)):
        for dim in dims:
            for keep in (False, True) if "keepdim" in names else (False,):
                args = (source.tensor(shape, dtype, -1.5, 1.5), *([dim] if "dim" in names else []))
                yield args, {"keepdim": True} if keep else {}
    yield (source.tensor((), dtype), *([dims[0]] if "dim" in names else [])), {}
    if dtype.is_floating_point:
        yield (special(dtype).reshape(3, 4), *([dims[0]] if "dim" in names else [])), {}
    if "dtype" in names and dtype == torch.float32:
        yield (
            (source.tensor((4, 3), dtype), *([dims[0]] if "dim" in names else [])),
            {"dtype": torch.float64},
        )


@sampler("extreme")
def extreme(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    dims = [[]] if len(op._schema.arguments) > 1 else []
    for shape in ((3, 5), (2, 1, 4), ()):
        yield (source.tensor(shape, dtype), *dims), {}
        if dims and shape:
            yield (source.tensor(shape, dtype), [0]), {"keepdim": True}
            yield (source.tensor(shape, dtype), [0, -1]), {}
    yield (special(dtype), *dims), {}


@sampler("extreme_dim", "extreme_place")
def extreme_dim(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in ((3, 5), (2, 1, 4), (4, 0, 0)[:1], ()):
        for dim in (0, -1):
            yield (source.tensor(shape, dtype), dim), {}
            yield (source.tensor(shape, dtype), dim, True), {}
    if name_of(op).startswith("arg"):
        yield (source.tensor((3, 5), dtype),), {}
    if dtype.is_floating_point:
        x = source.tensor((4, 6), dtype)
        x[0, 3] = x[0, 5] = float("nan")
        x[1, :] = float("-inf")
        yield (x, 1), {}


@sampler("variance")
def variance(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for dim in (None, [0], [0, 2], [-1]):
        for correction in (1, 0, 2.5):
            yield (source.tensor((3, 4, 5), dtype), dim), {"correction": correction}
    yield (source.tensor((3, 1), dtype), [1]), {"correction": 0, "keepdim": True}


@sampler("norm")
def norm(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    for p in (2, 1, 0, 3.5, float("inf"), float("-inf")):
        for dim in ([0], [1, 0]):
            x = source.tensor((3, 5), dtype)
            if name == "linalg_vector_norm":
                yield (x, p, dim, True), {}
                yield (x, p), {}
            elif name == "norm.Scalar":
                yield (x, p), {}
            elif name == "norm.ScalarOpt_dim":
                yield (x, p, dim), {}
            elif name == "norm.ScalarOpt_dtype":
                yield (x, p), {"dtype": dtype}
            else:
                yield (x, p, dim, False), {"dtype": dtype}


@sampler("scan")
def scan(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in ((7,), (3, 5), (2, 9, 1), (0, 3)):
        for dim in (0, -1):
            yield (source.tensor(shape, dtype, -1.5, 1.5), dim), {}
    yield (source.tensor((), dtype), 0), {}
