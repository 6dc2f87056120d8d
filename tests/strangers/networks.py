"""Campaign ``networks``: one training step of random small networks of every family, on every
machine preset."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from random import Random

import campaign
import presets
import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHANNELS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
SIDES = (5, 6, 7, 8, 9, 12, 14, 16, 17, 24, 28)
BATCHES = (1, 1, 2, 3, 4, 7, 8)
WIDTHS = (3, 5, 8, 10, 16, 17, 32, 33, 48, 64, 100, 130)

Inputs = list[Tensor]
Network = tuple[nn.Module, Inputs]


class Residual(nn.Module):
    """``inner(x) + shortcut(x)``, then an activation."""

    def __init__(self, inner: nn.Module, shortcut: nn.Module, activation: nn.Module) -> None:
        super().__init__()
        self.inner, self.shortcut, self.activation = inner, shortcut, activation

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.inner(x) + self.shortcut(x))


class Apply(nn.Module):
    """A function of the input as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Last(nn.Module):
    """The first of several results: the sequence that a recurrent layer gives."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


class Attention(nn.Module):
    """Attention by hand or by PyTorch's function, causal or not, with a residual connection."""

    def __init__(self, width: int, heads: int, causal: bool, by_hand: bool) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal, self.by_hand = heads, causal, by_hand

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            t.view(batch, length, self.heads, -1).transpose(1, 2)
            for t in self.project(x).chunk(3, -1)
        )
        if self.by_hand:
            scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
            if self.causal:
                scores = scores.masked_fill(
                    torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1),
                    float("-inf"),
                )
            y = scores.softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return x + self.out(y.transpose(1, 2).reshape(batch, length, width))


def activation(random: Random) -> nn.Module:
    """An activation of any kind."""
    return random.choice(
        (
            nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.ELU, nn.Hardswish,
            nn.Softplus, nn.Identity,
        )
    )()  # fmt: skip


def norm(random: Random, channels: int, dims: int) -> nn.Module:
    """A normalization of any kind over tensors of (batch, channels, places)."""
    groups = random.choice([n for n in range(1, channels + 1) if channels % n == 0])
    batch, instance = (
        (nn.BatchNorm1d, nn.InstanceNorm1d) if dims == 1 else (nn.BatchNorm2d, nn.InstanceNorm2d)
    )
    return random.choice(
        (
            lambda: batch(channels),
            lambda: batch(channels),
            lambda: batch(channels, track_running_stats=False),
            lambda: instance(channels, affine=random.random() < 0.5),
            lambda: nn.GroupNorm(groups, channels),
            nn.Identity,
        )
    )()


def convolution(random: Random, channels: int, out: int, dims: int, stride: int = 1) -> nn.Module:
    """A convolution that keeps the places or divides them by ``stride``: grouped, dilated or
    plain."""
    groups = (
        random.choice([n for n in range(1, channels + 1) if channels % n == 0 and out % n == 0])
        if random.random() < 0.4
        else 1
    )
    kernel, dilation = random.choice((1, 3, 3, 5)), random.choice((1, 1, 2))
    padding = dilation * (kernel - 1) // 2
    layer = nn.Conv1d if dims == 1 else nn.Conv2d
    return layer(
        channels, out, kernel, stride, padding, dilation, groups, bias=random.random() < 0.5
    )


