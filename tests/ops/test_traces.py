"""Whole training steps: forward, loss, backward, clipping, AdamW, through trace, torch dialect and
linalg."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftm_backend import mlir
from ftm_backend.frontend import Trace, import_trace, lower
from ftm_backend.ir.linalg.printer import print_function
from ftm_backend.torch_mlir import execution_engine as oracle
from ops import capture
from ops.arrays import from_numpy, to_numpy


def adamw(
    p: Tensor, grad: Tensor, m: Tensor, v: Tensor, lr: float, step: int
) -> tuple[Tensor, Tensor, Tensor]:
    """One update as torch.optim.AdamW computes it."""
    m = torch.lerp(m, grad, 0.1)
    v = torch.addcmul(v * 0.999, grad, grad, value=0.001)
    denominator = (v.sqrt() / (1 - 0.999**step) ** 0.5).add(1e-8)
    return torch.addcdiv(p * (1 - lr * 0.01), m, denominator, value=-lr / (1 - 0.9**step)), m, v


def clipped(grads: list[Tensor]) -> list[Tensor]:
    """clip_grad_norm_ at 1."""
    total = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
    return [g * torch.clamp(1.0 / (total + 1e-6), max=1.0) for g in grads]


def step_of(model: nn.Module) -> tuple[Callable[..., list[Tensor]], list[Tensor]]:
    """(function of input, target and state, state): one training step of ``model``."""
    names = [name for name, _ in model.named_parameters()]
    buffers = dict(model.named_buffers())

    def step(x: Tensor, target: Tensor, *state: Tensor) -> list[Tensor]:
        count = len(names)
        parameters = [p.detach().requires_grad_(True) for p in state[:count]]
        values = {
            **dict(zip(names, parameters, strict=True)),
            **{k: v.clone() for k, v in buffers.items()},
        }
        logits = torch.func.functional_call(model, values, (x,))
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))
        grads = clipped(list(torch.autograd.grad(loss, parameters)))
        made = [loss]
        for k, (p, grad) in enumerate(zip(parameters, grads, strict=True)):
            made += adamw(p.detach(), grad, state[count + k], state[2 * count + k], 3e-3, 3)
        return made

    parameters = [p.detach() for p in model.parameters()]
    moments = [torch.randn_like(p) * 1e-3 for p in parameters]
    return step, [*parameters, *moments, *[torch.rand_like(p) * 1e-3 + 1e-4 for p in parameters]]


class Attention(nn.Module):
    """A small language model: embeddings, causal attention, layer norm, GELU, a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(11, 8), nn.Embedding(5, 8)
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, tokens: Tensor) -> Tensor:
        batch, time = tokens.shape
        x = self.token(tokens) + self.position(torch.arange(time))
        q, k, v = (
            t.view(batch, time, 2, 4).transpose(1, 2)
            for t in self.qkv(self.norm(x)).split(8, dim=2)
        )
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, time, 8))
        return (x + self.mlp(x)) @ self.token.weight.t()


def convolutional() -> nn.Module:
    """The layers of an image classifier."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4, track_running_stats=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 10),
    )


def cases() -> dict[str, tuple[nn.Module, Tensor, Tensor]]:
    torch.manual_seed(0)
    return {
        "mlp": (
            nn.Sequential(nn.Flatten(), nn.Linear(16, 9), nn.ReLU(), nn.Linear(9, 10)),
            torch.randn(7, 1, 4, 4),
            torch.randint(10, (7,)),
        ),
        "cnn": (convolutional(), torch.randn(5, 1, 8, 8), torch.randint(10, (5,))),
        "attention": (Attention(), torch.randint(11, (3, 5)), torch.randint(11, (3, 5))),
    }


@pytest.mark.parametrize("name", ["mlp", "cnn", "attention"])
def test_training_step(name: str) -> None:
    model, x, target = cases()[name]
    step, state = step_of(model)
    want = step(x, target, *state)
    recording = capture.function(step, x, target, *state)
    trace = Trace.parse(str(recording.trace))
    with mlir.context():
        module = import_trace(trace)
        module.operation.verify()
        linalg = mlir.ir.Module.parse(print_function(lower(trace)))
        linalg.operation.verify()
        program = oracle.EngineProgram(linalg, optimize=False)
    got: list[Any] = program.run("main", [to_numpy(p) for p in recording.params], recording.scalars)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(from_numpy(g, w.dtype), w.detach(), rtol=1e-4, atol=1e-5)
