"""torch_xla.experimental.scan_layers: layers of one structure, one after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from functorch.compile import default_partition

from ftm_lazy.torch_xla.experimental import _loops

__all__ = ["scan_layers"]


def scan_layers(
    layers: Iterable[torch.nn.Module], input_data: object, partition_fn: object = default_partition, is_layer_pure: bool = False
) -> Any:
    """``layers[-1](... layers[0](input_data))``, in pieces that are one program; see `scan`.

    Args:
        layers: of the same parameters' shapes.
        input_data: for the first of them.
        partition_fn: accepted; `torch.utils.checkpoint` saves memory.
        is_layer_pure: accepted; recording a layer is cheap.

    Raises ValueError if the layers' parameters differ in names or shapes.
    """
    data, first = input_data, None
    pieces = _loops.Pieces()
    for index, layer in enumerate(layers):
        shapes = {name: tensor.shape for name, tensor in (*layer.named_parameters(), *layer.named_buffers())}
        first = shapes if first is None else first
        _check(index, first, shapes)
        data = layer(data)
        pieces.end_of_step([data] if isinstance(data, torch.Tensor) else [])
    return data


def _check(index: int, first: dict[str, torch.Size], shapes: dict[str, torch.Size]) -> None:
    if first.keys() != shapes.keys():
        missing, extra = first.keys() - shapes.keys(), shapes.keys() - first.keys()
        raise ValueError(f"Layer {index} has mismatched keys. Missing keys: {sorted(missing)}. Extra keys: {sorted(extra)}.")
    for name, shape in shapes.items():
        if shape != first[name]:
            raise ValueError(f"Shape mismatch for '{name}' in layer {index}: expected {tuple(first[name])}, got {tuple(shape)}.")
