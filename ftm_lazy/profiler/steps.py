"""Divides a profile into steps, and the time of each step into what the host and device did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ftm_lazy.profiler.events import Events


@dataclass(frozen=True)
class Step:
    """One training step, in nanoseconds.

    The host's time is the sum of ``recording``, ``launching``, ``waiting``, ``compiling`` and
    ``copying``; the device's that of ``running`` and ``idle``. Both are ``wall``.

    Attributes:
        begin: When it began.
        end: When it ended.
        recording: The user's Python, and recording operations.
        launching: Finding programs by their hash, and launching them.
        waiting: Waiting for values.
        compiling: Compiling, or reading programs from the disk cache.
        copying: Copies between host and device, and operations that fell back to the CPU.
        running: The device ran programs.
        programs: Number of runs.
    """

    begin: int
    end: int
    recording: int
    launching: int
    waiting: int
    compiling: int
    copying: int
    running: int
    programs: int

    @property
    def wall(self) -> int:
        """The whole time."""
        return self.end - self.begin

    @property
    def idle(self) -> int:
        """The device ran nothing."""
        return self.wall - self.running


_PARTS = {
    "launch": "launching",
    "wait": "waiting",
    "compile": "compiling",
    "copy_to_device": "copying",
    "copy_to_host": "copying",
    "fallback": "copying",
    "collective": "waiting",
}
# Where events of a thread overlap, the earlier part in this list counts.
_INNERMOST = ("compiling", "waiting", "launching", "copying")


def steps_of(events: Events) -> list[Step]:
    """Return the steps: each ends with a step of an optimizer; the last one with the profile.

    A profile without an optimizer's step is one step.
    """
    ends = [event.end for event in events.host if event.kind == "step"]
    bounds = [events.begin, *ends[:-1], events.end] if ends else [events.begin, events.end]
    return [_step(events, a, b) for a, b in pairwise(bounds)]


def _step(events: Events, begin: int, end: int) -> Step:
    spans: dict[str, list[tuple[int, int]]] = {part: [] for part in _INNERMOST}
    for event in events.host:
        if event.kind in _PARTS and event.thread == events.thread:
            spans[_PARTS[event.kind]].append((event.begin, event.end))
    parts: dict[str, int] = {}
    taken: list[tuple[int, int]] = []
    for part in _INNERMOST:
        before = covered(taken, begin, end)
        taken += spans[part]
        parts[part] = covered(taken, begin, end) - before
    running = covered([(run.begin, run.end) for run in events.runs], begin, end)
    return Step(
        begin,
        end,
        recording=end - begin - sum(parts.values()),
        running=running,
        programs=sum(begin <= run.begin < end for run in events.runs),
        **parts,
    )


def covered(spans: Iterable[Sequence[int]], begin: int, end: int) -> int:
    """Return how much of an interval the union of spans covers."""
    total, at = 0, begin
    for first, last in sorted((first, last) for first, last in spans):
        if last > at and first < end:
            total += min(last, end) - max(first, at)
            at = min(last, end)
    return total
