"""A kernel: statements that share a loop nest, as grouping, planning and lowering know it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ftm_backend.ir.linalg.function import (
    FunctionResult,
    LinalgFunction,
    SequentialLoop,
    Statement,
    Value,
)
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.ir.tile.index_arithmetic import Index
from ftm_backend.symbolic import statically_known_nonnegative
from ftm_backend.target.presets import MachineParameters

__all__ = ["Kernel", "KernelModule", "core_share", "runs"]


@dataclass(eq=False, slots=True)
class Kernel:
    """Statements in order, what they read and write, and where they run.

    kind: names the lowering that takes it (``lowerings.py``). one_core: it is small and runs on
    core 0 alone. inputs: values in memory that it reads. outputs: values in memory that it writes;
    ``made`` has for each the result that it is (None for one that updates put together), ``ties``
    the number of the input over which it is written (updates and scatters), or None for memory of
    its own. faults: it can address memory that is not there. barrier: all cores meet before it.
    workspaces: buffers of its own. aligned: the statements of a contraction over loops that are cut
    alike. domain: where a lowering keeps its analysis. repeat: what it runs in each iteration of,
    with the kernels beside it. words: what it is but for its kind and ``one_core``, with nothing of
    the program in it; None where nobody has said so. share: its tiles are planned for 1/share of
    the scratchpads. numbers: of its statements, as ``fuse-ops`` counts them. formed_by: the pass
    that last changed its statements or kind.
    """

    name: str
    kind: str
    machine: MachineParameters
    statements: list[Statement]
    one_core: bool = False
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    made: list[FunctionResult | None] = field(default_factory=list)
    ties: list[int | None] = field(default_factory=list)
    workspaces: list[Value] = field(default_factory=list)
    faults: bool = False
    barrier: bool = False
    aligned: list[Statement] = field(default_factory=list)
    domain: Any = None
    repeat: SequentialLoop | None = None
    words: Hashable = None
    numbers: frozenset[int] = frozenset()
    share: int = 1
    formed_by: str = ""

    def shrink(self, share: int) -> None:
        """Has its tiles planned for 1/share of the scratchpads."""
        sizes = {
            name: getattr(self.machine, name) * self.share // share
            for name in ("am_bytes", "sm_bytes", "gsm_bytes")
        }
        self.machine, self.share = replace(self.machine, **sizes), share
        self.domain = self.words = None

    def core(self, b: TileBuilder) -> tuple[Index, Index]:
        """This core's number and the number of cores that run the kernel, as builder index
        values."""
        return (0, 1) if self.one_core else (b.core_id(), b.num_cores())


@dataclass(eq=False, slots=True)
class KernelModule:
    """A function whose statements have become kernels, in an order in which they can run."""

    function: LinalgFunction
    kernels: list[Kernel]


def runs(kernels: Sequence[Kernel]) -> Iterator[tuple[int, int]]:
    """First and last + 1 of the kernels of each repeat, and of those between repeats."""
    first = 0
    for number in range(1, len(kernels) + 1):
        if number == len(kernels) or kernels[number].repeat is not kernels[first].repeat:
            yield first, number
            first = number


def core_share(b: TileBuilder, kernel: Kernel, trips: int) -> tuple[Index, Index]:
    """This core's contiguous part ``[low, high)`` of ``trips`` independent iterations."""
    if kernel.one_core or statically_known_nonnegative(1 - trips):
        if kernel.one_core:
            return 0, trips
        core, _ = kernel.core(b)
        return b.min(core, trips), trips
    core, cores = kernel.core(b)
    return b.div(b.mul(core, trips), cores), b.div(b.mul(b.add(core, 1), trips), cores)
