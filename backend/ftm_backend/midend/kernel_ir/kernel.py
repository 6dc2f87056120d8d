"""Record: a kernel, which is statements that share a loop nest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ftm_backend.ir.linalg.function import (
    FunctionResult,
    LinalgFunction,
    SequentialLoop,
    Statement,
    Value,
)
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.ir.tile.index_arithmetic import Index
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.symbolic import statically_known_nonnegative
from ftm_backend.target.presets import MachineParameters

if TYPE_CHECKING:
    from ftm_backend.midend.analysis.structural_key import StructuralKey
    from ftm_backend.midend.schedule.gemm.schedule import Schedule
    from ftm_backend.midend.schedule.loop_nest.iteration_domain import IterationDomain

__all__ = ["Kernel", "KernelModule", "core_share", "runs"]


@dataclass(eq=False, slots=True)
class Kernel:
    """Statements in order, the values that they read and write, and the cores that run them.

    Attributes:
        name: Unique in the program.
        kind: What it computes, which decides how it is scheduled and lowered.
        machine: The machine to plan for; its scratchpads are divided by ``share``.
        statements: The statements in order.
        one_core: The kernel is small and runs on core 0 alone.
        inputs: Values in memory that it reads.
        outputs: Values in memory that it writes.
        made: For each output the result that it is; None if several parts form it.
        ties: For each output the number of the input that it is written over; None for new memory.
        workspaces: Temporary buffers.
        faults: The kernel can address memory out of bounds.
        barrier: All cores wait for each other before it.
        aligned: The statements of a contraction over the same loops.
        domain: Analysis of its lowering.
        repeat: The sequential loop that it runs in.
        key: Cache of its structural key; None if not computed.
        numbers: Numbers of its statements in ``fuse-ops``.
        share: Its tiles may use 1/share of the scratchpads.
        schedule: How its contraction is computed on all cores; None to plan it when it is lowered.
        is_pinned: Its schedule was edited by hand, so nothing may replace it.
        formed_by: The pass that last changed its statements or kind.
    """

    name: str
    kind: KernelKind
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
    domain: IterationDomain | None = None
    repeat: SequentialLoop | None = None
    key: StructuralKey | None = None
    numbers: frozenset[int] = frozenset()
    share: int = 1
    schedule: Schedule | None = None
    is_pinned: bool = False
    formed_by: str = ""

    def shrink(self, share: int) -> None:
        """Limit its tiles to 1/share of the scratchpads."""
        sizes = {
            name: getattr(self.machine, name) * self.share // share
            for name in ("am_bytes", "sm_bytes", "gsm_bytes")
        }
        self.machine, self.share = replace(self.machine, **sizes), share
        self.domain = self.key = self.schedule = None

    @property
    def available_machine(self) -> MachineParameters:
        """The part of the machine that the kernel's schedule may use.

        A kernel on core 0 alone runs while other cores may still read what an earlier kernel left
        in GSM, and cannot wait for them. So it has no GSM, unless there are no other cores.
        """
        if not self.one_core or self.machine.cores == 1:
            return self.machine
        return replace(self.machine, cores=1, gsm_bytes=0)

    def core(self, b: TileBuilder) -> tuple[Index, Index]:
        """Return the number of this core and of all cores that run the kernel, as indices."""
        return (0, 1) if self.one_core else (b.core_id(), b.num_cores())


@dataclass(eq=False, slots=True)
class KernelModule:
    """A function, and kernels of all its statements in an order in which they can run."""

    function: LinalgFunction
    kernels: list[Kernel]


def runs(kernels: Sequence[Kernel]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the kernels of each sequential loop, and of those between loops."""
    first = 0
    for number in range(1, len(kernels) + 1):
        if number == len(kernels) or kernels[number].repeat is not kernels[first].repeat:
            yield first, number
            first = number


def core_share(b: TileBuilder, kernel: Kernel, trips: int) -> tuple[Index, Index]:
    """Return the contiguous range of iterations that this core runs.

    Args:
        b: Builds the index arithmetic.
        kernel: The kernel.
        trips: Number of independent iterations.

    Returns:
        First iteration and the one after the last.
    """
    if kernel.one_core or statically_known_nonnegative(1 - trips):
        if kernel.one_core:
            return 0, trips
        core, _ = kernel.core(b)
        return b.min(core, trips), trips
    core, cores = kernel.core(b)
    return b.div(b.mul(core, trips), cores), b.div(b.mul(b.add(core, 1), trips), cores)
