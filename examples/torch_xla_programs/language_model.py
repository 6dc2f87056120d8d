"""A decoder-only language model whose training step is compiled with `torch_xla.compile`.

    python -m ftm_lazy.torch_xla examples/torch_xla_programs/language_model.py --steps 300

It learns to count: each sequence increases by a constant, modulo the size of the vocabulary.
"""

import argparse
import json

import torch
import torch_xla
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    """Attention to what came before, then two linear layers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attention(self.attention_norm(x)).view(
            batch, length, 3, self.heads, width // self.heads
        )
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.feed_norm(x))


class DecoderOnly(nn.Module):
    """Tokens to the logits of the tokens that follow."""

    def __init__(self, vocabulary, length, width, heads, layers):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Trainer:
    """A model, its optimizer, and the step that is compiled.

    Args:
        flags: the command line.
    """

    def __init__(self, flags):
        torch.manual_seed(0)
        self.flags = flags
        self.device = torch_xla.device()
        self.model = DecoderOnly(flags.vocabulary, flags.length, flags.width, 2, flags.layers).to(
            self.device
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=flags.lr)
        self.compiled_step = torch_xla.compile(self.step, full_graph=True, name="decoder_step")
        self.generator = torch.Generator().manual_seed(1)

    def batch(self):
        """Sequences [batch, length + 1]."""
        start = torch.randint(
            self.flags.vocabulary, (self.flags.batch_size, 1), generator=self.generator
        )
        stride = torch.randint(1, 4, (self.flags.batch_size, 1), generator=self.generator)
        return (start + stride * torch.arange(self.flags.length + 1)) % self.flags.vocabulary

    def step(self, tokens, target):
        """One step of training; gives the loss."""
        self.optimizer.zero_grad()
        logits = self.model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self):
        """The loss of each step."""
        losses = []
        for step in range(self.flags.steps):
            sequences = self.batch().to(self.device)
            losses.append(self.compiled_step(sequences[:, :-1], sequences[:, 1:]).detach())
            if step % self.flags.log_steps == 0:
                print(f"step {step:4d}  loss {losses[-1].item():.4f}")
        torch_xla.sync()
        return torch.stack(losses).tolist()


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(description="A decoder-only language model.")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--vocabulary", type=int, default=32)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--log-steps", type=int, default=10)
    parser.add_argument("--losses", help="file for the loss of each step, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    flags = parse()
    losses = Trainer(flags).train()
    if flags.losses:
        with open(flags.losses, "w") as file:
            json.dump(losses, file)
