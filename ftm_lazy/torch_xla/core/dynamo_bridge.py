"""torch_xla.core.dynamo_bridge: the entry point of PyTorch's backend ``openxla``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ftm_lazy.torch_xla import _refusals

__all__ = ["extract_compiled_graph"]

__getattr__ = _refusals.getter(__name__)


def extract_compiled_graph(
    xla_model: torch.fx.GraphModule, xla_args: Sequence[object]
) -> Callable[..., object]:
    """Return a callable of the graph, which is recorded and compiled when it is called.

    Args:
        xla_model: A forward or backward graph of ATen operations without mutations.
        xla_args: The arguments of the first call.
    """
    return xla_model.forward
