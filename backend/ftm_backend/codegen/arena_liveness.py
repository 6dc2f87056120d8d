"""When the kernels of a program use the regions of its arena, and how much of GSM they take for
tiles of their own.

Time is counted in *epochs*, from one barrier of ``main`` to the next: in an epoch cores run on
without waiting for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ftm_backend.ir.tile.kernel_tree import (
    Block,
    TileBranch,
    TileInstruction,
    TileKernel,
    TileLoop,
    callee_and_arguments,
    gsm_bytes,
    instructions,
)
from ftm_backend.ir.tile.program import CompiledFunction, TileProgram
from ftm_backend.symbolic import SymInt
from ftm_backend.target.element_types import slot_bytes
from ftm_backend.target.presets import ELEMENT_BYTES

__all__ = ["ArenaLifetimes", "ArenaValue", "Residency"]


@dataclass(frozen=True, eq=False)
class _Use:
    """A kernel that reads or writes a value.

    number: its place in the order of kernels. parameters: those that the value is bound to. writes:
    whether one of them is written. once: it is a call, and no part of a loop. share: of the time
    that its transfers take, what it waits for them, about.
    """

    epoch: int
    number: int
    instruction: TileInstruction
    parameters: tuple[str, ...]
    writes: bool
    once: bool
    share: float


@dataclass(eq=False)
class ArenaValue:
    """A region of the arena.

    entry: what declares it. uses: in order. tied: values of which one took over this one's memory,
    because a kernel computes it in place, or the other way round.
    """

    entry: list[Any]
    bytes: int
    uses: list[_Use] = field(default_factory=list)
    tied: list[ArenaValue] = field(default_factory=list)

    @property
    def symbol(self) -> str:
        """Its name."""
        return str(self.entry[0])

    @property
    def region(self) -> tuple[int, int]:
        """Where it lies in the arena, and its bytes."""
        return self.entry[1], self.bytes


@dataclass(eq=False)
class Residency:
    """A value in GSM, for all of its uses or, if it is a copy of what lies in the arena as well,
    for the first of them.

    bytes: of GSM. first, last: the epochs from which on and until which it holds them. saved: how
    often nobody need wait for the value to be moved from or to DDR; what one kernel alone uses it
    writes and reads, and what is copied is written to DDR all the same.
    """

    value: ArenaValue
    uses: Sequence[_Use]
    copy: bool
    bytes: int = field(init=False)
    first: int = field(init=False)
    last: int = field(init=False)
    saved: float = field(init=False)

    def __post_init__(self) -> None:
        self.bytes = int(slot_bytes(1, self.value.bytes, 1))
        self.first, self.last = self.uses[0].epoch, self.uses[-1].epoch
        self.saved = sum(use.share for use in self.uses[self.copy :]) * (1 + (len(self.uses) == 1))

    def may_lie_on(self, other: Residency) -> bool:
        """Whether both may begin at one place although they live at one time."""
        return not self.copy and not other.copy and other.value in self.value.tied


_HIDDEN = 0.25
"""Share of the time of its transfers for which a kernel with products waits: they run while it
multiplies."""


class ArenaLifetimes:
    """The used ``values`` of the arena, and the bytes of GSM that tiles have in each epoch
    (``taken``).

    Of what has sizes that are symbols values are left out, and kernels are taken to need all of
    GSM.
    """

    def __init__(self, program: TileProgram, capacity: int) -> None:
        self._functions = {function.name: function for function in program.functions}
        self._named: dict[str, set[str]] = {}
        self._shares: dict[str, float] = {}
        self._capacity = capacity
        self._values: dict[str, ArenaValue] = {}
        for entry in program.arena:
            size = prod(entry[3]) * ELEMENT_BYTES[entry[2]]
            if not isinstance(size, SymInt) and not isinstance(entry[1], SymInt):
                self._values[entry[0]] = ArenaValue(entry, size)
        self.taken = [0]
        self._number = 0
        self._replaced: list[tuple[int, str, str]] = []
        main = self._functions["main"]
        assert isinstance(main, TileKernel)
        for statement in main.body:
            if isinstance(statement, TileInstruction) and statement.kind == "barrier":
                self.taken.append(0)
            else:
                self._visit([statement], isinstance(statement, TileLoop))
        self.values = [value for value in self._values.values() if value.uses]
        for number, made, given in self._replaced:
            later, earlier = self._values.get(made), self._values.get(given)
            if (
                later
                and earlier
                and later.uses[0].number == earlier.uses[-1].number == number
                and later.region == earlier.region
            ):
                later.tied.append(earlier)
                earlier.tied.append(later)

    def _visit(self, block: Block, repeated: bool) -> None:
        for statement in block:
            if isinstance(statement, TileLoop):
                self._visit(statement.body, repeated)
            elif isinstance(statement, TileBranch):
                self._visit(statement.body, repeated)
                self._visit(statement.otherwise, repeated)
            elif statement.kind == "call":
                self._call(statement, repeated)
            else:
                self._use(statement, dict.fromkeys(_named([statement]), ()), set(), False, 1.0)

    def _call(self, call: TileInstruction, repeated: bool) -> None:
        name, *arguments = callee_and_arguments(call)
        function = self._functions[name]
        need = function.gsm_bytes if isinstance(function, CompiledFunction) else gsm_bytes(function)
        self.taken[-1] = max(self.taken[-1], self._capacity if isinstance(need, SymInt) else need)
        bound: dict[str, tuple[str, ...]] = dict.fromkeys(self._own(function), ())
        # scalars follow
        symbols = dict(
            zip((parameter.name for parameter in function.parameters), arguments, strict=False)
        )
        for name, symbol in symbols.items():
            bound[symbol] = (*bound.get(symbol, ()), name)
        written = [parameter for parameter in function.parameters if parameter.out]
        self._use(
            call,
            bound,
            {symbols[parameter.name] for parameter in written},
            not repeated,
            self._share(function),
        )
        if not repeated:
            self._replaced += [
                (self._number, symbols[made.name], symbols[made.alias])
                for made in written
                if made.alias
            ]

    def _own(self, function: TileKernel | CompiledFunction) -> set[str]:
        """The header's buffers that a function names itself; one that is written already names
        none."""
        if isinstance(function, CompiledFunction):
            return set()
        if function.name not in self._named:
            self._named[function.name] = _named(function.body) - {
                parameter.name for parameter in function.parameters
            }
        return self._named[function.name]

    def _share(self, function: TileKernel | CompiledFunction) -> float:
        share = self._shares.get(function.name)
        if share is None:
            share = self._shares[function.name] = _HIDDEN if _multiplies(function) else 1.0
        return share

    def _use(
        self,
        instruction: TileInstruction,
        bound: dict[str, tuple[str, ...]],
        written: set[str],
        once: bool,
        share: float,
    ) -> None:
        self._number += 1
        for symbol, parameters in bound.items():
            value = self._values.get(symbol)
            if value is not None:
                use = _Use(
                    len(self.taken) - 1,
                    self._number,
                    instruction,
                    parameters,
                    symbol in written,
                    once and bool(parameters),
                    share,
                )
                value.uses.append(use)


def _multiplies(function: TileKernel | CompiledFunction) -> bool:
    """Whether there are products in a function."""
    if isinstance(function, CompiledFunction):
        return any(line.startswith("    MM") for line in function.lines)
    return any(
        str(instruction.parts[0]).startswith("MM") for instruction in instructions(function.body)
    )


def _named(block: Block) -> set[str]:
    """The buffers that a block's instructions name."""
    found: set[str] = set()
    for instruction in instructions(block):
        if instruction.transfer is not None:
            found.add(instruction.transfer.buffer)
        found.update(instruction.from_memory)
    return found
