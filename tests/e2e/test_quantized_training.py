"""What replaced quantized tensors: decomposed quantization, integer products, weights stored as
integers as torchao writes them, training with fake quantization, and the export of what was
trained."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.ao.quantization as quantization
import torch.ao.quantization.fx._decomposed
import torch.nn.functional as F
from torch import Tensor, nn

import ftm_lazy
from e2e.counting import fallbacks

pytestmark = pytest.mark.filterwarnings("ignore")  # that torch.ao.quantization will move

OPS = torch.ops.quantized_decomposed
BOUNDS = (-128, 127, torch.int8)


def _x(device: str) -> Tensor:
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(0)).to(device)


def _integers(device: str, *shape: int) -> Tensor:
    return (
        torch.randint(-128, 128, shape, generator=torch.Generator().manual_seed(1))
        .to(torch.int8)
        .to(device)
    )


def _per_channel(device: str) -> Tensor:
    scales, zeros = (
        torch.linspace(0.01, 0.1, 8).to(device),
        torch.zeros(8, dtype=torch.int64).to(device),
    )
    return OPS.dequantize_per_channel(
        OPS.quantize_per_channel(_x(device), scales, zeros, 0, *BOUNDS), scales, zeros, 0, *BOUNDS
    )


def _per_tensor_found(device: str) -> Tensor:
    scale, zero = OPS.choose_qparams.tensor(_x(device), -128, 127, 1e-5, torch.int8)
    return OPS.dequantize_per_tensor.tensor(
        OPS.quantize_per_tensor.tensor(_x(device), scale, zero, *BOUNDS), scale, zero, *BOUNDS
    )


def _per_token(device: str) -> Tensor:
    scales, zeros = OPS.choose_qparams_per_token(_x(device), torch.int8)
    return OPS.dequantize_per_token(
        OPS.quantize_per_token(_x(device), scales, zeros, *BOUNDS),
        scales,
        zeros,
        *BOUNDS,
        torch.float32,
    )


def _dynamic(device: str) -> Tensor:
    """Activations become integers on the way, by row."""
    x, weights = _x(device), _integers(device, 24, 16)
    scale = x.abs().amax(1, keepdim=True) / 127
    return torch._int_mm((x / scale).round().clamp(-128, 127).to(torch.int8), weights.t()) * scale


def _weights_of_8_bits(device: str) -> Tensor:
    weights = _integers(device, 24, 16)
    scale = torch.linspace(0.01, 0.1, 24).to(device)
    return F.linear(_x(device), weights.to(torch.float32)) * scale + torch._weight_int8pack_mm(
        _x(device).bfloat16(), weights, scale.bfloat16()
    )


def _weights_of_4_bits(device: str) -> Tensor:
    """Two in a byte, in groups of 8 with a scale and a least value of their own."""
    packed = _integers(device, 24, 8).view(torch.uint8)
    scale, least = (
        torch.linspace(0.01, 0.1, 48).view(24, 2, 1).to(device),
        torch.linspace(-1, 0, 48).view(24, 2, 1).to(device),
    )
    numbers = torch.stack((packed >> 4, packed & 15), -1).view(24, 2, 8)
    return F.linear(_x(device), (numbers * scale + least).view(24, 16))


def _straight_through(device: str) -> Tensor:
    scales, zeros = (
        torch.linspace(0.001, 0.03, 8).to(device),
        torch.zeros(8, dtype=torch.int32).to(device),
    )
    x = _x(device).requires_grad_()
    made = torch.fake_quantize_per_tensor_affine(
        x, 0.01, 3, -128, 127
    ) + torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, -128, 127)
    made.square().sum().backward()
    assert x.grad is not None
    return torch.stack([made.detach(), x.grad])


CALLS: dict[str, Callable[[str], Tensor]] = {
    "per tensor": lambda d: OPS.dequantize_per_tensor(
        OPS.quantize_per_tensor(_x(d), 0.05, 3, *BOUNDS), 0.05, 3, *BOUNDS
    ),
    "per tensor, found": _per_tensor_found,
    "per channel": _per_channel,
    "per token": _per_token,
    "integer product": lambda d: torch._int_mm(_integers(d, 32, 64), _integers(d, 64, 16)),
    "dynamic": _dynamic,
    "weights of 8 bits": _weights_of_8_bits,
    "weights of 4 bits": _weights_of_4_bits,
    "straight through": _straight_through,
}


@pytest.mark.parametrize("name", CALLS)
def test_on_the_device(name: str) -> None:
    torch.testing.assert_close(CALLS[name]("ftm").cpu(), CALLS[name]("cpu"), rtol=1e-6, atol=1e-6)
    assert not fallbacks(ftm_lazy.metrics.counters())


PLAIN = quantization.QConfig(
    activation=quantization.FakeQuantize.with_args(
        observer=quantization.MovingAverageMinMaxObserver, quant_min=0, quant_max=255
    ),
    weight=quantization.FakeQuantize.with_args(
        observer=quantization.MovingAveragePerChannelMinMaxObserver,
        quant_min=-128,
        quant_max=127,
        dtype=torch.qint8,
        qscheme=torch.per_channel_symmetric,
    ),
)
FUSED = quantization.get_default_qat_qconfig("fbgemm")


def _trained(config: quantization.QConfig, device: str) -> tuple[nn.Module, list[float]]:
    torch.manual_seed(0)
    model = nn.Sequential(
        quantization.QuantStub(),
        nn.Linear(16, 32),
        nn.ReLU(),
        nn.Linear(32, 4),
        quantization.DeQuantStub(),
    ).train()
    model.qconfig = config
    model = quantization.prepare_qat(model).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    labels, losses = torch.arange(8).remainder(4).to(device), []
    for _ in range(4):
        loss = F.cross_entropy(model(_x(device)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model.eval().apply(quantization.disable_observer), losses


@pytest.mark.parametrize("config", [PLAIN, FUSED], ids=["plain", "fused"])
def test_training_and_conversion(config: quantization.QConfig) -> None:
    reference, expected = _trained(config, "cpu")
    model, losses = _trained(config, "ftm")
    assert losses == pytest.approx(expected, rel=1e-5) and losses[-1] < losses[0]
    assert not fallbacks(ftm_lazy.metrics.counters())
    here, there = (
        quantization.convert(reference)(_x("cpu")),
        quantization.convert(model.cpu())(_x("cpu")),
    )
    # a step of the last layer's integers
    torch.testing.assert_close(there, here, rtol=0, atol=0.05)


def test_observers_of_another_axis_are_eagers() -> None:
    def call(device: str, on: int) -> Tensor:
        numbers = [torch.tensor([on]).to(device) for on in (on, 1)]
        state = [torch.full((16,), x).to(device) for x in (-1.0, 1.0, 0.02)]
        return torch.fused_moving_avg_obs_fake_quant(
            _x(device),
            *numbers,
            *state,
            torch.zeros(16, dtype=torch.int32).to(device),
            0.01,
            -128,
            127,
            1,
            True,
        )

    assert torch.equal(call("ftm", 0).cpu(), call("cpu", 0))
    with pytest.raises(RuntimeError, match="only supported on axis == 0"):
        call("ftm", 1)


def test_export() -> None:
    from torch.export.passes import move_to_device_pass

    model, _ = _trained(FUSED, "ftm")
    expected = model(_x("ftm")).cpu()
    exported = torch.export.export(model.cpu(), (_x("cpu"),))
    torch.testing.assert_close(exported.module()(_x("cpu")), expected)
    torch.testing.assert_close(
        move_to_device_pass(exported, "ftm").module()(_x("ftm")).cpu(), expected
    )
