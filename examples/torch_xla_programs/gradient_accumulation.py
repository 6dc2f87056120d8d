"""Gradient accumulation over small batches, with `torch_xla.step` around each batch.

python -m ftm_lazy.torch_xla examples/torch_xla_programs/gradient_accumulation.py
"""

import argparse
import json

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn
from torch.nn import functional as F


def batch(step, micro, size):
    """Sequences [size, 12, 6], and the sign of what they sum up to."""
    x = torch.randn(size, 12, 6, generator=torch.Generator().manual_seed(1000 * step + micro))
    return x, (x.sum((1, 2)) > 0).long()


class Classifier(nn.Module):
    """A convolution along the sequence, then two linear layers."""

    def __init__(self, width):
        super().__init__()
        self.along = nn.Conv1d(6, width, 3, padding=1)
        self.norm, self.hidden, self.last = (
            nn.LayerNorm(width),
            nn.Linear(width, width),
            nn.Linear(width, 2),
        )

    def forward(self, x):
        features = F.silu(self.along(x.transpose(1, 2))).mean(2)
        return self.last(F.silu(self.hidden(self.norm(features))))


def train(flags):
    """The mean loss of each step."""
    device = xm.xla_device()
    torch.manual_seed(0)
    model = Classifier(flags.width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=flags.lr)
    losses = []
    for step in range(flags.steps):
        total = torch.zeros((), device=device)
        for micro in range(flags.micro_batches):
            with torch_xla.step():
                x, y = (part.to(device) for part in batch(step, micro, flags.batch_size))
                loss = F.cross_entropy(model(x), y) / flags.micro_batches
                loss.backward()
                total += loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(optimizer, barrier=True)
        optimizer.zero_grad()
        losses.append(total)
        if step % flags.log_steps == 0:
            print(f"step {step:4d}  loss {total.item():.4f}")
    xm.mark_step()
    return torch.stack(losses).tolist()


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(description="Gradients of several small batches.")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16, help="of one micro-batch")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--log-steps", type=int, default=10)
    parser.add_argument("--losses", help="file for the loss of each step, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    flags = parse()
    losses = train(flags)
    if flags.losses:
        with open(flags.losses, "w") as file:
            json.dump(losses, file)
