"""Interrupts a training loop by pairs of Ctrl-C, and compares it with one that nothing interrupts.

    python tests/fuzz/interrupts.py [--pairs 2000] [--seed 0]

Each step waits for its result, in one of several ways, while two interrupts arrive: the second one
may come while the first one is handled. Some steps compile a new program. The wait is repeated
until it ends. Losses, and in the end parameters, must be finite and equal to the bit. A wait that takes longer
than `PATIENCE` counts as a hang: the process prints the stacks of its threads and ends.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import ftm_lazy
from ftm_lazy import _C

PATIENCE = 120.0  # seconds
NEW_PROGRAM = 0.15  # probability that a step is another program
SOON = 0.02  # seconds until the first interrupt, at most; a step takes some milliseconds
SOON_COMPILING = 0.4  # the same for a step that compiles
GAP = 0.004  # seconds between the two, at most

# bounded, so that no loss becomes NaN, which would hide later differences
FUNCTIONS = [torch.tanh, torch.sigmoid, torch.sin, torch.cos, torch.erf, torch.atan]


class Sender(threading.Thread):
    """Sends pairs of interrupts to the main thread."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._pairs: queue.SimpleQueue[tuple[float, float]] = queue.SimpleQueue()
        self._sent = threading.Event()

    def send(self, first: float, gap: float) -> None:
        """Send two interrupts, after `first` seconds and `gap` seconds later."""
        self._sent.clear()
        self._pairs.put((first, gap))

    def wait(self) -> None:
        """Wait until both are sent."""
        self._sent.wait()

    def run(self) -> None:
        """Send what is asked for."""
        while True:
            for delay in self._pairs.get():
                time.sleep(delay)
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            self._sent.set()


def repeat(action: Callable[[], object], sender: Sender | None) -> int:
    """Call `action`, again after each interrupt; return the number of interrupts."""
    caught = 0
    while True:
        try:
            try:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
                action()
                if sender is not None:
                    sender.wait()
                return caught
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        except KeyboardInterrupt:
            caught += 1


def train(steps: int, seed: int, interrupts: bool) -> dict[str, object]:
    """Train; return losses, parameters and counts."""
    torch.manual_seed(seed)
    choices = random.Random(seed)
    delays = random.Random(seed + 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    sender = Sender() if interrupts else None
    if sender is not None:
        sender.start()
    torch.ftm.init()
    # With several compile threads, the program of a whole trace replaces its pieces when its
    # compilation happens to end, and the two round differently. An interrupted loop is slower, so
    # it would do so at an earlier step.
    _C._set_compile_threads(1)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to("ftm")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x, y = torch.randn(512, 64).to("ftm"), torch.randint(10, (512,)).to("ftm")
    steps_done = torch.zeros((), device="ftm")
    chain: list[Callable[[Tensor], Tensor]] = []
    losses, caught, compiling = [], 0, 0
    for number in range(steps):
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        is_new = number == 0 or choices.random() < NEW_PROGRAM
        if is_new:
            chain = choices.choices(FUNCTIONS, k=4)
            compiling += 1
        optimizer.zero_grad()
        out = model(x)
        for function in chain:
            out = function(out)
        loss = nn.functional.cross_entropy(out, y)
        loss.backward()
        steps_done.add_(1)
        optimizer.step()
        waits: list[Callable[[], object]] = [
            loss.item,
            torch.ftm.synchronize,
            model[0].weight.detach().cpu,
            lambda: ftm_lazy.sync(wait=True),
            ftm_lazy.sync,
        ]
        wait = choices.choice(waits)
        if sender is not None:
            soon = SOON_COMPILING if is_new else SOON
            sender.send(delays.random() * soon, delays.random() * GAP)
        caught += repeat(wait, sender)
        losses.append(loss.item())
        assert steps_done.item() == number + 1
    faulthandler.cancel_dump_traceback_later()
    return {
        "losses": losses,
        "parameters": [p.detach().cpu() for p in model.parameters()],
        "interrupts": caught,
        "programs": compiling,
        "failures": ftm_lazy.metrics.counters()["compile_failures"],
    }


def child(pairs: int, seed: int, interrupts: bool, folder: str) -> dict[str, object]:
    """Train in another process; exits with its output if it fails."""
    path = Path(folder, f"{interrupts}.pt")
    words = ["--pairs", str(pairs), "--seed", str(seed), "--into", str(path)]
    done = subprocess.run(
        [sys.executable, __file__, *words, *["--interrupts"] * interrupts],
        env=os.environ | {"FTM_CACHE_DIR": "off"},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"seed {seed}: exit status {done.returncode}\n{done.stderr}")
    result: dict[str, object] = torch.load(path)
    return result


def main() -> None:
    """Compare the two loops, or run one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--into", help=argparse.SUPPRESS)
    parser.add_argument("--interrupts", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.into:
        torch.save(train(options.pairs, options.seed, options.interrupts), options.into)
        return
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        wanted, found = (
            child(options.pairs, options.seed, interrupts, folder) for interrupts in (False, True)
        )
    losses, other_losses = torch.tensor(wanted["losses"]), torch.tensor(found["losses"])
    is_equal = torch.equal(losses, other_losses) and all(
        torch.equal(a, b)
        for a, b in zip(wanted["parameters"], found["parameters"], strict=True)  # type: ignore[call-overload]
    )
    differing = (losses != other_losses).nonzero().flatten().tolist()
    counts = {key: found[key] for key in ("interrupts", "programs", "failures")}
    print(
        json.dumps(
            {"pairs": options.pairs, "equal": is_equal, "first_difference": differing[:1]}
            | counts
            | {"seconds": round(time.monotonic() - begin)}
        )
    )
    if not is_equal or found["failures"]:
        sys.exit("the interrupted loop differs")


if __name__ == "__main__":
    main()
