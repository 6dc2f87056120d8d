"""Nested tensors of both layouts, and the encoder that makes them of padded texts, against the
CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import ftm_lazy

LENGTHS = (2, 4, 1)


def nested(device: str, layout: torch.layout = torch.strided, width: int = 6) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.nested.nested_tensor(
        [torch.randn(length, width) for length in LENGTHS], layout=layout, device=device
    )


def same(own: torch.Tensor, want: torch.Tensor) -> None:
    assert own.is_nested == want.is_nested
    parts = (own.unbind(), want.unbind()) if own.is_nested else ([own], [want])
    for x, y in zip(*parts, strict=True):
        torch.testing.assert_close(x.cpu(), y)


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "clone": lambda x: x.clone(),
    "arithmetic": lambda x: (x * 2 + x) / 3 - x.abs().neg(),
    "activations": lambda x: (
        nn.functional.gelu(torch.relu(x)) + torch.tanh(x) + nn.functional.silu(x)
    ),
    "linear": lambda x: nn.functional.linear(
        x, torch.ones(3, 6, device=x.device), torch.ones(3, device=x.device)
    ),
    "layer_norm": lambda x: nn.functional.layer_norm(
        x, (6,), torch.ones(6, device=x.device), torch.ones(6, device=x.device)
    ),
    "softmax": lambda x: torch.softmax(x, -1),
    "matmul": lambda x: torch.matmul(x, x.transpose(1, 2)),
    "padded": lambda x: torch.nested.to_padded_tensor(x, -1.0),
    "padded to a size": lambda x: torch.nested.to_padded_tensor(x, 0.0, (3, 7, 6)),
    "dtype": lambda x: x.to(torch.float64),
    "select": lambda x: x[1],
    "transpose": lambda x: x.transpose(1, 2).contiguous(),
    "sum of rows": lambda x: x.sum(-1, keepdim=True),
    "view": lambda x: x.view(3, -1, 2, 3),
    "compare": lambda x: x > 0,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_strided(name: str) -> None:
    same(FUNCTIONS[name](nested("ftm")), FUNCTIONS[name](nested("cpu")))


def test_moves_and_writes() -> None:
    tensor = nested("cpu").to("ftm")
    assert tensor.device.type == "ftm" and "nested_tensor" in repr(tensor)
    same(tensor.cpu(), nested("cpu"))
    tensor.mul_(2)
    tensor[0].add_(1)
    want = nested("cpu")
    want.mul_(2)
    want[0].add_(1)
    same(tensor, want)
    mask = torch.arange(4) < torch.tensor(LENGTHS).unsqueeze(1)
    padded = torch.nested.to_padded_tensor(want, 0.0)
    same(
        torch._nested_tensor_from_mask(padded.to("ftm"), mask.to("ftm")),
        torch._nested_tensor_from_mask(padded, mask),
    )


def test_strided_gradients() -> None:
    grads = []
    for device in ("cpu", "ftm"):
        parts = [torch.ones(length, 6, device=device, requires_grad=True) for length in LENGTHS]
        weight = torch.full((3, 6), 0.5, device=device, requires_grad=True)
        made = torch.nested.as_nested_tensor(parts)
        torch.nested.to_padded_tensor(
            torch.relu(nn.functional.linear(made, weight)), 0.0
        ).square().sum().backward()
        grads.append([leaf.grad.cpu() for leaf in (*parts, weight)])
    torch.testing.assert_close(grads[1], grads[0])


def test_jagged() -> None:
    results = []
    for device in ("cpu", "ftm"):
        weight = torch.arange(18.0).reshape(3, 6).cos().to(device).requires_grad_()
        tensor = nested(device, torch.jagged)
        made = torch.tanh(nn.functional.linear(tensor, weight)) * 2 + 1
        loss = made.sum() + torch.nested.to_padded_tensor(made, 0.0).square().sum()
        loss.backward()
        parts = [part.detach().cpu() for part in made.unbind()]
        results.append([loss.detach().cpu(), weight.grad.cpu(), *parts])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("left_aligned", [False, True])
def test_transformer_encoder_with_padding(norm_first: bool, left_aligned: bool) -> None:
    """Zeros at padded places, where the encoder drops them."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval()
    source = torch.randn(3, 5, 16)
    padding = torch.arange(5) >= torch.tensor([[2], [5], [3]])
    if not left_aligned:
        padding = padding.flip(1)
    with torch.no_grad():
        want = encoder(source, src_key_padding_mask=padding)
        ftm_lazy.metrics.reset()
        own = encoder.to("ftm")(source.to("ftm"), src_key_padding_mask=padding.to("ftm")).cpu()
    torch.testing.assert_close(own, want, rtol=1e-4, atol=1e-5)
    assert not [
        name
        for name, count in ftm_lazy.metrics.counters().items()
        if name.startswith("fallback::") and count
    ]


def test_encoder_programs_serve_other_lengths() -> None:
    torch.manual_seed(0)
    encoder = (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
        .eval()
        .to("ftm")
    )
    compiles = []
    with torch.no_grad():
        for lengths in ((2, 5, 3), (5, 4, 1), (1, 5, 2), (5, 5, 3), (3, 2, 5)):
            padding = torch.arange(5) >= torch.tensor(lengths).unsqueeze(1)
            encoder(torch.randn(3, 5, 16).to("ftm"), src_key_padding_mask=padding.to("ftm")).cpu()
            compiles.append(ftm_lazy.metrics.counters()["compiles"])
    assert compiles[-1] == compiles[2]
