"""Random calls, run on the CPU and on ftm and compared: what the property tests are made of.

A batch of calls is recorded, then read, so that one program serves for all of them; a failure names
the one call, so nothing has to be shrunk. ``PROPERTY_EXAMPLES=200 pytest tests/properties`` looks
further than the few batches that run by default.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._pytree import tree_leaves

EXAMPLES = int(os.environ.get("PROPERTY_EXAMPLES", "3"))
BATCH = 12
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
ALL = [*FLOATS, *INTS, torch.bool]
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 4e-2}


@dataclass(frozen=True)
class Operand:
    """A tensor by what makes it, so that a failing example can be read and run again."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    layout: str = "dense"
    seed: int = 0
    special: bool = False

    def make(self, device: str) -> Tensor:
        """The tensor; its layout is made on the device, by views."""
        return LAYOUTS[self.layout](self.shape, lambda shape: self._dense(shape).to(device))

    def _dense(self, shape: Sequence[int]) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        if self.dtype == torch.bool:
            return torch.randint(0, 2, shape, generator=generator).bool()
        if not self.dtype.is_floating_point:
            return torch.randint(
                0 if self.dtype == torch.uint8 else -5, 6, shape, generator=generator
            ).to(self.dtype)
        x = torch.randn(shape, generator=generator) * 3
        if self.special and x.numel():
            places = torch.randint(0, x.numel(), (5,), generator=generator)
            x.view(-1)[places] = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0])
        return x.to(self.dtype)


Dense = Callable[[Sequence[int]], Tensor]


def _transposed(shape: Sequence[int], dense: Dense) -> Tensor:
    return dense(tuple(reversed(shape))).permute(*reversed(range(len(shape))))


def _sliced(shape: Sequence[int], dense: Dense) -> Tensor:
    return dense([2 * n + 1 for n in shape])[tuple(slice(1, 2 * n + 1, 2) for n in shape)]


def _expanded(shape: Sequence[int], dense: Dense) -> Tensor:
    return dense([1, *shape[1:]]).expand(tuple(shape)) if shape else dense(shape)


def _offset(shape: Sequence[int], dense: Dense) -> Tensor:
    return dense([3, *shape])[1]


LAYOUTS: dict[str, Callable[[Sequence[int], Dense], Tensor]] = {
    "dense": lambda shape, dense: dense(shape),
    "transposed": _transposed,
    "sliced": _sliced,
    "expanded": _expanded,
    "offset": _offset,
}
WRITABLE = ["dense", "transposed", "sliced", "offset"]


@dataclass(frozen=True)
class Call:
    """A function of tensors, and its name."""

    name: str
    function: Callable[..., Any] = field(repr=False)
    operands: tuple[Operand, ...]
    scale: float = 1.0  # of the tolerance


def extents(low: int = 0, high: int = 6) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(low, high), st.sampled_from([1, 2, 3, 17, 33]))


def shapes(least: int = 0, most: int = 4, low: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    def few(shape: list[int]) -> bool:
        return torch.Size(shape).numel() <= 3000

    return st.lists(extents(low), min_size=least, max_size=most).filter(few).map(tuple)


def operands(
    shape: tuple[int, ...], dtypes: Sequence[torch.dtype], layouts: Sequence[str] = tuple(LAYOUTS)
) -> st.SearchStrategy[Operand]:
    return st.builds(
        Operand,
        st.just(shape),
        st.sampled_from(dtypes),
        st.sampled_from(layouts),
        st.integers(0, 99),
        st.booleans(),
    )


@st.composite
def broadcast(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts with `shape`."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(1 if draw(st.booleans()) else n for n in kept)


def holds(calls: st.SearchStrategy[Call]) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Makes a test of a named property: every call gives the same on both devices, in batches."""

    def decorate(test: Callable[[], None]) -> Callable[[], None]:
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(st.lists(calls, min_size=BATCH, max_size=BATCH))
        def run(batch: list[Call]) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                agree(batch)

        run.__name__ = run.__qualname__ = test.__name__
        run.__doc__ = test.__doc__
        return run

    return decorate


def agree(batch: Sequence[Call]) -> None:
    """Asserts that ftm does what the CPU does for each call: result, dtype, shape; or that both
    refuse."""
    actual = [outcome(call, "ftm") for call in batch]
    for call, mine in zip(batch, actual, strict=True):
        theirs = outcome(call, "cpu")
        if isinstance(theirs, Exception) or isinstance(mine, Exception):
            assert isinstance(mine, Exception), f"{call}: eager refuses: {theirs}"
            assert isinstance(theirs, Exception), f"{call}: eager takes it, but ftm: {mine}"
            continue
        for ours, want in zip(tree_leaves(mine), tree_leaves(theirs), strict=True):
            if not isinstance(want, Tensor):
                assert ours == want, f"{call}"
                continue
            assert (ours.dtype, ours.shape) == (want.dtype, want.shape), (
                f"{call}: {ours.dtype} {tuple(ours.shape)}"
            )
            tolerance = call.scale * TOLERANCE.get(want.dtype, 0)
            torch.testing.assert_close(
                ours.cpu(),
                want,
                rtol=tolerance,
                atol=tolerance,
                equal_nan=True,
                msg=lambda text, c=call: f"{c}: {text}",
            )


def outcome(call: Call, device: str) -> Any:
    try:
        return call.function(*(operand.make(device) for operand in call.operands))
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
        return error
