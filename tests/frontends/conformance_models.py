"""Records the models of ``ftm conformance``: run it to write them anew, after the recorder's text
has changed.

python tests/frontends/conformance_models.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from ftm_lazy.compile.trace_importer import trace_of
from ftm_lazy.frontends.capture import capture

FOLDER = Path(__file__).parents[2] / "backend" / "ftm_backend" / "conformance" / "models"


def mlp_step(x: Tensor, label: Tensor, w1: Tensor, b1: Tensor, w2: Tensor) -> Sequence[Tensor]:
    """A training step of a perceptron: forward, backward, SGD."""
    parameters = [t.requires_grad_() for t in (w1, b1, w2)]
    with torch.enable_grad():
        loss = F.cross_entropy(torch.relu(x @ w1 + b1) @ w2, label)
    gradients = torch.autograd.grad(loss, parameters)
    return [
        loss.detach(),
        *(p.detach() - 0.1 * g for p, g in zip(parameters, gradients, strict=True)),
    ]


def cnn(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor) -> Sequence[Tensor]:
    """Convolution, pooling, and a strided convolution."""
    return [
        F.conv2d(F.max_pool2d(torch.relu(F.conv2d(x, w1, b1, padding=1)), 2), w2, stride=2).mean(
            (2, 3)
        )
    ]


def transformer(x: Tensor, scale: Tensor, qkv: Tensor, out: Tensor) -> Sequence[Tensor]:
    """A causal attention block with its norm."""
    q, k, v = (F.layer_norm(x, x.shape[-1:], scale) @ qkv).chunk(3, -1)
    seen = torch.ones(x.shape[1], x.shape[1], device=x.device, dtype=torch.bool).tril()
    weights = torch.softmax((q @ k.transpose(-1, -2) / 4).masked_fill(~seen, -torch.inf), -1)
    return [x + F.gelu(weights @ v @ out)]


def recurrent(x: Tensor, hidden: Tensor, wi: Tensor, wh: Tensor) -> Sequence[Tensor]:
    """A gated cell over four steps."""
    for t in range(4):
        reset, update, new = (x[:, t] @ wi).chunk(3, -1)
        h_reset, h_update, h_new = (hidden @ wh).chunk(3, -1)
        gate = torch.sigmoid(update + h_update)
        hidden = gate * hidden + (1 - gate) * torch.tanh(
            new + torch.sigmoid(reset + h_reset) * h_new
        )
    return [hidden]


def embedding_sum(table: Tensor, tokens: Tensor, w: Tensor) -> Sequence[Tensor]:
    """Gathered rows, their scan, and the order of the scores."""
    scores = torch.cumsum(F.embedding(tokens, table), 1).amax(1) @ w
    return [scores, scores.sort(1).values]


MODELS: dict[str, tuple[Callable[..., Sequence[Tensor]], tuple[Tensor, ...]]] = {
    "mlp-step": (
        mlp_step,
        (
            torch.zeros(32, 64),
            torch.zeros(32, dtype=torch.int64),
            torch.zeros(64, 48),
            torch.zeros(48),
            torch.zeros(48, 10),
        ),
    ),
    "cnn": (
        cnn,
        (
            torch.zeros(4, 3, 16, 16),
            torch.zeros(8, 3, 3, 3),
            torch.zeros(8),
            torch.zeros(12, 8, 3, 3),
        ),
    ),
    "transformer": (
        transformer,
        (torch.zeros(2, 24, 32), torch.zeros(32), torch.zeros(32, 96), torch.zeros(32, 32)),
    ),
    "recurrent": (
        recurrent,
        (torch.zeros(6, 4, 20), torch.zeros(6, 24), torch.zeros(20, 72), torch.zeros(24, 72)),
    ),
    "embedding": (
        embedding_sum,
        (torch.zeros(2, 24), torch.zeros(5, 9, dtype=torch.int64), torch.zeros(24, 11)),
    ),
}


def text_of(name: str) -> str:
    """The trace of a model, as it is recorded now."""
    function, inputs = MODELS[name]
    return str(trace_of(capture(function, inputs).trace))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in MODELS:
        (FOLDER / f"{name}.trace").write_text(text_of(name))
