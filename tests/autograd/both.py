"""Runs one function on the CPU and on ftm, and demands the same of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def on(device: str, tree: Any) -> Any:
    """The tree with its tensors moved, as leaves of their own that require gradients where they
    did."""

    def move(x: torch.Tensor) -> torch.Tensor:
        return x.detach().clone().to(device).requires_grad_(x.requires_grad)

    return tree_map_only(torch.Tensor, move, tree)


def same(f: Callable[..., Any], *inputs: Any, **tolerance: float) -> Any:
    """Asserts that f gives on ftm what it gives on the CPU, for inputs in any tree; returns the
    CPU's result."""
    expected = f(*on("cpu", inputs))
    actual = tree_map_only(torch.Tensor, _brought_back, f(*on("ftm", inputs)))
    torch.testing.assert_close(
        actual, detached(expected), equal_nan=True, **(TOLERANCE | tolerance)
    )
    return expected


def detached(tree: Any) -> Any:
    """The tree with its tensors without history."""
    return tree_map_only(torch.Tensor, lambda x: x.detach(), tree)


def _brought_back(x: torch.Tensor) -> torch.Tensor:
    assert x.device.type == "ftm", f"a result is on {x.device}"
    return x.detach().cpu()
