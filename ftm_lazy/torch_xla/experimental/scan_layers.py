"""torch_xla.experimental.scan_layers: a sequence of layers of the same structure."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from functorch.compile import default_partition
from torch.utils._pytree import tree_leaves

from ftm_lazy.torch_xla.experimental import _loops
from ftm_lazy.torch_xla.experimental.scan import _traced

__all__ = ["scan_layers"]

_ONE_LAYER_CACHE: WeakKeyDictionary[torch.nn.Module, Callable[..., Any]] = WeakKeyDictionary()
"""First layer of a sequence of pure layers to the function that runs all of them."""


def scan_layers(
    layers: Iterable[torch.nn.Module],
    input_data: object,
    partition_fn: object = default_partition,
    is_layer_pure: bool = False,
) -> object:
    """Apply layers in sequence, in chunks that run one program; see `scan`.

    Args:
        layers: Layers with the same names and shapes of parameters.
        input_data: Input of the first layer. The elements of a tuple are passed as arguments.
        partition_fn: AOTAutograd's partition function, for pure layers.
        is_layer_pure: The layers have no side effects, and use no tensors other than their input,
            parameters and buffers. Then the first layer is traced once and runs with the
            parameters of each; otherwise each layer is called.

    Returns:
        The output of the last layer.

    Raises:
        ValueError: The layers' parameters differ in names or shapes.
    """
    data = input_data
    first: dict[str, torch.Size] | None = None
    first_layer: torch.nn.Module | None = None
    pieces = _loops.Pieces()
    for index, layer in enumerate(layers):
        shapes = {
            name: tensor.shape
            for name, tensor in (*layer.named_parameters(), *layer.named_buffers())
        }
        if first is None or first_layer is None:
            first, first_layer = shapes, layer
        _check(index, first, shapes)
        if is_layer_pure:
            data = _call_pure(first_layer, layer, data, partition_fn)
        else:
            data = layer(*data) if isinstance(data, tuple) else layer(data)
        pieces.end_of_step([leaf for leaf in tree_leaves(data) if isinstance(leaf, torch.Tensor)])
    return data


def _call_pure(
    first: torch.nn.Module, layer: torch.nn.Module, data: object, partition_fn: object
) -> object:
    """Run `layer` with the trace of `first`, which has the same structure."""
    if first not in _ONE_LAYER_CACHE:
        template = copy.deepcopy(first).to("meta")  # the cache must not keep its key alive

        def one_layer(data: object, tensors: dict[str, torch.Tensor]) -> tuple[object, None]:
            return torch.func.functional_call(template, tensors, data), None

        _ONE_LAYER_CACHE[first] = one_layer
    tensors = dict((*layer.named_parameters(), *layer.named_buffers()))
    return _traced(_ONE_LAYER_CACHE[first], data, tensors, partition_fn, True)(data, tensors)[0]


def _check(index: int, first: dict[str, torch.Size], shapes: dict[str, torch.Size]) -> None:
    if first.keys() != shapes.keys():
        missing, extra = first.keys() - shapes.keys(), shapes.keys() - first.keys()
        raise ValueError(
            f"Layer {index} has mismatched keys. Missing keys: {sorted(missing)}."
            f" Extra keys: {sorted(extra)}."
        )
    for name, shape in shapes.items():
        if shape != first[name]:
            raise ValueError(
                f"Shape mismatch for '{name}' in layer {index}: expected {tuple(first[name])},"
                f" got {tuple(shape)}."
            )
