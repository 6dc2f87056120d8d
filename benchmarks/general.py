"""Speed of dynamic-shape programs relative to static ones: ten models, five sizes each.

    python benchmarks/general.py [--only gpt2 lstm ...] [--rounds 3]

The dynamic-shape program is made from steps at two other sizes. Each round measures its
specializations and then, after dropping all programs, static programs of each size, in one process.
The minimum over all steps and rounds counts. Ratios of one run are comparable, seconds are not.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

os.environ["FTM_CACHE_DIR"] = "off"

import torch
import torch.nn.functional as F
from programs.language import VOCABULARY, WIDTH, Language, transformer
from programs.steps import minimize
from torch import Tensor, nn
from training import TASKS

import ftm_lazy
from ftm_lazy.compile.compile_client import client

Sized = Callable[[int], Callable[[], float]]
"""Function from a size to a training step on a batch of that size."""

FIRST, LENGTHS, ROWS = (20, 60), (9, 18, 33, 47, 120), (5, 12, 24, 33, 64)
"""Sizes from which the dynamic-shape program is made; measured sequence lengths and batch sizes."""


def trained(model: nn.Module, batch: Callable[[int], tuple[Tensor, Tensor]]) -> Sized:
    """Return training steps with AdamW on random batches (inputs, classes or target values)."""
    model = model.to("ftm")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def sized(size: int) -> Callable[[], float]:
        inputs, targets = (tensor.to("ftm") for tensor in batch(size))

        def step() -> float:
            outputs = model(inputs)
            loss = (
                F.mse_loss(outputs, targets)
                if targets.is_floating_point()
                else F.cross_entropy(outputs.flatten(0, -2), targets.flatten())
            )
            minimize(optimizer, loss)
            return loss.item()

        return step

    return sized


def tokens(rows: int, most: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    """Return batches of `rows` random token sequences, with tokens below `most`."""
    return lambda length: (torch.randint(most, (rows, length)), torch.randint(most, (rows, length)))


def images(*shape: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    """Return batches of random images of ten classes."""
    return lambda rows: (torch.randn(rows, *shape), torch.randint(10, (rows,)))


def autoencoder() -> nn.Module:
    """Create an autoencoder of strided and transposed convolutions."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(16, 3, 4, 2, 1),
    )


def same(*shape: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    """Return random batches whose targets are the inputs."""

    def batch(rows: int) -> tuple[Tensor, Tensor]:
        inputs = torch.randn(rows, *shape)
        return inputs, inputs

    return batch


def llama() -> Sized:
    """Return inference steps of a small Llama on a prompt."""
    from transformers import LlamaConfig, LlamaModel

    model = (
        LlamaModel(
            LlamaConfig(
                vocab_size=128,
                hidden_size=128,
                intermediate_size=256,
                num_hidden_layers=4,
                num_attention_heads=4,
                num_key_value_heads=2,
                use_cache=False,
            )
        )
        .to("ftm")
        .eval()
    )

    def sized(length: int) -> Callable[[], float]:
        prompt = torch.randint(128, (1, length)).to("ftm")

        @torch.no_grad()
        def step() -> float:
            return model(prompt).last_hidden_state.sum().item()

        return step

    return sized


MODELS: dict[str, tuple[Callable[[], Sized], tuple[int, ...]]] = {
    "mlp": (lambda: trained(TASKS["mlp"].model(), images(64)), ROWS),
    "cnn": (lambda: trained(TASKS["cnn"].model(), images(1, 8, 8)), ROWS),
    "resnet18": (lambda: trained(TASKS["resnet18"].model(), images(3, 32, 32)), ROWS),
    "autoencoder": (lambda: trained(autoencoder(), same(3, 32, 32)), ROWS),
    "encoder": (
        lambda: trained(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), same(16, 64)),
        ROWS,
    ),
    "transformer": (lambda: trained(Language(transformer()), tokens(8, VOCABULARY)), LENGTHS),
    "gpt2": (lambda: trained(TASKS["gpt2"].model(), tokens(4, 5000)), LENGTHS),
    "lstm": (
        lambda: trained(Language(nn.LSTM(WIDTH, WIDTH, batch_first=True)), tokens(8, VOCABULARY)),
        LENGTHS,
    ),
    "gru": (
        lambda: trained(Language(nn.GRU(WIDTH, WIDTH, 2, batch_first=True)), tokens(8, VOCABULARY)),
        LENGTHS,
    ),
    "llama": (llama, LENGTHS),
}


def best(step: Callable[[], float], steps: int = 12) -> float:
    """Return the seconds of the fastest step, without the first two.

    These compile, and create the optimizer's state.
    """
    seconds = []
    for _ in range(steps + 2):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return min(seconds[2:])


def forget() -> None:
    """Drop all programs, so that the next trace of each family is compiled statically."""
    ftm_lazy._C._reset()
    client().forget_programs()


def compare(name: str, rounds: int) -> list[float]:
    """Return for each size the time of a dynamic-shape step relative to a static one."""
    make, sizes = MODELS[name]
    torch.manual_seed(0)
    sized = make()
    sized(FIRST[0])()  # creates the optimizer's state
    general, special = dict.fromkeys(sizes, float("inf")), dict.fromkeys(sizes, float("inf"))
    for _ in range(rounds):
        forget()
        for size in FIRST:
            best(sized(size), 2)
        ftm_lazy.metrics.reset()
        for size in sizes:
            general[size] = min(general[size], best(sized(size)))
        if ftm_lazy.metrics.counters()["compiles"]:
            print(
                f"{name}: {ftm_lazy.metrics.counters()['compiles']} programs more for these sizes",
                flush=True,
            )
        for size in sizes:
            forget()
            special[size] = min(special[size], best(sized(size)))
    print(
        f"{name:12}"
        + "".join(
            f"  {size:3}: {1e3 * general[size]:7.2f} / {1e3 * special[size]:7.2f}" for size in sizes
        ),
        flush=True,
    )
    return [general[size] / special[size] for size in sizes]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        nargs="*",
        choices=MODELS,
        default=list(MODELS),
        metavar="MODEL",
        help=", ".join(MODELS),
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("model, and for each size the milliseconds of a general step / of one compiled for it")
    ratios: list[float] = []
    for name in options.only:
        own = compare(name, options.rounds)
        shown = " ".join(f"{ratio:.2f}" for ratio in own)
        print(f"{'':12}  ratio {shown}  median {statistics.median(own):.2f}", flush=True)
        ratios += own
    print(f"median of {len(ratios)}: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
