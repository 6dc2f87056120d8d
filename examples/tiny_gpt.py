"""Train a small GPT on the source text of Python's standard library, byte by byte.

    python examples/tiny_gpt.py --device ftm
    python examples/tiny_gpt.py --device cpu --steps 100

The model is a decoder-only transformer: embeddings of bytes and positions, blocks of causal
attention and an MLP, layer norm before each, and an output layer that shares its weight with the
embedding. The loop has what such loops have: parameter groups, warm-up, gradient accumulation,
clipping. At the end it writes some Python.
"""

from __future__ import annotations

import argparse
import math
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn

VOCABULARY = 256  # every byte is a token


@dataclass(frozen=True)
class Shape:
    """Sizes of the model."""

    context: int = 64
    layers: int = 4
    heads: int = 4
    width: int = 128
    dropout: float = 0.0


class Attention(nn.Module):
    """Causal self-attention over [batch, time, width]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.dropout = shape.dropout
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (t.view(batch, time, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    """Attention and an MLP, each after a layer norm and added to the stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.norm2 = nn.LayerNorm(shape.width)
        self.mlp = nn.Sequential(
            nn.Linear(shape.width, 4 * shape.width),
            nn.GELU(),
            nn.Linear(4 * shape.width, shape.width),
            nn.Dropout(shape.dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Takes tokens [batch, time], gives logits [batch, time, VOCABULARY]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token = nn.Embedding(VOCABULARY, shape.width)
        self.position = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.Sequential(*(Block(shape) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, VOCABULARY, bias=False)
        self.apply(self._initialize)
        self.head.weight = self.token.weight

    @staticmethod
    def _initialize(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token(tokens) + self.position(positions)
        return self.head(self.norm(self.blocks(x)))


def standard_library(megabytes: float = 4.0) -> Tensor:
    """Return the first `megabytes` of Python's library as a uint8 tensor, in file name order."""
    library = Path(sysconfig.get_path("stdlib"))
    text = bytearray()
    for path in sorted(library.glob("*.py")) + sorted(library.glob("[a-z]*/*.py")):
        if path.parent.name not in ("test", "site-packages"):
            text += path.read_bytes()
        if len(text) > megabytes * 1e6:
            break
    return torch.frombuffer(text, dtype=torch.uint8)


def batches(text: Tensor, batch: int, context: int, seed: int):
    """Yield endless (tokens, targets), each [batch, context] int64, from random positions."""
    generator = torch.Generator().manual_seed(seed)
    window = torch.arange(context + 1)
    while True:
        starts = torch.randint(len(text) - context, (batch, 1), generator=generator)
        tokens = text[starts + window].long()
        yield tokens[:, :-1], tokens[:, 1:]


def make_optimizer(model: nn.Module, args: argparse.Namespace) -> torch.optim.Optimizer:
    """AdamW that decays matrices and leaves biases and norms alone."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95))


def warm_up_then_cosine(step: int, args: argparse.Namespace) -> float:
    """The factor on the learning rate at `step`."""
    if step < args.warm_up:
        return (step + 1) / args.warm_up
    done = (step - args.warm_up) / max(1, args.steps - args.warm_up)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done)))


@torch.no_grad()
def sample(
    model: GPT, prompt: str, length: int, device: torch.device, temperature: float = 0.8
) -> str:
    """Continue `prompt` by `length` bytes.

    The window always has the full context, with the text at its left: one shape, hence one program.
    """
    model.eval()
    tokens = list(prompt.encode())
    generator = torch.Generator().manual_seed(0)
    for _ in range(length):
        recent = tokens[-model.shape.context :]
        window = torch.zeros(1, model.shape.context, dtype=torch.int64)
        window[0, : len(recent)] = torch.tensor(recent)
        logits = model(window.to(device)).cpu()[0, len(recent) - 1]
        probabilities = F.softmax(logits / temperature, dim=-1)
        tokens.append(int(torch.multinomial(probabilities, 1, generator=generator)))
    return bytes(tokens).decode(errors="replace")


@dataclass
class History:
    """The loss of every training step (the mean over its accumulated batches), and the sample."""

    losses: list[float] = field(default_factory=list)
    text: str = ""


def train(args: argparse.Namespace) -> History:
    """Train with the options of `parse`, and return the history of the run."""
    device = torch.device(args.device)
    console = Console(quiet=args.quiet)
    torch.manual_seed(args.seed)
    model = GPT(Shape(dropout=args.dropout)).to(device)
    data = batches(standard_library(), args.batch_size, model.shape.context, args.seed)
    optimizer = make_optimizer(model, args)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: warm_up_then_cosine(step, args)
    )
    console.print(f"{sum(p.numel() for p in model.parameters()):,} parameters on {device}")

    history = History()
    with Progress(console=console) as progress:
        task = progress.add_task("training", total=args.steps)
        for _ in range(args.steps):
            total = torch.zeros((), device=device)
            for _ in range(args.accumulate):
                tokens, targets = next(data)
                logits = model(tokens.to(device))
                loss = F.cross_entropy(logits.view(-1, VOCABULARY), targets.to(device).reshape(-1))
                (loss / args.accumulate).backward()
                total += loss.detach() / args.accumulate
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            history.losses.append(total.item())
            progress.update(task, advance=1, description=f"loss {history.losses[-1]:.3f}")

    history.text = sample(model, "def ", args.sample, device)
    console.print(f"\nfinal loss {history.losses[-1]:.3f}; the model writes:\n")
    console.print(history.text, markup=False, highlight=False)
    return history


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line; every option has a default."""
    parser = argparse.ArgumentParser(
        description="Train a byte-level GPT on Python's standard library."
    )
    parser.add_argument("--device", choices=["cpu", "ftm"], default="ftm", help="where to train")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument(
        "--accumulate", type=int, default=2, help="batches whose gradients make one step"
    )
    parser.add_argument("--lr", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument(
        "--warm-up", type=int, default=20, help="steps until the highest learning rate"
    )
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--sample", type=int, default=200, help="bytes to write at the end")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    return parser.parse_args(argv)


if __name__ == "__main__":
    train(parse())
