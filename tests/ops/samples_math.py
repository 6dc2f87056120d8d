"""Calls to test special functions, digits and statistics with; see samples.py."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples import SHAPES, Calls, Source, sampler, special


@sampler("polygamma")
def polygamma(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for n in (0, 1, 2, 3, 5):
        yield (n, source.tensor((3, 7), dtype, 0.3, 30)), {}
        if dtype.is_floating_point:
            yield (n, torch.tensor([0.25, 1.0, 100.0, float("nan")], dtype=dtype)), {}
    if dtype in (torch.float32, torch.float64):  # PyTorch's own loses its digits close to the poles
        yield (0, torch.tensor([-0.5, -2.3, -7.75, 0.0, -0.0, -3.0], dtype=dtype)), {}
        yield (1, torch.tensor([-0.5, -2.25, -7.75], dtype=dtype)), {}
        yield (2, torch.tensor([-0.5, -2.25, -4.75], dtype=dtype)), {}


@sampler("zeta")
def zeta(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in SHAPES:
        yield (source.tensor(shape, dtype, 1.2, 9), source.tensor(shape, dtype, 0.3, 40)), {}
    if dtype.is_floating_point:
        yield (
            (
                torch.tensor([2.0, 3.0, 2.5, 1.0, 0.5, 4.0, 2.0], dtype=dtype),
                torch.tensor([-1.25, -3.5, -1.25, 2.0, 2.0, -2.0, -0.75], dtype=dtype),
            ),
            {},
        )


@sampler("round_decimals")
def round_decimals(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for decimals in (0, 1, 3, -1):
        for shape in SHAPES:
            yield (source.tensor(shape, dtype, -40, 40),), {"decimals": decimals}
    yield (special(dtype),), {"decimals": 1}


@sampler("lcm")
def lcm(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in SHAPES:  # the extremes of i32 and i64 kill the process on the CPU
        yield (source.tensor(shape, dtype, -60, 60), source.tensor(shape, dtype, -60, 60)), {}
    if torch.iinfo(dtype).bits < 32:
        yield (special(dtype).unsqueeze(1), special(dtype)), {}


@sampler("aminmax")
def aminmax(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in ((3, 5), (2, 1, 4), ()):
        yield (source.tensor(shape, dtype),), {}
        for dim in (0, -1):
            yield (source.tensor(shape, dtype),), {"dim": dim, "keepdim": dim == 0}
    yield (special(dtype),), {}


@sampler("chebyshev")
def chebyshev(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in SHAPES:
        order = source.indices(shape, 9)
        yield (
            (
                source.tensor(shape, dtype, -1.5, 1.5),
                order.to(dtype) if dtype != torch.bool else order > 4,
            ),
            {},
        )
    if dtype.is_floating_point:
        x = torch.tensor([1.0, -1.0, 0.0, 0.5, -0.3, 4.0, -2.5, float("nan")], dtype=dtype)
        yield (x.unsqueeze(1), torch.arange(-1, 9).to(dtype)), {}
        no_orders = torch.tensor([float("nan"), float("inf"), float("-inf")], dtype=dtype)
        yield (x[:-1].unsqueeze(1), no_orders), {}


@sampler("renorm")
def renorm(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for p in (2, 1, 3, float("inf"), 0.5):
        for dim in (0, -1, 1):
            yield (source.tensor((4, 3, 5), dtype), p, dim, 2.5), {}


@sampler("cross")
def cross(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape, other, dim in (((4, 3), (4, 3), -1), ((3, 5), (3, 1), 0), ((2, 3, 2), (2, 3, 2), 1)):
        yield (source.tensor(shape, dtype), source.tensor(other, dtype)), {"dim": dim}


@sampler("trace")
def trace(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in ((3, 3), (2, 5), (5, 2), (0, 3)):
        yield (source.tensor(shape, dtype),), {}
    yield (source.tensor((4, 3), dtype).t(),), {}
