"""torch_xla._dynamo.dynamo_backend2: a backend function for `torch.compile`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

__all__ = ["dynamo_backend"]


def dynamo_backend(fx: torch.fx.GraphModule, args: Sequence[object]) -> Callable[..., object]:
    """Compile a graph with the backend ``ftm`` of `torch.compile`."""
    from ftm_lazy.frontends import dynamo

    return dynamo.backend(fx, args)
