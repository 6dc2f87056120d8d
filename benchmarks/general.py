"""Steps of general programs beside those of programs that were compiled for one size: ten models,
five sizes each.

    python benchmarks/general.py [--only gpt2 lstm ...] [--rounds 3]

The general program is made from steps at two other sizes. Each round times its instances and then,
with all programs forgotten, programs for each size alone, in one process; of each the best of some
steps in all rounds counts. Ratios of one run are comparable, seconds are not.
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
"""From a size to a step on a batch of that size."""

FIRST, LENGTHS, ROWS = (20, 60), (9, 18, 33, 47, 120), (5, 12, 24, 33, 64)
"""What a general program is made from; the sizes that are timed, of sequences and of batches."""


def trained(model: nn.Module, batch: Callable[[int], tuple[Tensor, Tensor]]) -> Sized:
    """Steps with AdamW on random batches of a size: inputs, and classes or numbers to come to."""
    model = model.to("ftm")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def sized(size: int) -> Callable[[], float]:
        inputs, wanted = (tensor.to("ftm") for tensor in batch(size))

        def step() -> float:
            made = model(inputs)
            loss = (
                F.mse_loss(made, wanted)
                if wanted.is_floating_point()
                else F.cross_entropy(made.flatten(0, -2), wanted.flatten())
            )
            minimize(optimizer, loss)
            return loss.item()

        return step

    return sized


def tokens(rows: int, most: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    """Random tokens below ``most``: so many rows of a length."""
    return lambda length: (torch.randint(most, (rows, length)), torch.randint(most, (rows, length)))


def images(*shape: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    """A batch of random images of ten classes."""
    return lambda rows: (torch.randn(rows, *shape), torch.randint(10, (rows,)))


def autoencoder() -> nn.Module:
    """Strided convolutions down and up again."""
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
    """A random batch that is to come to itself."""

    def batch(rows: int) -> tuple[Tensor, Tensor]:
        made = torch.randn(rows, *shape)
        return made, made

    return batch


def llama() -> Sized:
    """A prompt of a length through a small Llama, without gradients."""
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
    """The seconds of the fastest step, the first two left out: they compile, and make the
    optimizer's state."""
    seconds = []
    for _ in range(steps + 2):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return min(seconds[2:])


def forget() -> None:
    """Forgets all programs: the next trace of each kind is compiled for its sizes alone."""
    ftm_lazy._C._clear_programs()
    client().forget_programs()


def compare(name: str, rounds: int) -> list[float]:
    """For each size the ratio of a general step to one that was compiled for it."""
    make, sizes = MODELS[name]
    torch.manual_seed(0)
    sized = make()
    sized(FIRST[0])()  # the optimizer's state is there
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
    """Command line."""
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
        here = compare(name, options.rounds)
        print(
            f"{'':12}  ratio {' '.join(f'{ratio:.2f}' for ratio in here)}  median {statistics.median(here):.2f}",
            flush=True,
        )
        ratios += here
    print(f"median of {len(ratios)}: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
