"""Pass ``plan-buffers``: the DDR buffer of every tensor between kernels, and the barriers.

Inputs, constants, outputs and the arena's regions get names; each kernel says which buffers it reads and
writes (attributes ``inputs``, ``outputs``, ``workspaces``), whether all cores meet before it (``barrier``) and whether
it can fault (``faults``).  A tensor lives in the arena from the kernel that computes it to the last one that reads
it.  An output takes over an input only after the last kernel that can fault.  ``ftm.program`` on the module
holds the signature and the arena.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from ftm_backend.machine.presets import ELEMENT_BYTES, MachineParameters
from ftm_backend.midend.affine import volume
from ftm_backend.midend.arena import Arena
from ftm_backend.midend.donation import Made, donated_input, may_overwrite
from ftm_backend.midend.faults import Faults
from ftm_backend.midend.hazards import Barriers, Storage
from ftm_backend.midend.kernel import KernelView
from ftm_backend.midend.lowerings import LOWERINGS
from ftm_backend.midend.order import Kernels
from ftm_backend.midend.program import Program
from ftm_backend.midend.reader import token
from ftm_backend.midend.region import FunctionReader
from ftm_backend.mlir import ir

_MOST_KERNELS = 4
"""Kernels that are looked through for the input that an output updates."""


@dataclass(eq=False)
class Buffer(Storage):
    """One piece of DDR memory: an input, constant, output or arena region."""

    dtype: str = ""
    shape: tuple[int, ...] = ()
    symbol: str = ""
    first: int = -1
    last: int = -1
    offset: int = -1

    @property
    def count(self) -> int:
        """Bytes."""
        return volume(self.shape) * ELEMENT_BYTES[self.dtype]


@dataclass(eq=False)
class Step:
    """One kernel and the buffers that it reads and writes."""

    op: ir.Operation
    view: KernelView
    inputs: list[Buffer]
    outputs: list[Buffer]
    faults: bool = False
    workspaces: list[Buffer] = field(default_factory=list)


def plan_buffers(module: ir.Module, machine: MachineParameters) -> None:
    """Plans the memory of ``@main`` and annotates its kernels."""
    with module.context, ir.Location.unknown():
        for function in module.body.operations:
            if function.operation.name == "func.func" and len(function.regions[0].blocks):
                _Planner(module, function.operation, machine).run()


class _Planner:
    def __init__(self, module: ir.Module, function: ir.Operation, machine: MachineParameters):
        self._module, self._function = module, function
        self._reader = FunctionReader(function, machine)
        self._block = function.regions[0].blocks[0]
        self._buffers: dict[ir.Value, Buffer] = {}
        self._program = Program()
        self._steps: list[Step] = []

    def run(self) -> None:
        """All of it, in order."""
        self._declare_inputs()
        self._declare_kernels()
        self._declare_outputs()
        self._donate()
        self._place()
        self._annotate()
        self._program.attach(self._module)

    # --- buffers ---------------------------------------------------------------------------------------

    def _declare_inputs(self) -> None:
        for k, ssa in enumerate(self._reader.inputs):
            buffer = self._buffers[ssa] = _buffer_of(ssa, f"b{k}")
            self._program.inputs.append([buffer.symbol, _told(self._function, "ftm.inputs", k, buffer.dtype), list(buffer.shape)])
        for k, ssa in enumerate(self._reader.scalars):
            self._program.scalars.append([f"s{k}", token(ssa.type)])

    def _declare_kernels(self) -> None:
        for number, (op, view, faults) in enumerate(self._ordered()):
            inputs = [self._input(ssa) for ssa in op.operands]
            outputs = []
            for ssa, tie in zip(op.results, view.ties, strict=True):
                buffer = _buffer_of(ssa, "") if tie is None else inputs[tie]
                self._buffers[ssa] = buffer
                outputs.append(buffer)
            step = Step(op, view, inputs, outputs, faults)
            for dtype, elements in LOWERINGS[view.kind].workspace(view):
                step.workspaces.append(Buffer(dtype=dtype, shape=(elements,)))
            for buffer in (*inputs, *outputs, *step.workspaces):
                buffer.first = number if buffer.first < 0 else buffer.first
                buffer.last = number
            self._steps.append(step)

    def _ordered(self) -> list[tuple[ir.Operation, KernelView, bool]]:
        """The kernels in the order in which they run, and which of them can fault."""
        faults, kernels = Faults(), Kernels(self._block)
        for op in self._reader.kernels:
            view = self._reader.kernel(op)
            kernels.add(op, view, faults.visit(op, view))
        return kernels.arrange()

    def _input(self, ssa: ir.Value) -> Buffer:
        buffer = self._buffers.get(ssa)
        if buffer is None:
            buffer = self._buffers[ssa] = _buffer_of(ssa, f"k{len(self._program.consts)}")
            data = _bytes_of(ssa.owner.attributes["value"], buffer.dtype)
            self._program.consts.append([buffer.symbol, buffer.dtype, list(buffer.shape), data])
        return buffer

    def _declare_outputs(self) -> None:
        returned = self._block.operations[len(self._block.operations) - 1]
        for k, ssa in enumerate(returned.operands):
            dtype, shape = token(ir.RankedTensorType(ssa.type).element_type), list(ir.RankedTensorType(ssa.type).shape)
            root = ssa if ssa in self._buffers else ssa.owner.operands[0]
            self._buffers[root].symbol = f"o{k}"
            self._program.outputs.append([f"o{k}", _told(self._function, "ftm.outputs", k, dtype), shape, ""])

    # --- sharing ---------------------------------------------------------------------------------------

    def _donate(self) -> None:
        """Pairs outputs with inputs whose storage they may share: a program that faults has written none."""
        last_fault = max((number for number, step in enumerate(self._steps) if step.faults), default=-1)
        inputs = {i[0]: i[1] for i in self._program.inputs}  # dtype tokens tell u8 from i8
        outputs = {o[0]: o for o in self._program.outputs}
        made = {buffer: Made(step.view, position, step.inputs) for number, step in enumerate(self._steps)
                for position, buffer in enumerate(step.outputs) if buffer.first == number}
        taken: set[Buffer] = set()
        late = [buffer for buffer in made if buffer.symbol in outputs and buffer.first > last_fault]
        for kernels in (1, _MOST_KERNELS):  # what one kernel updates goes first: it is sure to be replaced
            for buffer in late:
                if outputs[buffer.symbol][3]:
                    continue
                found = donated_input(
                    made[buffer], made.get,
                    lambda b, out=buffer: b.symbol in inputs and b not in taken and b.last <= out.first
                    and b.count == out.count and inputs[b.symbol] == outputs[out.symbol][1], kernels)
                if found is not None:
                    taken.add(found)
                    outputs[buffer.symbol][3] = found.symbol
                    buffer.before.append(found)

    def _place(self) -> None:
        """Gives each arena buffer its offset, best fit in order of time."""
        arena, owners = Arena(), _Owners()
        for number, step in enumerate(self._steps):
            fresh = [b for b in dict.fromkeys((*step.outputs, *step.workspaces)) if not b.symbol and b.offset < 0]
            dying = [b for b in dict.fromkeys(step.inputs) if not b.symbol and b.last == number]
            for buffer in fresh:
                heir = None
                if buffer in step.outputs:
                    heir = next((b for b in dying if b.count == buffer.count and may_overwrite(
                        step.view, step.outputs.index(buffer), [k for k, i in enumerate(step.inputs) if i is b])), None)
                if heir is not None:
                    dying.remove(heir)
                    buffer.offset = heir.offset
                else:
                    buffer.offset = arena.take(buffer.count)
                buffer.before += owners.take(buffer)
            for buffer in (*dying, *(b for b in fresh if b.last == number)):
                arena.give(buffer.offset, buffer.count)
        self._program.arena_bytes = arena.size

    # --- writing ---------------------------------------------------------------------------------------

    def _annotate(self) -> None:
        barriers, checks = Barriers(), Storage()
        donated = {symbol for symbol, *_, alias in self._program.outputs if alias}
        named = 0
        for step in self._steps:
            for buffer in (*step.outputs, *step.workspaces):
                if not buffer.symbol:
                    buffer.symbol = f"t{named}"
                    named += 1
                    self._program.arena.append([buffer.symbol, buffer.offset, buffer.dtype, list(buffer.shape)])
            attributes = step.op.attributes
            attributes["inputs"] = _words(b.symbol for b in step.inputs)
            attributes["outputs"] = _words(b.symbol for b in step.outputs)
            if step.workspaces:
                attributes["workspaces"] = _words(b.symbol for b in step.workspaces)
            # Cores write over inputs when all of them are past the kernels that can fault.
            overwrites = any(b.symbol in donated for b in step.outputs)
            if barriers.visit(
                    (*step.inputs, *([checks] if overwrites else ())),
                    (*step.outputs, *step.workspaces, *([checks] if step.faults else ())), step.view.one_core):
                attributes["barrier"] = ir.UnitAttr.get()
            if step.faults:
                attributes["faults"] = ir.UnitAttr.get()


class _Owners:
    """Who held each byte of the arena last."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._spans: list[tuple[int, Buffer]] = []  # end, owner; parallel to _starts

    def take(self, buffer: Buffer) -> list[Buffer]:
        """Notes the new owner of its region; gives those who held parts of it before."""
        start, end = buffer.offset, buffer.offset + max(buffer.count, 1)
        low = bisect_left(self._starts, start)
        if low and self._spans[low - 1][0] > start:
            low -= 1
        high = low
        kept: list[tuple[int, tuple[int, Buffer]]] = []
        before = []
        while high < len(self._starts) and self._starts[high] < end:
            begin, (stop, owner) = self._starts[high], self._spans[high]
            before.append(owner)
            if begin < start:
                kept.append((begin, (start, owner)))
            if stop > end:
                kept.append((end, (stop, owner)))
            high += 1
        pieces = sorted([*kept, (start, (end, buffer))], key=lambda piece: piece[0])
        self._starts[low:high] = [piece[0] for piece in pieces]
        self._spans[low:high] = [piece[1] for piece in pieces]
        return before


def _buffer_of(ssa: ir.Value, symbol: str) -> Buffer:
    kind = ir.RankedTensorType(ssa.type)
    return Buffer(dtype=token(kind.element_type), shape=tuple(kind.shape), symbol=symbol)


def _told(function: ir.Operation, name: str, position: int, default: str) -> str:
    """The dtype token that the frontend noted for an argument or result (it tells u8 from i8)."""
    return function.attributes[name][position].value if name in function.attributes else default


def _words(symbols: object) -> ir.Attribute:
    return ir.ArrayAttr.get([ir.StringAttr.get(s) for s in symbols])


def _bytes_of(attribute: ir.Attribute, dtype: str) -> str:
    """Little-endian bytes of a dense constant, in hex."""
    import numpy

    if dtype == "bf16":
        values = numpy.array([float(attribute[k]) for k in range(len(attribute))], numpy.float32)
        return (values.view(numpy.uint32) >> 16).astype("<u2").tobytes().hex()
    types = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "i16": "<i2", "i8": "|i1", "i1": "|u1"}
    return numpy.array([attribute[k] for k in range(len(attribute))], types[dtype]).tobytes().hex()
