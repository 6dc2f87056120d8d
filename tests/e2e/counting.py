"""What a loop cost, step by step: the counters as differences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.optim.optimizer import register_optimizer_step_post_hook

import ftm_lazy
from ftm_lazy import _C


class StepCounters:
    """The counters at the end of every `optimizer.step()`, and their growth."""

    def __init__(self) -> None:
        self.snapshots: list[dict[str, int]] = []

    def record(self, *_: object) -> None:
        # A step's program is compiled while the next one is recorded, and so is that of a whole step
        # that runs in pieces.
        _C._wait_for_compilations()
        _C._wait()
        self.snapshots.append(ftm_lazy.metrics.counters())

    def grown(self, name: str, first: int, last: int = -1) -> int:
        """How much counter `name` grew from the end of step `first` to the end of step `last`."""
        return self.snapshots[last].get(name, 0) - self.snapshots[first].get(name, 0)


@contextmanager
def counting_steps() -> Iterator[StepCounters]:
    """Records the counters after every optimizer step in the block."""
    counters = StepCounters()
    handle = register_optimizer_step_post_hook(counters.record)
    try:
        yield counters
    finally:
        handle.remove()


def fallbacks(counters: dict[str, int]) -> dict[str, int]:
    """The fallback counters that are not zero."""
    return {name: n for name, n in counters.items() if name.startswith("fallback::") and n}
