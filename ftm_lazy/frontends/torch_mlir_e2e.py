"""`TestConfig`s for torch-mlir's end-to-end tests: how its framework compiles a module for ftm and
calls it.

    from torch_mlir_e2e_test.framework import run_tests
    run_tests(GLOBAL_TEST_REGISTRY, LazyTestConfig())

They follow the framework's protocol and do not import it, since torch-mlir's wheel comes without
it. `compile` takes a module; `run` takes what that gave and a trace, which is a list of named
tuples (symbol, inputs, output), and gives the trace with the outputs that were computed, on the
CPU.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ftm_lazy.frontends.capture import DEVICE
from ftm_lazy.frontends.captured_model import capture_model
from ftm_lazy.frontends.dynamo import TorchCompileBackend
from ftm_lazy.frontends.package import package

__all__ = ["DynamoTestConfig", "ExportTestConfig", "LazyTestConfig"]


class _Config:
    """Calls the artifact by each symbol of a trace in turn, as `_call` says."""

    def compile(self, program: nn.Module, verbose: bool = False) -> nn.Module:
        """Return the artifact: a module."""
        del verbose
        return program

    def run(self, artifact: nn.Module, trace: Sequence[Any]) -> list[Any]:
        """Return the trace with new outputs."""
        found = []
        for item in trace:
            method = functools.reduce(
                getattr, item.symbol.split(".") if item.symbol else (), artifact
            )
            # a call may write over them
            inputs = pytree.tree_map_only(torch.Tensor, torch.clone, item.inputs)
            found.append(
                item._replace(
                    output=pytree.tree_map_only(torch.Tensor, _to_cpu, self._call(method, inputs))
                )
            )
        return found

    def _call(self, method: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        raise NotImplementedError


class LazyTestConfig(_Config):
    """Tensors on ftm."""

    def compile(self, program: nn.Module, verbose: bool = False) -> nn.Module:
        del verbose
        return program.to(DEVICE)

    def _call(self, method: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        return method(*pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(DEVICE), inputs))


class DynamoTestConfig(_Config):
    """`torch.compile`, as one graph, on tensors of the CPU."""

    def _call(self, method: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        return torch.compile(method, backend=TorchCompileBackend(), fullgraph=True)(*inputs)


class ExportTestConfig(_Config):
    """`torch.export`, and a package that is loaded and run as where no PyTorch is."""

    def _call(self, method: Callable[..., Any], inputs: Sequence[Any]) -> Any:
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


def _as_module(method: Callable[..., Any]) -> nn.Module:
    """Return a module whose ``forward`` is this method of another, or this module itself."""
    if isinstance(method, nn.Module):
        return method
    module = nn.Module()
    module.owner = getattr(method, "__self__")  # noqa: B009  (a callable has none in its type)
    module.forward = lambda *inputs: method(*inputs)
    return module
