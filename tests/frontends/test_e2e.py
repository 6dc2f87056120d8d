"""Tests in the style of torch-mlir's end-to-end framework, by each of our `TestConfig`s: a module
and calls of it, whose results must be those of PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from ftm_lazy.frontends.torch_mlir_e2e import DynamoTestConfig, ExportTestConfig, LazyTestConfig

CONFIGS = {"lazy": LazyTestConfig, "dynamo": DynamoTestConfig, "export": ExportTestConfig}


class TraceItem(NamedTuple):
    """The framework's record of one call."""

    symbol: str
    inputs: list[Any]
    output: Any


Invoker = Callable[[Callable[..., None]], None]
TESTS: dict[str, tuple[type[nn.Module], Invoker]] = {}


def register_test_case(module_factory: type[nn.Module]) -> Callable[[Invoker], Invoker]:
    """As the framework's decorator: the function says which calls are made."""

    def register(invoke: Invoker) -> Invoker:
        TESTS[invoke.__name__] = (module_factory, invoke)
        return invoke

    return register


def golden_trace(module: nn.Module, invoke: Invoker) -> list[TraceItem]:
    """The calls with what PyTorch gives."""
    trace: list[TraceItem] = []

    def call(symbol: str, *inputs: Any) -> None:
        copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
        trace.append(TraceItem(symbol, list(inputs), getattr(module, symbol)(*copies)))

    invoke(call)
    return trace


class MmModule(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.mm(a, b)


@register_test_case(module_factory=MmModule)
def MmModule_basic(call: Callable[..., None]) -> None:
    call("forward", torch.rand(4, 4), torch.rand(4, 4))


@register_test_case(module_factory=MmModule)
def MmModule_chained(call: Callable[..., None]) -> None:
    """Two calls of other shapes."""
    call("forward", torch.rand(4, 3), torch.rand(3, 5))
    call("forward", torch.rand(2, 5), torch.rand(5, 1))


class Mlp1LayerModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc0, self.tanh = nn.Linear(3, 5), nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tanh(self.fc0(x))

    def scaled(self, x: torch.Tensor, by: float) -> dict[str, torch.Tensor]:
        return {"out": self.forward(x) * by, "in": x}


@register_test_case(module_factory=Mlp1LayerModule)
def Mlp1LayerModule_basic(call: Callable[..., None]) -> None:
    call("forward", torch.rand(5, 3))


@register_test_case(module_factory=Mlp1LayerModule)
def Mlp1LayerModule_method(call: Callable[..., None]) -> None:
    """Of another name, with a number among the arguments and a nested result."""
    call("scaled", torch.rand(2, 3), 2.5)


class ReturnTupleModule(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        values, indices = torch.sort(x, dim=-1, stable=True)
        return values, indices, x.t()


@register_test_case(module_factory=ReturnTupleModule)
def ReturnTupleModule_basic(call: Callable[..., None]) -> None:
    call("forward", torch.rand(3, 4))


class InPlaceModule(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add_(1.0).mul_(x)


@register_test_case(module_factory=InPlaceModule)
def InPlaceModule_basic(call: Callable[..., None]) -> None:
    call("forward", torch.rand(3, 4))


class IndexingModule(nn.Module):
    def forward(self, x: torch.Tensor, rows: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        return torch.where(keep, x[rows], torch.zeros(()))


@register_test_case(module_factory=IndexingModule)
def IndexingModule_basic(call: Callable[..., None]) -> None:
    call("forward", torch.rand(6, 4), torch.tensor([5, 0, 0]), torch.rand(3, 4) > 0.5)


@pytest.mark.parametrize("way", CONFIGS)
@pytest.mark.parametrize("name", TESTS)
def test_end_to_end(name: str, way: str) -> None:
    factory, invoke = TESTS[name]
    expected = golden_trace(factory(), invoke)
    config = CONFIGS[way]()
    found = config.run(config.compile(factory()), expected)
    assert [item.symbol for item in found] == [item.symbol for item in expected]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.output, b.output)
