"""``torch.compile(backend="openxla")``; an entry point of the package torch_xla, so it is there where that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["openxla"]


def openxla(graph: torch.fx.GraphModule, inputs: list[torch.Tensor], **options: Any) -> Callable[..., Any]:
    """The backend ``ftm`` where it is registered; else the graph, recorded when it is called and compiled as all else is."""
    from torch._dynamo import list_backends, lookup_backend

    if "ftm" in list_backends(exclude_tags=()):
        return lookup_backend("ftm")(graph, inputs, **options)
    return graph.forward
