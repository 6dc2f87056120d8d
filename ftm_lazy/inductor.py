"""``torch.compile(model)`` without ``backend=``: graphs with tensors on ftm, in the place of
Inductor.

PyTorch's default backend generates code for CPUs and GPUs. A graph that has a tensor on ftm goes to
the backend ``ftm`` instead; any other graph goes to Inductor as before. ``mode=`` and ``options=``
tune Inductor's code and choose nothing here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ftm_lazy.integrations import import_hooks

__all__ = ["install"]


def _route_by_device(compile_fx_module: Any) -> None:
    compile_fx = compile_fx_module.compile_fx

    @functools.wraps(compile_fx)
    def compile_by_device(
        model_: Any, example_inputs_: Sequence[Any], *args: Any, **kwargs: Any
    ) -> Any:
        device = torch._C._get_privateuse1_backend_name()
        if not any(tensor.device.type == device for tensor in _tensors(model_, example_inputs_)):
            return compile_fx(model_, example_inputs_, *args, **kwargs)
        if compile_fx_module.V.aot_compilation:
            raise NotImplementedError(
                f"AOTInductor has no backend for {device}: make a package by `ftm_lazy.package(exported, path)`"
            )
        from ftm_lazy.frontends import dynamo

        return dynamo.backend(model_, example_inputs_)

    compile_fx_module.compile_fx = compile_by_device


def _tensors(model: Any, example_inputs: Sequence[Any]) -> Iterator[torch.Tensor]:
    """The inputs, constants and intermediate results of a graph, of which Dynamo knows the
    device."""
    yield from _only_tensors(example_inputs)
    if not isinstance(model, torch.nn.Module):
        return
    yield from model.parameters()
    yield from model.buffers()
    for module in model.modules():  # branches and loop bodies are graphs of their own
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                yield from _only_tensors((node.meta.get("example_value"), node.meta.get("val")))


def _only_tensors(values: Any) -> Iterator[torch.Tensor]:
    return (value for value in pytree.tree_leaves(values) if isinstance(value, torch.Tensor))


def install() -> None:
    """Changes Inductor's entry, now or when it is imported."""
    import_hooks.change({"torch._inductor.compile_fx": _route_by_device})
