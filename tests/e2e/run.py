"""Pairs of Ctrl-C, 3 ms apart, at random moments of a training loop: ``python tests/e2e/run.py
--pairs 2000``.

Every fortieth step is of a shape that no program was made for, so that some pairs come while one is
compiled. Exit status 1 if a value differs from those of an undisturbed run; a read that never ends
is the caller's time limit to see.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import threading
import time

import torch
from torch import nn

_APART = 0.003  # seconds between the two
_WITHIN = 0.02  # seconds after the step was recorded, in which the first one comes
_NEW = 40


class Training:
    """A loop whose losses and parameters follow from the number of the step."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to("ftm")
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.x, self.y = torch.randn(512, 64).to("ftm"), torch.randint(10, (512,)).to("ftm")
        self.steps = 0

    def step(self) -> torch.Tensor:
        """Records one; its loss."""
        rows = 512 - self.steps // _NEW if self.steps % _NEW == 0 else 512
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self.x[:rows].clone()), self.y[:rows].clone())
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        return loss


def disturbed(loss: torch.Tensor) -> tuple[float, int]:
    """The loss, asked for until it comes, and how many interrupts came before it."""
    first, main, caught = random.random() * _WITHIN, threading.main_thread().ident, 0
    pair = [
        threading.Timer(delay, signal.pthread_kill, (main, signal.SIGINT))
        for delay in (first, first + _APART)
    ]
    for timer in pair:
        timer.start()
    while True:
        try:
            try:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
                value = loss.item()
                for timer in pair:
                    timer.join()
                return value, caught
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        except KeyboardInterrupt:
            caught += 1


def main() -> int:
    """Command line; gives the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=2000)
    pairs = parser.parse_args().pairs
    training, values, caught, begin, longest = Training(), [], 0, time.monotonic(), 0.0
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    for _ in range(pairs):
        start = time.monotonic()
        value, interrupts = disturbed(training.step())
        values.append(value)
        caught, longest = caught + interrupts, max(longest, time.monotonic() - start)
    seconds = time.monotonic() - begin
    undisturbed = Training()
    wanted = [undisturbed.step().item() for _ in range(pairs)]
    wrong = [number for number in range(pairs) if values[number] != wanted[number]]
    found = zip(training.model.parameters(), undisturbed.model.parameters(), strict=True)
    equal = all(torch.equal(one.detach().cpu(), other.detach().cpu()) for one, other in found)
    print(
        f"{pairs:,} pairs, {caught:,} interrupts raised, {seconds:.0f} s, the longest step {longest:.1f} s; "
        f"{len(wrong)} losses differ {wrong[:5]}, parameters {'equal' if equal else 'differ'}"
    )
    return 0 if equal and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
