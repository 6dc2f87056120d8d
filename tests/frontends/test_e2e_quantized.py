"""torch-mlir's end-to-end tests of quantization, rewritten under the same names.

Quantized dtypes run on ftm; integers with separate scales, which replaced them, run with every
`TestConfig`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.ao import quantization
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (defines the ops)

import ftm_lazy
from e2e.counting import fallbacks
from e2e.saturation import configuration
from frontends.test_e2e import CONFIGS, golden_trace
from ftm_lazy.frontends.torch_mlir_e2e import LazyTestConfig

OPS = torch.ops.quantized_decomposed
Made = tuple[Callable[[], nn.Module], tuple[Tensor, ...]]


class Function(nn.Module):
    """A module that is a function."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


def _bytes(*shape: int, dtype: torch.dtype = torch.int8) -> Tensor:
    low, high = (0, 256) if dtype == torch.uint8 else (-128, 128)
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(sum(shape))).to(
        dtype
    )


def _real(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def _of(integers: Tensor, scale: float, zero: int) -> Tensor:
    return torch.dequantize(torch._make_per_tensor_quantized_tensor(integers, scale, zero))


def _decoded(integers: Tensor, scale: float, zero: int) -> Tensor:
    bounds = (0, 255) if integers.dtype == torch.uint8 else (-128, 127)
    return OPS.dequantize_per_tensor(integers, scale, zero, *bounds, integers.dtype)


def _convolution(
    decode: Callable[[Tensor, float, int], Tensor], groups: int = 1
) -> Callable[..., Tensor]:
    return lambda x, weight, bias: torch.conv2d(
        decode(x, 0.01, 7), decode(weight, 0.01, 3), bias, groups=groups
    )


def _rounded_bias(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return _convolution(_of)(
        x, weight, torch.quantize_per_tensor(bias, 0.0001, 0, torch.qint32).dequantize()
    )


TYPED: dict[str, Made] = {
    "AtenMmQint8_basic": (
        lambda: Function(lambda x, y: _of(x, 0.03, -66) @ _of(y, 0.025, 14)),
        (_bytes(3, 4), _bytes(4, 3)),
    ),
    "AtenMmQuint8_basic": (
        lambda: Function(lambda x, y: _of(x, 0.2, 65) @ _of(y, 0.02, 160)),
        (_bytes(3, 4, dtype=torch.uint8), _bytes(4, 3, dtype=torch.uint8)),
    ),
    "AtenMmQMixedSigni8_basic": (
        lambda: Function(lambda x, y: _of(x, 0.03, -66) @ _of(y, 0.02, 160)),
        (_bytes(3, 4), _bytes(4, 3, dtype=torch.uint8)),
    ),
    "AtenMatmulQint8VM_basic": (
        lambda: Function(lambda x, y: torch.matmul(_of(x, 0.04, 1), _of(y, 0.05, 0))),
        (_bytes(9), _bytes(9, 4)),
    ),
    "AtenMatmulQint8VV_basic": (
        lambda: Function(lambda x, y: torch.matmul(_of(x, 0.04, 1), _of(y, 0.05, 0))),
        (_bytes(9), _bytes(9)),
    ),
    "AtenMatmulQint8MV_basic": (
        lambda: Function(lambda x, y: torch.matmul(_of(x, 0.04, 1), _of(y, 0.05, 0))),
        (_bytes(3, 9), _bytes(9)),
    ),
    "Conv2dQInt8Module_basic": (
        lambda: Function(_rounded_bias),
        (_bytes(2, 4, 7, 8), _bytes(3, 4, 3, 2), _real(3)),
    ),
    "Conv2dQInt8Module_grouped": (
        lambda: Function(_convolution(_of, 2)),
        (_bytes(2, 8, 7, 8), _bytes(6, 4, 3, 2), _real(6)),
    ),
    "Conv2dQInt8Module_depthwise": (
        lambda: Function(_convolution(_of, 4)),
        (_bytes(2, 4, 7, 8), _bytes(4, 1, 3, 2), _real(4)),
    ),
    "ElementwiseQuantizePerTensorModule_basic": (
        lambda: Function(lambda x: torch.quantize_per_tensor(x, 0.05, 4, torch.qint8).int_repr()),
        (_real(3, 3),),
    ),
    "ElementwiseDequantizePerTensorModule_basic": (
        lambda: Function(lambda x: _of(x, 0.1, 8)),
        (_bytes(3, 4),),
    ),
    "ElementwiseDequantizePerChannelModule_basic": (
        lambda: Function(
            lambda x, scale, zero: torch.dequantize(
                torch._make_per_channel_quantized_tensor(x, scale, zero, 1)
            )
        ),
        (_bytes(2, 4), torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([1, 2, 3, 4])),
    ),
}
"""By name: a module and what it is called with."""

WRITTEN_OUT: dict[str, Made] = {
    "AtenMmQint8_basic": (
        lambda: Function(lambda x, y: _decoded(x, 0.03, -66) @ _decoded(y, 0.025, 14)),
        (_bytes(3, 4), _bytes(4, 3)),
    ),
    "AtenMmQuint8_basic": (
        lambda: Function(lambda x, y: _decoded(x, 0.2, 65) @ _decoded(y, 0.02, 160)),
        (_bytes(3, 4, dtype=torch.uint8), _bytes(4, 3, dtype=torch.uint8)),
    ),
    "AtenMmQMixedSigni8_basic": (
        lambda: Function(lambda x, y: _decoded(x, 0.03, -66) @ _decoded(y, 0.02, 160)),
        (_bytes(3, 4), _bytes(4, 3, dtype=torch.uint8)),
    ),
    "Conv2dQInt8Module_basic": (
        lambda: Function(_convolution(_decoded)),
        (_bytes(2, 4, 7, 8), _bytes(3, 4, 3, 2), _real(3)),
    ),
    "Conv2dQInt8Module_depthwise": (
        lambda: Function(_convolution(_decoded, 4)),
        (_bytes(2, 4, 7, 8), _bytes(4, 1, 3, 2), _real(4)),
    ),
    "ElementwiseQuantizePerTensorModule_basic": (
        lambda: Function(lambda x: OPS.quantize_per_tensor(x, 0.05, 4, -128, 127, torch.int8)),
        (_real(3, 3),),
    ),
    "ElementwiseDequantizePerTensorModule_basic": (
        lambda: Function(lambda x: _decoded(x, 0.1, 8)),
        (_bytes(3, 4),),
    ),
}


def _quantized(*layers: nn.Module) -> nn.Module:
    """Calibrated on three batches and converted."""
    torch.manual_seed(0)
    model = nn.Sequential(quantization.QuantStub(), *layers, quantization.DeQuantStub()).eval()
    model.qconfig = configuration()
    with warnings.catch_warnings(action="ignore"):
        prepared = quantization.prepare(model)
        for batch in range(3):
            prepared(_real(1, 16) * 0.5 + batch * 0.1)
        return quantization.convert(prepared)


MODELS: dict[str, Made] = {
    "QuantizedNoLayer_basic": (lambda: _quantized(), (_real(1, 16),)),
    "QuantizedSingleLayer_basic": (lambda: _quantized(nn.Linear(16, 8)), (_real(1, 16),)),
    "QuantizedBatchedInputSingleLayer_basic": (
        lambda: _quantized(nn.Linear(16, 8)),
        (_real(1, 2, 16),),
    ),
    "QuantizedMLP_basic": (
        lambda: _quantized(
            nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)
        ),
        (_real(1, 16),),
    ),
}


def _agree(config: Any, made: Made) -> None:
    make, inputs = made
    program = make()
    trace = golden_trace(program, lambda call: call("forward", *inputs))
    for found, expected in zip(config.run(config.compile(program), trace), trace, strict=True):
        torch.testing.assert_close(found.output, expected.output, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [*TYPED, *MODELS])
def test_quantized_tensors(name: str) -> None:
    _agree(LazyTestConfig(), (TYPED | MODELS)[name])
    assert not fallbacks(ftm_lazy.metrics.counters())


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_integers_and_scales(name: str, config: str) -> None:
    _agree(CONFIGS[config](), WRITTEN_OUT[name])
