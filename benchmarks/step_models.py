"""The models whose training steps the page on performance compares: `MODELS`.

They are small enough for a laptop, and cover what people train: dense layers, convolutions,
attention, recurrence, embeddings. `training` has those that other benchmarks use, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from training import TASKS, Batch, Logits, Task, gpt, token_batches

__all__ = ["MODELS"]


class UNet(nn.Module):
    """Segmentation into four classes, with three levels and skip connections."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        sizes = [3, width, 2 * width, 4 * width]
        self.down = nn.ModuleList(_block(*pair) for pair in itertools.pairwise(sizes))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * n, n, 2, stride=2) for n in (2 * width, width)
        )
        self.join = nn.ModuleList(_block(2 * n, n) for n in (2 * width, width))
        self.head = nn.Conv2d(width, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for level, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, reversed(kept[:-1]), strict=True):
            x = join(torch.cat([up(x), skip], 1))
        return self.head(x).movedim(1, -1)


def _block(before: int, after: int) -> nn.Sequential:
    layers = [
        [nn.Conv2d(n, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        for n in (before, after)
    ]
    return nn.Sequential(*layers[0], *layers[1])


class RecurrentLanguageModel(nn.Module):
    """Two LSTM layers between an embedding and a linear layer."""

    def __init__(self, vocabulary: int = 5000, width: int = 256) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.lstm(self.embed(tokens))[0])


class Recommender(nn.Module):
    """DLRM: 13 numbers and 8 categories, whose embeddings meet in pairwise products."""

    def __init__(self, categories: int = 2000, width: int = 32) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(categories, width) for _ in range(8))
        self.bottom = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(width + 36, 256), nn.ReLU(), nn.Linear(256, 2))
        self.register_buffer("pairs", torch.triu_indices(9, 9, 1))

    def forward(self, x: Tensor) -> Tensor:
        dense, kinds = self.bottom(x[:, :13]), x[:, 13:].long()
        rows = [table(kinds[:, k]) for k, table in enumerate(self.tables)]
        joined = torch.stack([dense, *rows], 1)
        products = (joined @ joined.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([dense, products], 1))


def _mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for pair in itertools.pairwise(sizes):
        layers += [nn.Linear(*pair), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _resnet50() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    return Logits(ResNetForImageClassification(ResNetConfig(num_labels=10)))


def _bert() -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    sizes = {
        "vocab_size": 5000,
        "hidden_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    }
    config = BertConfig(**sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return Logits(BertForMaskedLM(config))


def _vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {
        "image_size": 64,
        "patch_size": 8,
        "hidden_size": 192,
        "num_hidden_layers": 6,
        "num_attention_heads": 3,
        "intermediate_size": 768,
    }
    config = ViTConfig(**sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config.num_labels = 10
    return Logits(ViTForImageClassification(config))


def _random(
    make: Callable[[torch.Generator], Tensor], classes: int, targets: tuple[int, ...]
) -> Callable[[], Iterator[Batch]]:
    """Return a function that yields four random batches again and again."""

    def batches() -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(1)
        made = [
            (make(generator), torch.randint(classes, targets, generator=generator))
            for _ in range(4)
        ]
        return itertools.cycle(made)

    return batches


def _normal(*shape: int) -> Callable[[torch.Generator], Tensor]:
    return lambda generator: torch.randn(shape, generator=generator)


def _mixed(generator: torch.Generator) -> Tensor:
    """Return rows of 13 numbers and 8 categories."""
    kinds = torch.randint(2000, (256, 8), generator=generator)
    return torch.cat([torch.randn(256, 13, generator=generator), kinds.float()], 1)


MODELS: dict[str, Task] = {
    "MLP 784-128-10, batch 64": Task(
        lambda: _mlp(784, 128, 10), _random(_normal(64, 784), 10, (64,))
    ),
    "MLP 1024-2048-2048-1000, batch 64": Task(
        lambda: _mlp(1024, 2048, 2048, 1000), _random(_normal(64, 1024), 1000, (64,))
    ),
    "CNN on digits, 64x1x8x8": TASKS["cnn"],
    "ResNet-18, 16x3x32x32": TASKS["resnet18"],
    "ResNet-50, 4x3x224x224": Task(_resnet50, _random(_normal(4, 3, 224, 224), 10, (4,)), 1e-4),
    "U-Net, 4x3x96x96": Task(UNet, _random(_normal(4, 3, 96, 96), 4, (4, 96, 96))),
    "ViT, 6 layers of 192, 16x3x64x64": Task(
        _vit, _random(_normal(16, 3, 64, 64), 10, (16,)), 1e-4
    ),
    "BERT, 4 layers of 256, 8x128 tokens": Task(_bert, token_batches, 1e-4),
    "GPT, 4 layers of 256, 8x128 tokens": TASKS["gpt2"],
    "GPT, 4 layers of 768, 8x128 tokens": Task(lambda: gpt(768, 12), token_batches, 1e-4),
    "LSTM language model, 8x128 tokens": Task(RecurrentLanguageModel, token_batches),
    "DLRM, batch 256": Task(Recommender, _random(_mixed, 2, (256,))),
}
"""Name with the batch's shape -> task."""
