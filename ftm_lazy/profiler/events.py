"""Records of a profile, as the recorder returns them (csrc/torch/profile_bindings.cpp).

Times are nanoseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Origin(NamedTuple):
    """Where an operation was recorded: module path, Python line, and whether it is backward."""

    module: str
    line: str
    is_backward: bool


class Run(NamedTuple):
    """One run of a program.

    Attributes:
        number: In launch order, since the process started.
        calls: Operations of its trace.
        begin: When it began to run.
        end: When it ended.
        line: The Python line that launched it.
        on_machine: False if it ran op by op on the CPU.
        results: The origin of each result.
    """

    number: int
    calls: int
    begin: int
    end: int
    line: str
    on_machine: bool
    results: list[Origin]


class Kernel(NamedTuple):
    """One kernel of one run; see `KernelEvent` in csrc/torch/profile_events.h."""

    name: str
    module: str
    ops: str
    line: str
    shape: str
    is_backward: bool
    run: int
    kernel: int
    begin: int
    end: int
    elapsed: int
    busy: int
    dma_bytes: int
    mm_flops: int
    map_operations: int

    @property
    def time(self) -> int:
        """Nanoseconds of the device, without those that overlap an earlier kernel."""
        return self.end - self.begin

    @property
    def flops(self) -> int:
        """Operations on numbers: those of matrix products, and of maps on single elements."""
        return self.mm_flops + self.map_operations


class CoreSpan(NamedTuple):
    """One kernel on one core; ``kernel`` is its index in `Events.kernels`, -1 for a barrier."""

    kernel: int
    core: int
    begin: int
    end: int


class HostEvent(NamedTuple):
    """What the host did: launch, wait, compile, copy_to_device, copy_to_host, fallback, step."""

    kind: str
    name: str
    line: str
    begin: int
    end: int
    thread: int
    bytes: int

    @property
    def time(self) -> int:
        """Nanoseconds."""
        return self.end - self.begin


class MemoryEvent(NamedTuple):
    """A block taken (``bytes`` > 0) or returned; ``result`` of ``run``, -1 for scratch."""

    time: int
    address: int
    bytes: int
    run: int
    result: int


@dataclass(frozen=True)
class Events:
    """Everything that one profile recorded.

    Attributes:
        begin: When it began.
        end: When it ended.
        thread: The system's number of the thread that profiled.
        runs: In order of time.
        kernels: In order of runs.
        cores: What each core did.
        host: What the host did.
        memory: Blocks that were taken and returned.
    """

    begin: int
    end: int
    thread: int
    runs: tuple[Run, ...]
    kernels: tuple[Kernel, ...]
    cores: tuple[CoreSpan, ...]
    host: tuple[HostEvent, ...]
    memory: tuple[MemoryEvent, ...]

    @classmethod
    def of(
        cls, begin: int, end: int, thread: int, raw: tuple[list[tuple[Any, ...]], ...]
    ) -> Events:
        """Make the records from the recorder's tuples."""
        runs, kernels, cores, host, memory = raw
        return cls(
            begin,
            end,
            thread,
            tuple(Run._make((*row[:6], [Origin(*each) for each in row[6]])) for row in runs),
            tuple(Kernel(*row) for row in kernels),
            tuple(CoreSpan(*row) for row in cores),
            tuple(HostEvent(*row) for row in host),
            tuple(MemoryEvent(*row) for row in memory),
        )

    @property
    def core_count(self) -> int:
        """Number of cores that ran kernels."""
        return 1 + max((span.core for span in self.cores), default=0)


def short_line(line: str) -> str:
    """Return a Python line without the folders of its file."""
    return line.rsplit("/", 1)[-1]
