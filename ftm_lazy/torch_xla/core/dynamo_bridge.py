"""torch_xla.core.dynamo_bridge: what PyTorch's own backend ``openxla`` calls with a graph, forward
or backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ftm_lazy.torch_xla import _refusals

__all__ = ["extract_compiled_graph"]

__getattr__ = _refusals.getter(__name__)


def extract_compiled_graph(
    xla_model: torch.fx.GraphModule, xla_args: Sequence[Any]
) -> Callable[..., Any]:
    """Return the graph, recorded when it is called and compiled as all else is.

    Args:
        xla_model: a graph of ATen operations, without mutations.
        xla_args: what it will be called with first.
    """
    return xla_model.forward
