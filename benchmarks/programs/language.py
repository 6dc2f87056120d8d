"""Language models: samples of nanoGPT's, training and samples of minGPT's, lengths that vary,
experts."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .steps import minimize

__all__ = ["PROGRAMS", "Block", "Language", "lengths", "trained"]

VOCABULARY, WIDTH, BATCH = 65, 64, 8


class Block(nn.Module):
    """A transformer's layer."""

    def __init__(self, width: int = WIDTH, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm(x)).chunk(3, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Tokens to logits, with learned positions."""

    def __init__(self, layers: int, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], dtype=torch.long, device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))

    @torch.no_grad()
    def generate(self, tokens: Tensor, count: int, top_k: int = 20) -> Tensor:
        """Appends tokens one by one, as nanoGPT and minGPT do."""
        for _ in range(count):
            logits = self(tokens[:, -self.context :])[:, -1] / 0.8
            least = torch.topk(logits, top_k).values
            logits[logits < least[:, [-1]]] = -float("inf")
            tokens = torch.cat(
                (tokens, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1
            )
        return tokens


def sample(count: int) -> Callable[[str], Callable[[], Tensor]]:
    """nanoGPT's ``sample.py`` with the model of its Shakespeare example, one sample."""

    def make(device: str) -> Callable[[], Tensor]:
        model = GPT(6, 384, 6, 256).to(device).eval()
        return lambda: model.generate(torch.zeros(1, 1, dtype=torch.long, device=device), count)

    return make


def chargpt(device: str) -> Callable[[], Tensor]:
    """minGPT's ``chargpt``: 30 steps of its "gpt-micro", the loss read every 10, and a sample of
    200."""
    model = GPT(4, 128, 4, 128).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.95))

    def run() -> Tensor:
        for k in range(30):
            tokens = torch.randint(VOCABULARY, (16, 129)).to(device)
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            model.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if k % 10 == 0:
                loss.item()
        return model.generate(torch.zeros(1, 8, dtype=torch.long, device=device), 200)

    return run


class Language(nn.Module):
    """Tokens to logits, through ``body``."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.embedding, self.body, self.head = (
            nn.Embedding(VOCABULARY, WIDTH),
            body,
            nn.Linear(WIDTH, VOCABULARY),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        made = self.body(self.embedding(tokens))
        return self.head(made[0] if isinstance(made, tuple) else made)


def lengths(count: int) -> list[int]:
    """Different lengths from 5 to 64, in no order."""
    return [
        int(n) + 5 for n in torch.randperm(60, generator=torch.Generator().manual_seed(1))[:count]
    ]


def trained(
    body: Callable[[], nn.Module], sizes: list[int]
) -> Callable[[str], Callable[[], Tensor]]:
    """A step for each length, each loss read."""

    def make(device: str) -> Callable[[], Tensor]:
        model = Language(body()).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def run() -> Tensor:
            for length in sizes:
                tokens = torch.randint(VOCABULARY, (BATCH, length + 1)).to(device)
                loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
                minimize(optimizer, loss)
                loss.item()
            return loss

        return run

    return make


def transformer() -> nn.Module:
    """Four layers."""
    return nn.Sequential(*(Block(WIDTH) for _ in range(4)))


def growing(device: str) -> Callable[[], Tensor]:
    """100 tokens, each read, from all that came before."""
    model = Language(transformer()).to(device)

    @torch.no_grad()
    def run() -> Tensor:
        tokens = torch.zeros(1, 1, dtype=torch.long, device=device)
        for _ in range(100):
            chosen = model(tokens)[:, -1].argmax(1, keepdim=True)
            tokens = torch.cat((tokens, chosen), dim=1)
            chosen.item()
        return tokens

    return run


def mixtral(device: str) -> Callable[[], Tensor]:
    """25 steps of a small Mixtral, as transformers writes it: how many tokens an expert gets
    varies."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=64,
    )
    model = MixtralForCausalLM(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def run() -> Tensor:
        for _ in range(25):
            tokens = torch.randint(128, (4, 32)).to(device)
            loss: Tensor = model(tokens, labels=tokens).loss
            minimize(optimizer, loss)
            if not math.isfinite(loss.item()):
                raise ValueError("the loss is not finite")
        return loss

    return run


PROGRAMS = {
    "sample_100": sample(100),
    "sample_500": sample(500),
    "chargpt": chargpt,
    "transformer_lengths": trained(transformer, lengths(30) * 3),
    "growing": growing,
    "mixtral": mixtral,
}
