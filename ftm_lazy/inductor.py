"""``torch.compile(model)`` without ``backend=``: compile graphs on ftm with the ftm backend.

PyTorch's default backend, Inductor, generates code for CPUs and GPUs. A graph with a tensor on ftm
goes to the backend ``ftm`` instead; any other graph goes to Inductor as before. ``mode=`` and
``options=`` tune Inductor, so they have no effect on ftm.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from types import ModuleType

import torch
from torch.utils import _pytree as pytree

from ftm_lazy.integrations import import_hooks
from ftm_lazy.torch_version import private_names

__all__ = ["install"]


def _route_by_device(compile_fx_module: ModuleType) -> None:
    compile_fx = compile_fx_module.compile_fx

    @functools.wraps(compile_fx)
    def compile_by_device(
        model_: object, example_inputs_: Sequence[object], *args: object, **kwargs: object
    ) -> object:
        device = private_names.privateuse1_name()
        if not any(tensor.device.type == device for tensor in _tensors(model_, example_inputs_)):
            return compile_fx(model_, example_inputs_, *args, **kwargs)
        if compile_fx_module.V.aot_compilation:
            raise NotImplementedError(
                f"AOTInductor has no backend for {device}:"
                " make a package with `ftm_lazy.package(exported, path)`"
            )
        from ftm_lazy.frontends import dynamo

        return dynamo.backend(model_, example_inputs_)

    compile_fx_module.compile_fx = compile_by_device  # type: ignore[attr-defined]


def _tensors(model: object, example_inputs: Sequence[object]) -> Iterator[torch.Tensor]:
    """Yield the inputs, constants and intermediate results of a graph that carry a device."""
    yield from _only_tensors(example_inputs)
    if not isinstance(model, torch.nn.Module):
        return
    yield from model.parameters()
    yield from model.buffers()
    for module in model.modules():  # branches and loop bodies are separate graphs
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                yield from _only_tensors((node.meta.get("example_value"), node.meta.get("val")))


def _only_tensors(values: object) -> Iterator[torch.Tensor]:
    return (value for value in pytree.tree_leaves(values) if isinstance(value, torch.Tensor))


def install() -> None:
    """Route graphs on ftm past Inductor, now or when Inductor is imported."""
    import_hooks.patch({"torch._inductor.compile_fx": _route_by_device})
