"""Training steps of the models that benchmarks of `torch.compile` use.

    task = training.TASKS["resnet18"]
    step = training.make_step(task, "ftm", lambda model: torch.compile(model, backend="ftm"))

The models have no dropout, whose masks would differ between devices, and everything is seeded, so
losses can be compared.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import digits
import tiny_gpt

__all__ = ["TASKS", "Batch", "Logits", "Task", "gpt", "make_step", "token_batches"]

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Task:
    """A model and its training data.

    Attributes:
        model: Creates the model, with parameters from the default generator.
        batches: Yields endless pairs of inputs and targets. The model's result has the targets'
            shape and a last dimension of classes.
        rate: Learning rate of AdamW.
    """

    model: Callable[[], nn.Module]
    batches: Callable[[], Iterator[Batch]]
    rate: float = 1e-3


class Logits(nn.Module):
    """Wrapper of a transformers model that returns only the logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        return self.model(inputs).logits


def resnet18() -> nn.Module:
    """Create a ResNet-18 with ten classes."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=64,
        hidden_sizes=[64, 128, 256, 512],
        depths=[2, 2, 2, 2],
        layer_type="basic",
        num_labels=10,
    )
    return Logits(ResNetForImageClassification(config))


def gpt(width: int, heads: int) -> nn.Module:
    """Create a GPT-2 with four layers and a vocabulary of 5,000."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {
        "vocab_size": 5000,
        "n_positions": 128,
        "n_embd": width,
        "n_layer": 4,
        "n_head": heads,
        "use_cache": False,
    }
    return Logits(
        GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
    )


def digit_batches() -> Iterator[Batch]:
    """Yield batches of 64 images of digits."""
    images, labels = digits.digits()[0][:]
    for start in itertools.cycle(range(0, len(labels) - 63, 64)):
        yield images[start : start + 64], labels[start : start + 64]


def text_batches() -> Iterator[Batch]:
    """Yield batches of 16 rows of 64 bytes of Python's library."""
    return tiny_gpt.batches(tiny_gpt.standard_library(0.1), 16, tiny_gpt.Shape().context, seed=0)


def coloured_batches() -> Iterator[Batch]:
    """Yield batches of 16 noisy color images of 32x32 whose mean depends on the class."""
    generator = torch.Generator().manual_seed(1)
    means = torch.randn(10, 3, 1, 1, generator=generator)
    while True:
        labels = torch.randint(10, (16,), generator=generator)
        yield means[labels] + 0.5 * torch.randn(16, 3, 32, 32, generator=generator), labels


def token_batches() -> Iterator[Batch]:
    """Yield batches of 8 rows of 128 tokens; each token determines the next one."""
    generator = torch.Generator().manual_seed(1)
    after = torch.randperm(5000, generator=generator)
    while True:
        rows = [torch.randint(5000, (8, 1), generator=generator)]
        for _ in range(128):
            rows.append(after[rows[-1]])
        tokens = torch.cat(rows, 1)
        yield tokens[:, :-1], tokens[:, 1:]


TASKS = {
    "mlp": Task(lambda: digits.MLP(dropout=0.0), digit_batches),
    "cnn": Task(lambda: digits.CNN(dropout=0.0), digit_batches),
    "tiny_gpt": Task(lambda: tiny_gpt.GPT(tiny_gpt.Shape()), text_batches),
    "resnet18": Task(resnet18, coloured_batches, rate=1e-4),
    "gpt2": Task(lambda: gpt(256, 4), token_batches, rate=1e-4),
}
"""Name to task, fast ones first.

ResNet-18 is chaotic in float32: eager PyTorch with and without oneDNN differs by 1e-2 within four
steps. In float64 it is not: noise of 1e-16 in its images changes the loss by 4e-14 after 30 steps.
"""


def make_step(
    task: Task,
    device: str,
    compile: Callable[[nn.Module], Callable[[Tensor], Tensor]] = lambda model: model,
    dtype: torch.dtype = torch.float32,
    compile_update: Callable[[Callable[[], None]], Callable[[], None]] = lambda update: update,
    autocast: torch.dtype | None = None,
) -> Callable[[], float]:
    """Create a training step with AdamW on the next batch, which returns its loss.

    Args:
        task: The model and its data.
        device: Device of model and batches.
        compile: Wraps the model.
        dtype: dtype of parameters and floating-point inputs.
        compile_update: Wraps the optimizer's step.
        autocast: dtype of `torch.autocast` for model and loss; None: without.
    """
    torch.manual_seed(0)
    model = task.model().to(device, dtype)
    call = compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=task.rate)
    update = compile_update(optimizer.step)
    batches = task.batches()

    def step() -> float:
        inputs, targets = next(batches)
        optimizer.zero_grad()
        inputs = inputs.to(device, dtype) if inputs.is_floating_point() else inputs.to(device)
        with torch.autocast(torch.device(device).type, autocast, enabled=autocast is not None):
            logits = call(inputs)
            loss = F.cross_entropy(
                logits.reshape(-1, logits.shape[-1]), targets.to(device).reshape(-1)
            )
        loss.backward()
        update()
        return loss.item()

    return step
