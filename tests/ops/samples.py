"""Sample calls for each family of op records: odd shapes, empty, 0-d, NaN, infinities, extremes.

A sampler takes an OpOverload, a dtype and a source of random tensors, and yields (args, kwargs).
The record's ``family`` selects the sampler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

import ftm_lazy  # noqa: F401  (defines the ops that are the device's own)

Calls = Iterator[tuple[tuple[Any, ...], dict[str, Any]]]
SAMPLERS: dict[str, Callable[[Any, torch.dtype, Source], Calls]] = {}
SHAPES = ((), (0, 3), (7,), (3, 5), (2, 1, 4))
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
PAIRS = (((3, 4), (4,)), ((2, 1, 3), (4, 1)), ((), ()), ((0, 2), (2,)), ((5,), ()))


class Source:
    """Random tensors, the same for the same op and dtype."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def tensor(
        self, shape: tuple[int, ...], dtype: torch.dtype, low: float = -3, high: float = 3
    ) -> torch.Tensor:
        """Uniform in [low, high), for integers within the bounds of the dtype, for bools either."""
        if dtype == torch.bool:
            return torch.rand(shape, generator=self.generator) < 0.5
        x = torch.rand(shape, generator=self.generator, dtype=torch.float64) * (high - low) + low
        if dtype in UNSIGNED:
            x = x.abs()
        return x.round().to(dtype) if not dtype.is_floating_point else x.to(dtype)

    def indices(
        self, shape: tuple[int, ...], bound: int, dtype: torch.dtype = torch.int64
    ) -> torch.Tensor:
        """Integers in [0, bound)."""
        return torch.randint(bound, shape, generator=self.generator).to(dtype)


def special(dtype: torch.dtype) -> torch.Tensor:
    """The values at which implementations differ."""
    if dtype == torch.bool:
        return torch.tensor([True, False])
    if dtype.is_floating_point:
        inf, nan = float("inf"), float("nan")
        return torch.tensor([nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 100.0, 1e-4]).to(
            dtype
        )
    bounds = torch.iinfo(dtype)
    return torch.tensor([0, 1, 2, bounds.max, bounds.min, bounds.max - 1], dtype=dtype)


def sampler(*families: str) -> Callable[[Any], Any]:
    """Decorator: the function samples ``families``."""

    def register(function: Any) -> Any:
        for family in families:
            SAMPLERS[family] = function
        return function

    return register


def name_of(op: Any) -> str:
    """``add.Tensor``."""
    schema = op._schema
    return schema.name.partition("::")[2] + (
        "." + schema.overload_name if schema.overload_name else ""
    )


def second_kind(op: Any, position: int = 1) -> str:
    """Type of the argument at ``position``: Tensor or number."""
    return str(op._schema.arguments[position].type)


def for_op(name: str) -> Any:
    """The OpOverload that a trace's name means."""
    library, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, library), base), overload or "default")