def pooling(random: Random, dims: int) -> nn.Module:
    """A pooling that about halves the places."""
    kernel, stride = random.choice(((2, 2), (3, 2), (3, 3)))
    largest, average = (nn.MaxPool1d, nn.AvgPool1d) if dims == 1 else (nn.MaxPool2d, nn.AvgPool2d)
    return random.choice(
        (lambda: largest(kernel, stride, kernel // 2), lambda: average(kernel, stride, kernel // 2))
    )()


def head(random: Random, channels: int, dims: int) -> nn.Module:
    """What classifies images: a global mean or maximum, or what is left of the places."""
    places = tuple(range(2, 2 + dims))
    gather = random.choice(
        (lambda x: x.mean(places), lambda x: x.amax(places), lambda x: x.flatten(2).mean(2))
    )
    return nn.Sequential(Apply(gather), nn.Linear(channels, random.choice(WIDTHS)))


def mlp(random: Random) -> Network:
    """Linear layers with normalizations."""
    widths = [random.choice(WIDTHS) for _ in range(random.randint(2, 5))]
    batch, layers = random.choice((2, 3, 8, 16, 33)), []
    for a, b in pairwise(widths):
        layers += [
            nn.Linear(a, b, bias=random.random() < 0.7),
            random.choice((nn.LayerNorm, nn.BatchNorm1d, nn.RMSNorm))(b),
        ]
        layers += [activation(random)]
    return nn.Sequential(*layers), [torch.randn(batch, widths[0])]


def block(random: Random, channels: int, out: int, dims: int, stride: int) -> nn.Module:
    """A convolution with norm and activation, or a residual block."""
    if random.random() < 0.5:
        return nn.Sequential(
            convolution(random, channels, out, dims, stride),
            norm(random, out, dims),
            activation(random),
        )
    inner = nn.Sequential(
        convolution(random, channels, out, dims, stride),
        norm(random, out, dims),
        activation(random),
        convolution(random, out, out, dims),
        norm(random, out, dims),
    )
    layer = nn.Conv1d if dims == 1 else nn.Conv2d
    shortcut = nn.Sequential(layer(channels, out, 1, stride, bias=False), norm(random, out, dims))
    plain = channels == out and stride == 1
    return Residual(inner, nn.Identity() if plain else shortcut, activation(random))


def cnn(random: Random) -> Network:
    """Convolutions of one or two dimensions, residual blocks, poolings."""
    dims, batch, channels = (
        random.choice((1, 2, 2, 2)),
        random.choice(BATCHES),
        random.choice((1, 3, 4)),
    )
    places = [random.choice(SIDES) * (4 if dims == 1 else 1) for _ in range(dims)]
    x = torch.randn(batch, channels, *places)
    layers: list[nn.Module] = []
    for _ in range(random.randint(1, 3)):
        out = random.choice(CHANNELS)
        layers.append(block(random, channels, out, dims, random.choice((1, 1, 2))))
        channels = out
        if random.random() < 0.3:
            layers.append(pooling(random, dims))
    if random.random() < 0.7:
        layers.append(head(random, channels, dims))
    return nn.Sequential(*layers), [x]


def autoencoder(random: Random) -> Network:
    """Strided convolutions and transposed ones."""
    channels, inside, batch = random.choice((1, 3)), random.choice(CHANNELS), random.choice(BATCHES)
    kernel, stride = random.choice(((2, 2), (3, 2), (4, 2), (3, 1), (3, 3)))
    return nn.Sequential(
        nn.Conv2d(channels, inside, 3, 2, 1),
        norm(random, inside, 2),
        activation(random),
        nn.ConvTranspose2d(inside, channels, kernel, stride, kernel // 2, groups=1),
        activation(random),
        random.choice(
            (
                nn.Identity,
                lambda: nn.Upsample(scale_factor=2),
                lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
            )
        )(),
    ), [torch.randn(batch, channels, random.choice(SIDES), random.choice(SIDES))]


def transformer(random: Random) -> Network:
    """Attention with feed-forward layers."""
    heads = random.choice((1, 2, 4))
    width, length, batch = (
        heads * random.choice((4, 8, 16, 20)),
        random.choice((1, 3, 8, 16, 17, 40)),
        random.choice(BATCHES),
    )
    layers: list[nn.Module] = []
    for _ in range(random.randint(1, 2)):
        kind = random.randrange(2)
        if kind == 0:
            layer = nn.TransformerEncoderLayer(
                width,
                heads,
                2 * width,
                0.0,
                random.choice(("relu", "gelu")),
                batch_first=True,
                norm_first=random.random() < 0.5,
            )
            layers.append(layer)
        else:
            feed = nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 2 * width),
                activation(random),
                nn.Linear(2 * width, width),
            )
            layers += [
                Attention(width, heads, random.random() < 0.5, random.random() < 0.5),
                Residual(feed, nn.Identity(), nn.Identity()),
            ]
    return nn.Sequential(*layers), [torch.randn(batch, length, width)]


def recurrent(random: Random) -> Network:
    """Recurrent layers of every kind."""
    width, hidden, length, batch = (
        random.choice((3, 8, 16)),
        random.choice((4, 8, 17, 32)),
        random.choice((1, 3, 6)),
        random.choice(BATCHES),
    )
    kind = random.choice((nn.RNN, nn.LSTM, nn.GRU))
    both, layers = random.random() < 0.3, random.choice((1, 1, 2))
    layer = kind(width, hidden, layers, batch_first=True, bidirectional=both)
    return nn.Sequential(Last(layer), nn.Linear(hidden * (1 + both), 5)), [
        torch.randn(batch, length, width)
    ]


def embedding(random: Random) -> Network:
    """Embeddings with what follows them."""
    entries, width, batch, length = (
        random.choice((5, 16, 100)),
        random.choice(WIDTHS),
        random.choice(BATCHES),
        random.choice((1, 4, 9)),
    )
    first = (
        nn.EmbeddingBag(entries, width, mode="mean")
        if random.random() < 0.3
        else nn.Embedding(entries, width)
    )
    last = [nn.LayerNorm(width), nn.Linear(width, random.choice(WIDTHS)), activation(random)]
    return nn.Sequential(first, *last), [torch.randint(entries, (batch, length))]


FAMILIES = (mlp, cnn, cnn, cnn, autoencoder, transformer, recurrent, embedding)


def check(random: Random) -> str | None:
    """Try a training step, or an evaluation, of one random network; return what is wrong with it,
    or None."""
    torch.manual_seed(random.getrandbits(32))
    network, inputs = random.choice(FAMILIES)(random)
    dtype = random.choice(presets.DTYPES)
    trains, steps = random.random() < 0.8, random.random() < 0.4
    network.train(trains)

    def run(device: str, dtype: torch.dtype) -> list[Tensor]:
        model = copy.deepcopy(network).to(dtype).to(device)
        given = [x.clone().to(device, dtype if x.is_floating_point() else x.dtype) for x in inputs]
        if not trains:
            with torch.no_grad():
                return [model(*given)]
        leaves = [x.requires_grad_() for x in given if x.is_floating_point()]
        optimizer = (
            torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            if steps and list(model.parameters())
            else None
        )
        result = model(*given)
        loss = (result * result).mean()
        loss.backward()
        gradients = [p.grad for p in (*leaves, *model.parameters()) if p.grad is not None]
        if optimizer is not None:
            optimizer.step()
        return [
            result,
            loss,
            *gradients,
            *model.parameters(),
            *(b for b in model.buffers() if b.is_floating_point()),
        ]

    return presets.attempt(random, dtype, run, compares=dtype != torch.bfloat16)


if __name__ == "__main__":
    campaign.main("networks", check, count=4000)
