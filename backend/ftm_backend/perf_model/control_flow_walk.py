"""Executes the control flow of a program on one core, and collects events.

Scalar instructions execute as on the machine, except that an integer loaded from DDR is unknown and
has a default value. Tile instructions become events (``core_model``). ``loop_extrapolation``
shortens long loops.
"""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.assembler.image_layout import NONE
from ftm_backend.perf_model.core_model import NAMES, TILE_INSTRUCTIONS, CoreModel
from ftm_backend.perf_model.events import EnterEvent, Event, Slot
from ftm_backend.perf_model.image_decoder import DecodedImage
from ftm_backend.perf_model.loop_extrapolation import LoopExtrapolator
from ftm_backend.target.instruction_table import OPCODES

_OP = OPCODES


class WalkError(ValueError):
    """The program cannot be walked: it does not end, or leaves its code."""


class ControlFlowWalk(CoreModel):
    """The walk of one core, from barrier to barrier.

    Args:
        decoded: The program.
        core: Number of the core.
        cores: Number of cores.
        scalars: Values of the program's scalars.
        loaded: Value of integers that are loaded from DDR.
        limit: Greatest number of instructions.
        shared: Extents of GSM slots, shared by all cores.
    """

    def __init__(
        self,
        decoded: DecodedImage,
        core: int,
        cores: int,
        scalars: list[int],
        loaded: int,
        limit: int,
        shared: dict[Slot, tuple[int, int]],
    ) -> None:
        super().__init__(decoded, scalars, shared)
        self.core, self.cores, self.loaded, self.limit = core, cores, loaded, limit
        self.events.append(EnterEvent(decoded.main))
        self.decisions: list[int] = []
        """Outcomes of comparisons, minima, maxima and predicates, which steer loops."""
        self.done = False
        self._stack: list[int] = []
        self._position = decoded.functions[decoded.main][1]
        self._steps = 0
        self._jumper = LoopExtrapolator(self)

    def phase(self) -> list[Event]:
        """Walk to the next barrier, or to the end, which sets ``done``; return the events."""
        code, functions = self.decoded.code, self.decoded.functions
        registers = self.registers
        branch, call, ret, barrier = _OP["SBR"], _OP["@call"], _OP["@ret"], _OP["BARRIER"]
        position = self._position
        while True:
            self._steps += 1
            if self._steps > self.limit:
                raise WalkError(
                    f"more than {self.limit} instructions on core {self.core}: "
                    "does the program end?"
                )
            item = code[position]
            opcode = item[0]
            predicate = item[2]
            taken = True
            if predicate != NONE:
                held = registers[predicate]
                taken = (held != 0) != bool(item[3])
                self.decisions.append((held > 0) - (held < 0))
            if opcode == branch:
                self._busy += self.machine.branch_latency
                position = self._jumper.branch(position, item[5], taken)
            elif self._jumper.pending and opcode in (ret, call, barrier):
                position = self._jumper.give_up()
            elif opcode == ret:
                self.flush()
                if not self._stack:
                    self.done = True
                    return self._take()
                position = self._stack.pop()
                self._jumper.leave()
                self.events.append(EnterEvent(NONE))
            elif not taken:
                self._busy += self.machine.scalar_latency
                position += 1
            elif opcode == call:
                self.flush()
                self._bind(item)
                self._stack.append(position + 1)
                self._jumper.leave()
                self.events.append(EnterEvent(item[5]))
                position = functions[item[5]][1]
            elif opcode == barrier:
                self.flush()
                self._jumper.leave()
                self._position = position + 1
                return self._take()
            else:
                self._execute(item, NAMES[opcode])
                position += 1

    def _bind(self, item: tuple[int, ...]) -> None:
        """Bind the parameters of the function that is called."""
        _, _, _, _, first_buffer, buffers, first_scalar, scalars = self.decoded.functions[item[5]]
        arguments = self.decoded.sections["arguments"][item[11] : item[11] + buffers + scalars]
        for number, (buffer, *_) in enumerate(arguments[:buffers], first_buffer):
            self._bound[number] = self._bound.get(buffer, buffer)
        for number, (_, _, *value) in enumerate(arguments[buffers:], first_scalar):
            self.scalars[number] = self._sum(*value)
            self._bound_scalars[number] = self._bound_scalars.get(value[2], value[2])

    def _take(self) -> list[Event]:
        events, self.events = self.events, []
        self.decisions.clear()
        return events

    def restore(
        self,
        registers: list[int],
        extents: dict[Slot, tuple[int, int]],
        shared: dict[Slot, tuple[int, int]],
        events: int,
        decisions: int,
    ) -> None:
        """Restore an earlier state; ``events`` and ``decisions`` are the numbers to keep."""
        self._busy = 0
        self.registers[:] = registers
        self.extents = extents
        self.shared.clear()
        self.shared.update(shared)
        del self.events[events:]
        del self.decisions[decisions:]

    def _execute(self, item: tuple[int, ...], name: str) -> None:
        execute = TILE_INSTRUCTIONS.get(name)
        if execute is None:
            self._busy += (
                self.machine.scalar_load_latency if name == "SLDI" else self.machine.scalar_latency
            )
            self.registers[item[6]] = self._scalar(item, name)
            return
        self._busy += self.machine.issue_cycles
        self.flush()
        execute(self, item)

    def _scalar(self, item: tuple[int, ...], name: str) -> int:
        if name == "SCID":
            return self.core
        if name == "SNC":
            return self.cores
        if name == "SLDI":
            return self.loaded
        a = self.value(item, 0)
        if name == "SMOV":
            return a
        b = self.value(item, 1)
        result = _SCALAR[name](a, b)
        if name == "SLT":
            self.decisions.append(result)
        elif name in ("SMIN", "SMAX"):
            self.decisions.append((a > b) - (a < b))
        return result


_SCALAR: dict[str, Callable[[int, int], int]] = {
    "SADD": lambda a, b: a + b,
    "SSUB": lambda a, b: a - b,
    "SMUL": lambda a, b: a * b,
    "SDIV": lambda a, b: a // b if b else 0,
    "SREM": lambda a, b: a % b if b else 0,
    "SMIN": min,
    "SMAX": max,
    "SLT": lambda a, b: int(a < b),
    "SEQ": lambda a, b: int(a == b),
    "SNE": lambda a, b: int(a != b),
}
