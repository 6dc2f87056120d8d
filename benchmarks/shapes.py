"""Programs whose sizes vary: what they cost on ftm from an empty cache and with a full one, beside the CPU.

    python benchmarks/shapes.py [--only lstm ...] [--json]
    python benchmarks/shapes.py --general

Each runs in processes of its own: on ftm with an empty cache, again with what that left, and on the CPU. Beside the seconds
stand the programs that were compiled, and the instances that were made of general ones.

``--general``: a training step of a transformer at lengths that a general program serves, beside one that was compiled for that length
alone; each in a process of its own, one after the other, the best of several steps. Ratios of one run are comparable, seconds are not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from long_loops import Block
from torch import Tensor, nn

VOCABULARY, WIDTH, BATCH = 65, 64, 8
LIMIT = 900.0  # seconds for one process


class Language(nn.Module):
    """Tokens to logits, through ``body``."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.embedding, self.body, self.head = nn.Embedding(VOCABULARY, WIDTH), body, nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        made = self.body(self.embedding(tokens))
        return self.head(made[0] if isinstance(made, tuple) else made)


def lengths(count: int) -> list[int]:
    """Different lengths from 5 to 64, in no order."""
    return [int(n) + 5 for n in torch.randperm(60, generator=torch.Generator().manual_seed(1))[:count]]


def trained(body: Callable[[], nn.Module], device: str, sizes: list[int]) -> Callable[[], None]:
    """A step for each length."""
    model = Language(body()).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run() -> None:
        for length in sizes:
            tokens = torch.randint(VOCABULARY, (BATCH, length + 1)).to(device)
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()

    return run


def transformer() -> nn.Module:
    """Four layers."""
    return nn.Sequential(*(Block(WIDTH) for _ in range(4)))


def lstm() -> nn.Module:
    """Two layers."""
    return nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)


def packed(device: str) -> Callable[[], None]:
    """An LSTM on packed batches, of other lengths each time."""
    net = nn.LSTM(WIDTH, WIDTH).to(device)

    def run() -> None:
        for longest in lengths(30):
            sizes = torch.randint(1, longest + 1, (BATCH,))
            sizes[0] = longest
            batch = torch.randn(longest, BATCH, WIDTH).to(device)
            net.zero_grad()
            net(nn.utils.rnn.pack_padded_sequence(batch, sizes, enforce_sorted=False))[1][0].square().mean().backward()
            net.weight_hh_l0.grad.sum().item()

    return run


def growing(device: str) -> Callable[[], None]:
    """100 tokens, each read, from all that came before."""
    model = Language(transformer()).to(device)

    @torch.no_grad()
    def run() -> None:
        tokens = torch.zeros(1, 1, dtype=torch.long, device=device)
        for _ in range(100):
            chosen = model(tokens)[:, -1].argmax(1, keepdim=True)
            tokens = torch.cat((tokens, chosen), dim=1)
            chosen.item()

    return run


PROGRAMS: dict[str, Callable[[str], Callable[[], None]]] = {
    "transformer": lambda device: trained(transformer, device, lengths(30) * 3),
    "lstm": lambda device: trained(lstm, device, lengths(30) * 3),
    "packed": packed,
    "growing": growing,
}


def measure(name: str, device: str) -> dict[str, float]:
    """Seconds of one run in this process, and what was compiled."""
    import ftm_lazy

    torch.manual_seed(0)
    if device != "cpu":
        torch.zeros(1, device=device).item()  # starts the compiler's process
        ftm_lazy.metrics.reset()
    run = PROGRAMS[name](device)
    begin = time.perf_counter()
    run()
    row: dict[str, float] = {"seconds": time.perf_counter() - begin}
    if device != "cpu":
        row |= {key: ftm_lazy.metrics.counters()[key] for key in ("compiles", "instances")}
    return row


def step_seconds(length: int, first: list[int]) -> dict[str, float]:
    """The best of some steps at ``length``, after steps at the lengths ``first``."""
    for size in [*first, length, length]:
        step = trained(transformer, "ftm", [size])
        step()
    seconds = []
    for _ in range(15):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return {"seconds": min(seconds)}


def child(cache: str, *words: str) -> dict[str, float]:
    """What this script measures in a process of its own."""
    command = [sys.executable, __file__, *words]
    done = subprocess.run(command, env=os.environ | {"FTM_CACHE_DIR": cache}, stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True)
    row: dict[str, float] = json.loads(done.stdout)
    return row


def compare(name: str) -> dict[str, float]:
    """A program's row of the table."""
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (child(cache, "--measure", name, "--device", "ftm") for _ in range(2))
        cpu = child(cache, "--measure", name, "--device", "cpu")
    return {"cold": cold["seconds"], "warm": warm["seconds"], "cpu": cpu["seconds"], "compiles": cold["compiles"],
            "instances": cold["instances"], "warm compiles": warm["compiles"]}


def compare_general() -> None:
    """Steps of general programs beside those of special ones."""
    ratios = []
    for length in (18, 24, 33, 40, 47, 56, 63):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            general = child(one, "--step", str(length), "--first", "20", "60")["seconds"]
            special = child(other, "--step", str(length))["seconds"]
        ratios.append(general / special)
        print(f"length {length:3}  general {general * 1e3:7.2f} ms  special {special * 1e3:7.2f} ms  ratio {ratios[-1]:.2f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--general", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--device", default="ftm", help=argparse.SUPPRESS)
    parser.add_argument("--step", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, nargs="*", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.device)))
    elif options.step:
        print(json.dumps(step_seconds(options.step, options.first)))
    elif options.general:
        compare_general()
    else:
        for name in options.only:
            row = compare(name)
            print(json.dumps({"program": name} | row) if options.json else
                  f"{name:12}" + "".join(f"  {key} {value:.4g}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
