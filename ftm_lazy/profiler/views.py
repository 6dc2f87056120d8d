"""`Profile`: the views of a recorded profile."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ftm_lazy.profiler import chrome_trace, html_report
from ftm_lazy.profiler.advice import Advice, advice_of
from ftm_lazy.profiler.events import Events, Kernel, short_line
from ftm_lazy.profiler.last_profile import MOST_ADVICE
from ftm_lazy.profiler.limits import bound_of, measured_limits
from ftm_lazy.profiler.memory import MemoryPeak, Owners, memory_line, peak_of
from ftm_lazy.profiler.steps import Step, steps_of

_SHOWN_KERNELS = 10
_SHOWN_STEPS = 8
_SHOWN_HOLDINGS = 6
_NAME_WIDTH = 64


@dataclass(frozen=True)
class KernelTotal:
    """All runs of the kernels with one name and line.

    Attributes:
        name: What they do and for whom: ``layer3.0.conv2 convolution+relu (backward)``.
        line: The Python line that recorded them, or "".
        kernels: Each run.
    """

    name: str
    line: str
    kernels: list[Kernel]

    @property
    def time(self) -> int:
        """Nanoseconds of the device."""
        return sum(kernel.time for kernel in self.kernels)

    @property
    def flops_per_second(self) -> float:
        """Rate of operations on numbers."""
        return sum(kernel.flops for kernel in self.kernels) / self._elapsed * 1e9

    @property
    def bytes_per_second(self) -> float:
        """Rate of transfers between memory and the scratchpads."""
        return sum(kernel.dma_bytes for kernel in self.kernels) / self._elapsed * 1e9

    @property
    def _elapsed(self) -> int:
        return max(1, sum(kernel.elapsed for kernel in self.kernels))

    @property
    def bound(self) -> str:
        """What bounds them; see `bound_of`."""
        return bound_of(self.kernels, measured_limits())


class Profile:
    """What `profile` recorded. ``print(p)`` shows a summary."""

    def __init__(self) -> None:
        self._events: Events | None = None
        self._owners: Owners = {}
        self._before: Mapping[int, int] = {}

    def set_events(self, events: Events, owners: Owners, before: Mapping[int, int]) -> None:
        """Set the contents, at the end of the ``with`` block."""
        self._events, self._owners, self._before = events, owners, before

    @property
    def events(self) -> Events:
        """The events.

        Raises:
            RuntimeError: The profile is still being recorded.
        """
        if self._events is None:
            raise RuntimeError("the profile is complete when its `with` block has ended")
        return self._events

    @cached_property
    def steps(self) -> list[Step]:
        """The steps; an optimizer's step ends each."""
        return steps_of(self.events)

    @cached_property
    def kernels(self) -> list[KernelTotal]:
        """The kernels by name and line, the costliest first."""
        groups: dict[tuple[str, str], list[Kernel]] = defaultdict(list)
        for kernel in self.events.kernels:
            groups[kernel.name, kernel.line].append(kernel)
        totals = [KernelTotal(name, line, each) for (name, line), each in groups.items()]
        return sorted(totals, key=lambda total: -total.time)

    @cached_property
    def modules(self) -> dict[str, int]:
        """Nanoseconds of the device by path of the module, forward and backward together."""
        times: dict[str, int] = defaultdict(int)
        for kernel in self.events.kernels:
            times[kernel.module] += kernel.time
        return dict(sorted(times.items(), key=lambda item: -item[1]))

    @property
    def device_time(self) -> int:
        """Nanoseconds in which programs ran on the device."""
        return sum(run.end - run.begin for run in self.events.runs)

    @property
    def kernel_time(self) -> int:
        """Nanoseconds in which kernels ran: `device_time` without starts and barriers."""
        return sum(kernel.time for kernel in self.events.kernels)

    @property
    def attributed(self) -> float:
        """Share of the kernels' time whose module and Python line are known."""
        known = sum(k.time for k in self.events.kernels if k.module and k.line)
        return known / self.kernel_time if self.kernel_time else 0.0

    def advice(self) -> list[Advice]:
        """Return what costs time, with the line and the remedy, the costliest first."""
        return advice_of(self.events, self.steps)

    def memory(self, step: int = -1) -> MemoryPeak | None:
        """Explain the peak of the device's memory in a step, by default the last one.

        Returns:
            The peak; None if the step took no memory.
        """
        bounds = self.steps[step]
        return peak_of(self.events, self._before, self._owners, bounds.begin, bounds.end)

    def memory_summary(self, step: int = -1) -> str:
        """Format `memory` as a table."""
        peak = self.memory(step)
        if peak is None:
            return "no memory was taken"
        lines = [
            f"memory: peak of {_bytes(peak.bytes)}, and {_bytes(peak.idle)} kept for reuse",
            f"{'held by':<28} {'bytes':>10} {'blocks':>7}  module, line",
        ]
        for held in peak.holdings[:_SHOWN_HOLDINGS]:
            place = ", ".join(filter(None, (held.module, short_line(held.line))))
            lines.append(f"{held.kind:<28} {_bytes(held.bytes):>10} {held.blocks:>7}  {place}")
        if len(peak.holdings) > _SHOWN_HOLDINGS:
            rest = peak.holdings[_SHOWN_HOLDINGS:]
            size, blocks = sum(h.bytes for h in rest), sum(h.blocks for h in rest)
            lines.append(f"{f'{len(rest)} others':<28} {_bytes(size):>10} {blocks:>7}")
        return "\n".join(lines)

    def memory_line(self) -> list[tuple[int, int]]:
        """Return (time, bytes in use) whenever the device's memory changed."""
        return memory_line(self.events, sum(self._before.values()))

    def __str__(self) -> str:
        if self._events is None:
            return "Profile (still being recorded)"
        parts = [self._kernel_table(), self._step_table(), self.memory_summary()]
        advice = self.advice()[:MOST_ADVICE]
        if advice:
            parts.append("\n".join(["advice:", *(f"- {each}" for each in advice)]))
        return "\n\n".join(parts)

    def _kernel_table(self) -> str:
        limits = measured_limits()
        lines = [
            f"{'kernel':<{_NAME_WIDTH}} {'ms':>9} {'share':>6} {'runs':>5} {'GFLOP/s':>8} "
            f"{'of max':>6} {'GB/s':>7} {'of max':>6} {'bound by':>8}  line"
        ]
        for total in self.kernels[:_SHOWN_KERNELS]:
            lines.append(
                f"{shorten_name(total.name, _NAME_WIDTH):<{_NAME_WIDTH}} {total.time / 1e6:>9.3f} "
                f"{total.time / max(self.kernel_time, 1):>6.1%} {len(total.kernels):>5} "
                f"{total.flops_per_second / 1e9:>8.1f} "
                f"{total.flops_per_second / (limits.flops or 1):>6.1%} "
                f"{total.bytes_per_second / 1e9:>7.2f} "
                f"{total.bytes_per_second / (limits.bytes or 1):>6.1%} "
                f"{total.bound:>8}  {short_line(total.line)}"
            )
        lines.append(
            f"{f'all {len(self.kernels)} kernels':<{_NAME_WIDTH}} {self.kernel_time / 1e6:>9.3f}; "
            f"programs ran {self.device_time / 1e6:.3f} ms; {self.attributed:.1%} of the time has "
            "a module and a line"
        )
        return "\n".join(lines)

    def _step_table(self) -> str:
        columns = "recording launching waiting compiling copying running idle".split()
        lines = [
            f"{'step':>6} {'wall ms':>10} " + " ".join(f"{name:>10}" for name in columns) + " runs"
        ]
        for number, step in list(enumerate(self.steps))[-_SHOWN_STEPS:]:
            parts = " ".join(f"{getattr(step, name) / 1e6:>10.3f}" for name in columns)
            lines.append(f"{number:>6} {step.wall / 1e6:>10.3f} {parts} {step.programs:>4}")
        return "\n".join(lines)

    def html(self, path: str | Path) -> None:
        """Write a report that opens in any browser, without a network.

        It has the costliest kernels, a roofline, the time by module, the timeline of the host and
        of all cores, memory with its owners, compiles with their causes, and advice.
        """
        Path(path).write_text(html_report.render(self), encoding="utf-8")

    def trace(self, path: str | Path) -> None:
        """Write a trace for Perfetto (ui.perfetto.dev) and ``chrome://tracing``."""
        Path(path).write_text(json.dumps(chrome_trace.render(self.events)), encoding="utf-8")

    def csv(self, path: str | Path) -> None:
        """Write one row for each run of a kernel."""
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(
                "name module ops line result backward program kernel begin_ns time_ns busy_ns "
                "bytes flops".split()
            )
            for k in self.events.kernels:
                number = self.events.runs[k.run].number
                writer.writerow(
                    [k.name, k.module, k.ops, k.line, k.shape, int(k.is_backward), number]
                    + [k.kernel, k.begin, k.time, k.busy, k.dma_bytes, k.flops]
                )

    def compare(self, other: Profile) -> str:
        """Return a table of the kernels of two profiles, matched by name.

        Args:
            other: The profile to compare with, for example after a change. Times are per step.
        """
        times = []
        for profile in (self, other):
            by_name: dict[str, float] = defaultdict(float)
            for total in profile.kernels:
                by_name[total.name] += total.time / len(profile.steps) / 1e6
            times.append(by_name)
        a, b = times
        lines = [f"{'kernel':<{_NAME_WIDTH}} {'ms A':>9} {'ms B':>9} {'B - A':>9}"]
        names = sorted({*a, *b}, key=lambda name: -abs(b[name] - a[name]))
        for name in names[:_SHOWN_KERNELS]:
            lines.append(
                f"{name[:_NAME_WIDTH]:<{_NAME_WIDTH}} {a[name]:>9.3f} {b[name]:>9.3f} "
                f"{b[name] - a[name]:>+9.3f}"
            )
        before, after = sum(a.values()), sum(b.values())
        lines.append(
            f"{'all, per step':<{_NAME_WIDTH}} {before:>9.3f} {after:>9.3f} {after - before:>+9.3f}"
        )
        return "\n".join(lines)


def shorten_name(name: str, width: int) -> str:
    """Shorten a kernel's name for a table.

    The end of the module's path and the first operation tell kernels apart, so they stay:
    ``...layers.1.layer.1.convolution convolution_backwa... (backward)``.

    Args:
        name: Module, operations and direction, as in `KernelTotal.name`.
        width: Characters of the result, at most.
    """
    if len(name) <= width:
        return name
    name, parenthesis, direction = name.partition(" (")
    module, _, ops = name.rpartition(" ")
    if len(module) > width // 2:
        module = "..." + module[3 - width // 2 :].partition(".")[2]
    room = width - len(f"{module} {parenthesis}{direction}")
    return f"{module} {ops[: room - 3].rstrip('+.')}...{parenthesis}{direction}".lstrip()


def _bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"
