"""Pass ``keep-in-gsm``: values between kernels that GSM has room for lie there, and not in the arena.

Kernels place their own tiles in GSM from its beginning on.  How far is known once they are placed, so a value that is kept lies above
the tiles of all kernels that run while it lives.  That is counted in *epochs*, from one barrier of ``main`` to the next: in an epoch cores
run on without waiting for each other, so neither two values of it nor a value and a tile have a byte in common.  Only a value that
took over the memory of another one in the arena, because a kernel computes it in place, may do so in GSM.

What saves the most traffic of DDR for each byte and epoch that it holds is kept first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from ftm_backend.instructions.types import slot_bytes
from ftm_backend.machine.presets import ELEMENT_BYTES, MachineParameters
from ftm_backend.sizes import Size
from ftm_backend.tile.program import TileProgram, Written
from ftm_backend.tile.tree import Block, Branch, Instruction, Kernel, Loop, called, gsm_bytes, instructions

__all__ = ["keep_in_gsm"]


def keep_in_gsm(program: TileProgram, machine: MachineParameters) -> TileProgram:
    """Moves regions of the arena to GSM, on machines whose cores compute while transfers run."""
    if not machine.dma_overlaps or not program.arena:
        return program
    found = _Lifetimes(program, machine.gsm_bytes)
    kept = {value.symbol: value.offset for value in _place(found.values(), found.taken, machine.gsm_bytes)}
    program.gsm = [[symbol, kept[symbol], *kind] for symbol, _, *kind in program.arena if symbol in kept]
    program.arena = [region for region in program.arena if region[0] not in kept]
    return program


@dataclass(eq=False)
class _Value:
    """A region of the arena.

    region: where it lies there, and its bytes.  first, last: epochs in which it is used.  uses: how often a kernel reads or writes it.
    begin, end: the first of these kernels, and the last.  tied: values of which one takes over the other's memory.  offset: in GSM,
    once it is kept.
    """

    symbol: str
    region: tuple[int, int]
    first: int = -1
    last: int = -1
    uses: int = 0
    begin: int = -1
    end: int = -1
    tied: list[_Value] = field(default_factory=list)
    offset: int = -1

    @property
    def bytes(self) -> int:
        """Of GSM."""
        return int(slot_bytes(1, self.region[1], 1))

    @property
    def worth(self) -> tuple[float, int]:
        """Bytes that DDR need not move, for each byte and epoch that it holds; the larger value of two goes first.

        What one kernel alone uses it writes and reads.
        """
        return max(self.uses, 2) / (self.last - self.first + 1), self.bytes

    def meets(self, other: _Value) -> bool:
        """Whether both hold memory in some epoch."""
        return self.first <= other.last and other.first <= self.last


class _Lifetimes:
    """When the values of the arena are used, and how many bytes of GSM kernels take in each epoch (``taken``).

    Of what has sizes that are symbols values stay in the arena, and kernels are taken to need all of GSM.
    """

    def __init__(self, program: TileProgram, capacity: int) -> None:
        self._functions = {function.name: function for function in program.functions}
        self._capacity = capacity
        self._values: dict[str, _Value] = {}
        for symbol, offset, dtype, shape in program.arena:
            size = prod(shape) * ELEMENT_BYTES[dtype]
            if not isinstance(size, Size) and not isinstance(offset, Size):
                self._values[symbol] = _Value(symbol, (offset, size))
        self.taken = [0]
        self._kernels = 0
        self._named: dict[str, set[str]] = {}
        self._replaced: list[tuple[int, str, str]] = []
        main = self._functions["main"]
        assert isinstance(main, Kernel)
        for statement in main.body:
            if isinstance(statement, Instruction) and statement.kind == "barrier":
                self.taken.append(0)
            else:
                self._visit([statement], isinstance(statement, Loop))

    def values(self) -> list[_Value]:
        """Those that are used, with those that they are tied to."""
        for kernel, made, given in self._replaced:
            later, earlier = self._values.get(made), self._values.get(given)
            if later and earlier and later.begin == earlier.end == kernel and later.region == earlier.region:
                later.tied.append(earlier)
                earlier.tied.append(later)
        return [value for value in self._values.values() if value.uses]

    def _visit(self, block: Block, repeated: bool) -> None:
        for statement in block:
            if isinstance(statement, Loop):
                self._visit(statement.body, repeated)
            elif isinstance(statement, Branch):
                self._visit(statement.body, repeated)
                self._visit(statement.otherwise, repeated)
            elif statement.kind == "call":
                self._call(called(statement), repeated)
            else:
                self._use(_named([statement]))

    def _call(self, call: Sequence[str], repeated: bool) -> None:
        function = self._functions[call[0]]
        need = function.gsm_bytes if isinstance(function, Written) else gsm_bytes(function)
        self.taken[-1] = max(self.taken[-1], self._capacity if isinstance(need, Size) else need)
        bound = dict(zip((parameter.name for parameter in function.parameters), call[1:], strict=False))  # scalars follow
        self._use((*bound.values(), *self._own(function)))
        if not repeated:
            for parameter in function.parameters:
                if parameter.out and parameter.alias:
                    self._replaced.append((self._kernels, bound[parameter.name], bound[parameter.alias]))

    def _own(self, function: Kernel | Written) -> set[str]:
        """The header's buffers that a function names itself; one that is written already names none."""
        if isinstance(function, Written):
            return set()
        if function.name not in self._named:
            self._named[function.name] = _named(function.body) - {parameter.name for parameter in function.parameters}
        return self._named[function.name]

    def _use(self, symbols: Iterable[str]) -> None:
        self._kernels += 1
        for value in {self._values[symbol] for symbol in symbols if symbol in self._values}:
            if not value.uses:
                value.first, value.begin = len(self.taken) - 1, self._kernels
            value.last, value.end, value.uses = len(self.taken) - 1, self._kernels, value.uses + 1


def _named(block: Block) -> set[str]:
    """The buffers that a block's instructions name."""
    found: set[str] = set()
    for instruction in instructions(block):
        if instruction.transfer is not None:
            found.add(instruction.transfer.buffer)
        found.update(instruction.from_memory)
    return found


def _place(values: Iterable[_Value], taken: Sequence[int], capacity: int) -> list[_Value]:
    """Gives values offsets, as high as they can be; those that fit."""
    kept: list[_Value] = []
    for value in sorted(values, key=lambda value: value.worth, reverse=True):
        floor = max(taken[value.first : value.last + 1])
        others = sorted((other for other in kept if other.meets(value)), key=lambda other: other.offset)
        offsets = (*(other.offset for other in value.tied if other in kept), *_above(others, value.bytes, capacity))
        for offset in offsets:
            if offset >= floor and _free(offset, value, others):
                value.offset = offset
                kept.append(value)
                break
    return kept


def _above(others: Sequence[_Value], size: int, capacity: int) -> list[int]:
    """Where so many bytes could end: at the end of GSM, or where another value begins; the highest first."""
    ends = [capacity - capacity % slot_bytes(1, 1, 1), *(other.offset for other in reversed(others))]
    return [end - size for end in ends]


def _free(offset: int, value: _Value, others: Iterable[_Value]) -> bool:
    """Whether a value may lie there; one that it is tied to may be there, too."""
    return all(
        offset + value.bytes <= other.offset or other.offset + other.bytes <= offset or (other in value.tied and other.offset == offset)
        for other in others
    )
