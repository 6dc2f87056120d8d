"""Pass ``assign-buffers``: assign a DDR buffer to each value between kernels, and place barriers.

Input: kernels on tensors. Output: a `KernelProgram`, in which each value in memory has the symbol
of its buffer: ``b0`` for inputs, ``k0`` for constants, ``o0`` for outputs, ``t0`` for regions of
the arena.

A value is in the arena from the kernel that computes it to the last one that reads it. An output
may reuse the buffer of an input (donation) only after the last kernel that can fault, so a program
that faults has not changed its inputs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import Value
from ftm_backend.midend.analysis.arena_overlaps import ArenaReuse
from ftm_backend.midend.analysis.buffer_donation import ProducedValue, donated_input, may_overwrite
from ftm_backend.midend.analysis.hazards import Barriers, StorageRange
from ftm_backend.midend.analysis.structural_key import structural_key
from ftm_backend.midend.analysis.use_def import home_of
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule, runs
from ftm_backend.midend.kernel_ir.program import (
    ArenaRegion,
    BufferWindow,
    ConstantBuffer,
    InputBuffer,
    KernelProgram,
    OutputBuffer,
    ScalarParameter,
)
from ftm_backend.midend.lowering.registry import LOWERINGS
from ftm_backend.midend.transforms.memory.best_fit_arena import Arena, region
from ftm_backend.symbolic import statically_known_equal
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["assign_buffers"]

_MOST_KERNELS = 4
"""Largest number of kernels between an input and the output that may reuse its buffer."""


@dataclass(eq=False)
class DeviceBuffer(StorageRange):
    """A piece of DDR memory: an input, constant, output or region of the arena.

    Attributes:
        dtype: Type of the elements.
        shape: Extent of each dimension.
        symbol: Name in assembly; empty if not named yet.
        first: Number of the first kernel that uses it; of the first kernel of the loop if
            ``repeated``.
        last: Number of the last kernel that uses it; of the last kernel of the loop if
            ``repeated``.
        repeated: More than one iteration of a loop uses it.
        offset: Bytes from the start of the arena, for regions of the arena.
    """

    dtype: str = ""
    shape: tuple[int, ...] = ()
    symbol: str = ""
    first: int = -1
    last: int = -1
    repeated: bool = False
    offset: int | None = None

    @property
    def count(self) -> int:
        """Size in bytes."""
        return volume(self.shape) * ELEMENT_BYTES[self.dtype]


@dataclass(eq=False)
class _ScheduledKernel:
    """A kernel, and the buffers that it reads, writes and works in."""

    kernel: Kernel
    inputs: list[DeviceBuffer]
    outputs: list[DeviceBuffer]
    workspaces: list[DeviceBuffer] = field(default_factory=list)


def assign_buffers(module: KernelModule, machine: MachineParameters) -> KernelProgram:
    """Plan the memory of kernels; each value in memory gets a symbol, in place."""
    del machine
    return _Planner(module).run()


class _PlanCache:
    """Results for kernels, shared by kernels of equal structure."""

    def __init__(self) -> None:
        self._workspaces: dict[Hashable, list[tuple[str, int]]] = {}
        self._overwriting: dict[Hashable, bool] = {}

    def workspace(self, kernel: Kernel) -> list[tuple[str, int]]:
        """Return dtype and size in elements of each workspace of a kernel."""
        key = self._key(kernel)
        if key not in self._workspaces:
            self._workspaces[key] = LOWERINGS[kernel.kind].workspace(kernel)
        return self._workspaces[key]

    def may_overwrite(self, kernel: Kernel, output: int, inputs: Sequence[int]) -> bool:
        """Return whether an output may share the memory of the given inputs."""
        key = self._key(kernel), output, tuple(inputs)
        if key not in self._overwriting:
            self._overwriting[key] = may_overwrite(kernel, output, inputs)
        return self._overwriting[key]

    def _key(self, kernel: Kernel) -> Hashable:
        return kernel.kind, kernel.one_core, structural_key(kernel)


class _Planner:
    def __init__(self, module: KernelModule) -> None:
        self._function = module.function
        self._buffers: dict[Value, DeviceBuffer] = {}
        self._program = KernelProgram(module.function, module.kernels)
        self._steps: list[_ScheduledKernel] = []
        self._cache = _PlanCache()

    def run(self) -> KernelProgram:
        """Run all steps in order."""
        self._declare_inputs()
        for number, kernel in enumerate(self._program.kernels):
            self._declare(number, kernel)
        for first, end in runs(self._program.kernels):
            if self._program.kernels[first].repeat is not None:
                self._keep(first, end)
        self._declare_outputs()
        self._donate()
        self._place()
        self._name()
        self._meet()
        return self._program

    # --- buffers

    def _declare_inputs(self) -> None:
        function = self._function
        for number, (value, dtype) in enumerate(
            zip(function.inputs, function.input_types, strict=True)
        ):
            self._buffers[value] = DeviceBuffer(
                dtype=value.dtype, shape=value.shape, symbol=f"b{number}"
            )
            self._program.inputs.append(InputBuffer(f"b{number}", dtype, value.shape))
        for node in function.scalars:
            self._program.scalars.append(ScalarParameter(node.payload, node.dtype))

    def _declare(self, number: int, kernel: Kernel) -> None:
        step = _ScheduledKernel(
            kernel,
            [self._buffer(v) for v in kernel.inputs],
            [self._buffer(v) for v in kernel.outputs],
        )
        for dtype, elements in self._cache.workspace(kernel):
            kernel.workspaces.append(Value(dtype, (elements,)))
            step.workspaces.append(self._buffer(kernel.workspaces[-1]))
        for buffer in (*step.inputs, *step.outputs, *step.workspaces):
            buffer.first = number if buffer.first < 0 else buffer.first
            buffer.last = number
        self._steps.append(step)

    def _keep(self, first: int, end: int) -> None:
        """Keep what more than one iteration uses alive for the whole loop.

        Other buffers live within one iteration.
        """
        steps = self._steps[first:end]
        moving = {
            self._buffer(v)
            for step in steps
            for v in (*step.kernel.inputs, *step.kernel.outputs)
            if home_of(v).window is not None
        }
        for step in steps:
            for buffer in (*step.inputs, *step.outputs):
                if buffer in moving or buffer.first < first or buffer.last >= end:
                    buffer.first, buffer.last = min(buffer.first, first), max(buffer.last, end - 1)
                    buffer.repeated = True

    def _buffer(self, value: Value) -> DeviceBuffer:
        home = home_of(value)
        if home.window is not None:
            return self._buffer(home.window.value)
        buffer = self._buffers.get(home)
        if buffer is None:
            buffer = self._buffers[home] = DeviceBuffer(dtype=home.dtype, shape=home.shape)
            if home.data is not None:
                buffer.symbol = f"k{len(self._program.consts)}"
                self._program.consts.append(
                    ConstantBuffer(buffer.symbol, home.dtype, home.shape, home.data.hex())
                )
        return buffer

    def _declare_outputs(self) -> None:
        function = self._function
        for number, (tensor, dtype) in enumerate(
            zip(function.results, function.output_types, strict=True)
        ):
            self._buffer(tensor.value).symbol = f"o{number}"
            self._program.outputs.append(OutputBuffer(f"o{number}", dtype, tensor.view.sizes))

    # --- sharing

    def _donate(self) -> None:
        """Let outputs reuse the buffers of inputs, after the last kernel that can fault."""
        last_fault = max(
            (number for number, step in enumerate(self._steps) if step.kernel.faults), default=-1
        )
        # dtype tokens, because buffers do not distinguish u8 from i8
        inputs = {given.symbol: given.dtype for given in self._program.inputs}
        outputs = {out.symbol: out for out in self._program.outputs}
        made = {
            buffer: ProducedValue(step.kernel, position, step.inputs)
            for number, step in enumerate(self._steps)
            for position, buffer in enumerate(step.outputs)
            if buffer.first == number and not buffer.repeated
        }
        taken: set[DeviceBuffer] = set()
        late = [buffer for buffer in made if buffer.symbol in outputs and buffer.first > last_fault]

        def fits(out: DeviceBuffer, given: DeviceBuffer) -> bool:
            return (
                given.symbol in inputs
                and given not in taken
                and given.last <= out.first
                and statically_known_equal(given.count, out.count)
                and inputs[given.symbol] == outputs[out.symbol].dtype
            )

        # updates by a single kernel first: these can reuse the buffer in any case
        for kernels in (1, _MOST_KERNELS):
            for buffer in late:
                if outputs[buffer.symbol].donated:
                    continue
                found = donated_input(
                    made[buffer],
                    made.get,
                    partial(fits, buffer),
                    self._cache.may_overwrite,
                    kernels,
                )
                if found is not None:
                    taken.add(found)
                    out = outputs[buffer.symbol]
                    outputs[buffer.symbol] = out._replace(donated=found.symbol)
                    buffer.before.append(found)
        self._program.outputs = list(outputs.values())

    def _place(self) -> None:
        """Place the regions of the arena: best fit, in order of time."""
        arena = Arena()
        owners: ArenaReuse[DeviceBuffer] = ArenaReuse()
        placed = [
            b
            for b in dict.fromkeys(b for s in self._steps for b in (*s.outputs, *s.workspaces))
            if not b.symbol
        ]
        born: dict[int, list[DeviceBuffer]] = {}
        ended: dict[int, list[DeviceBuffer]] = {}
        for buffer in placed:
            born.setdefault(buffer.first, []).append(buffer)
            ended.setdefault(buffer.last, []).append(buffer)
        for number, step in enumerate(self._steps):
            gone = ended.get(number, [])
            dying = [b for b in dict.fromkeys(step.inputs) if b in gone and not b.repeated]
            for buffer in born.get(number, ()):
                heir = self._heir(step, buffer, dying)
                if heir is not None:
                    dying.remove(heir)
                    gone.remove(heir)
                    offset = heir.offset
                else:
                    offset = arena.allocate(buffer.count)
                assert offset is not None
                buffer.offset = offset
                buffer.before += owners.take(offset, offset + region(buffer.count), buffer)
            for buffer in gone:
                assert buffer.offset is not None
                arena.free(buffer.offset, buffer.count)
        self._program.arena_bytes = arena.size

    def _heir(
        self, step: _ScheduledKernel, buffer: DeviceBuffer, dying: Sequence[DeviceBuffer]
    ) -> DeviceBuffer | None:
        """Return the buffer among ``dying`` that a kernel may overwrite by its output."""
        if buffer not in step.outputs or buffer.repeated:
            return None
        number = step.outputs.index(buffer)
        for other in dying:
            reads = [k for k, i in enumerate(step.inputs) if i is other]
            if statically_known_equal(other.count, buffer.count) and self._cache.may_overwrite(
                step.kernel, number, reads
            ):
                return other
        return None

    # --- names and barriers

    def _name(self) -> None:
        for step in self._steps:
            kernel = step.kernel
            for buffer in (*step.outputs, *step.workspaces):
                if not buffer.symbol:
                    assert buffer.offset is not None, "the arena's regions are placed"
                    buffer.symbol = f"t{len(self._program.arena)}"
                    self._program.arena.append(
                        ArenaRegion(buffer.symbol, buffer.offset, buffer.dtype, buffer.shape)
                    )
            for value in (*kernel.inputs, *kernel.outputs, *kernel.workspaces):
                value.symbol = self._symbol(value)

    def _meet(self) -> None:
        """Place the barriers."""
        barriers, checks = Barriers(), StorageRange()
        donated = {out.symbol for out in self._program.outputs if out.donated}

        def reads(step: _ScheduledKernel) -> list[StorageRange]:
            # cores overwrite inputs only when all of them have passed the kernels that can fault
            return [
                *step.inputs,
                *([checks] if any(b.symbol in donated for b in step.outputs) else ()),
            ]

        def writes(step: _ScheduledKernel) -> list[StorageRange]:
            return [*step.outputs, *step.workspaces, *([checks] if step.kernel.faults else ())]

        for first, end in runs(self._program.kernels):
            steps = self._steps[first:end]
            repeated = steps[0].kernel.repeat is not None
            # one barrier before the loop is enough
            if repeated and all(step.kernel.one_core for step in steps):
                together = (
                    [s for step in steps for s in reads(step)],
                    [s for step in steps for s in writes(step)],
                )
                steps[0].kernel.barrier = barriers.visit(*together, one_core=True)
                continue
            for number, step in enumerate(steps):
                again = repeated and number == 0  # wait for the iteration before
                if again:
                    barriers.meet()
                step.kernel.barrier = (
                    barriers.visit(reads(step), writes(step), step.kernel.one_core) or again
                )

    def _symbol(self, value: Value) -> str:
        """Return the symbol of a value's buffer, or of its window into one."""
        window = home_of(value).window
        if window is None:
            return self._buffer(value).symbol
        facts = self._buffer(window.value).symbol, window.start, window.step
        for known in self._program.windows:
            if known[1:] == facts:
                return known.symbol
        self._program.windows.append(BufferWindow(f"w{len(self._program.windows)}", *facts))
        return self._program.windows[-1].symbol
