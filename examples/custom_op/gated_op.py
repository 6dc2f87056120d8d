"""`gated::rms_gate`: x over its root mean square, times sigmoid(gate), with torch.library only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("gated::rms_gate", mutates_args=())
def rms_gate(x: Tensor, gate: Tensor, eps: float) -> Tensor:
    """Default implementation for all devices."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * torch.sigmoid(gate)


@rms_gate.register_fake
def _(x: Tensor, gate: Tensor, eps: float) -> Tensor:
    return torch.empty_like(x)


def _setup(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
    x, gate, ctx.eps = inputs
    ctx.save_for_backward(x, gate)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
    """Compute the gradient with ordinary operations, which are recorded as usual."""
    x, gate = ctx.saved_tensors
    scale, opened = torch.rsqrt(x.square().mean(-1, keepdim=True) + ctx.eps), torch.sigmoid(gate)
    normal = x * scale
    inner = grad * opened
    grad_x = scale * (inner - normal * (inner * normal).mean(-1, keepdim=True))
    return grad_x, grad * normal * opened * (1 - opened), None


rms_gate.register_autograd(_backward, setup_context=_setup)
