"""`TestConfig` classes with which torch-mlir's end-to-end tests run on ftm.

    from torch_mlir_e2e_test.framework import run_tests
    run_tests(GLOBAL_TEST_REGISTRY, LazyTestConfig())

The classes follow the framework's protocol without importing it, because torch-mlir's wheel does
not contain it. `compile` turns a module into an artifact. `run` takes the artifact and a trace, a
list of named tuples (symbol, inputs, output), and returns it with the computed outputs on the CPU.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ftm_lazy.frontends.capture import DEVICE
from ftm_lazy.frontends.captured_model import capture_model
from ftm_lazy.frontends.dynamo import TorchCompileBackend
from ftm_lazy.frontends.package import package


class _TraceItem(Protocol):
    """What is used of torch-mlir's ``TraceItem``."""

    @property
    def symbol(self) -> str: ...
    @property
    def inputs(self) -> Sequence[object]: ...
    def _replace(self, *, output: object) -> _TraceItem: ...


class _Config:
    """Base class: calls the artifact's methods in the order of a trace, through `_call`."""

    def compile(self, program: nn.Module, verbose: bool = False) -> nn.Module:
        """Return the artifact, which is the module."""
        del verbose
        return program

    def run(self, artifact: nn.Module, trace: Sequence[_TraceItem]) -> list[_TraceItem]:
        """Return the trace with computed outputs."""
        computed = []
        for item in trace:
            method = functools.reduce(
                getattr, item.symbol.split(".") if item.symbol else (), artifact
            )
            # the call may overwrite its inputs
            inputs = pytree.tree_map_only(torch.Tensor, torch.clone, item.inputs)
            output = pytree.tree_map_only(torch.Tensor, _to_cpu, self._call(method, inputs))
            computed.append(item._replace(output=output))
        return computed

    def _call(self, method: Callable[..., object], inputs: Sequence[object]) -> object:
        raise NotImplementedError


class LazyTestConfig(_Config):
    """Run on the lazy device, with module and inputs on ftm."""

    def compile(self, program: nn.Module, verbose: bool = False) -> nn.Module:
        """Move the module to ftm."""
        del verbose
        return program.to(DEVICE)

    def _call(self, method: Callable[..., object], inputs: Sequence[object]) -> object:
        return method(*pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(DEVICE), inputs))


class DynamoTestConfig(_Config):
    """Run with `torch.compile`, as one graph on CPU tensors."""

    def _call(self, method: Callable[..., object], inputs: Sequence[object]) -> object:
        return torch.compile(method, backend=TorchCompileBackend(), fullgraph=True)(*inputs)


class ExportTestConfig(_Config):
    """Run as a package of `torch.export`, through the runtime that needs no PyTorch."""

    def _call(self, method: Callable[..., object], inputs: Sequence[object]) -> object:
        from ftm_backend import runtime

        captured = capture_model(torch.export.export(_as_module(method), tuple(inputs)), ())
        with tempfile.TemporaryDirectory() as folder:
            package(captured, Path(folder) / "model.ftm")
            tensors = [
                leaf.numpy()
                for leaf in pytree.tree_leaves(inputs)
                if isinstance(leaf, torch.Tensor)
            ]
            model = runtime.load(Path(folder) / "model.ftm")
            given = model(*tensors)
            arrays = [given] if len(model.outputs) == 1 else given
            return pytree.tree_unflatten(
                [torch.from_numpy(array.copy()) for array in arrays], captured.structure
            )


def _to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu()


def _as_module(method: Callable[..., object]) -> nn.Module:
    """Return `method` as the ``forward`` of a module."""
    if isinstance(method, nn.Module):
        return method
    module = nn.Module()
    module.owner = getattr(method, "__self__")  # noqa: B009  (a callable has none in its type)
    module.forward = lambda *inputs: method(*inputs)
    return module
