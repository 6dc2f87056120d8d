"""Analysis: when the kernels of a program use the regions of its arena, and how much GSM they use.

Time is counted in *epochs*, from one barrier of ``main`` to the next. Within an epoch cores are not
synchronized with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ftm_backend.ir.asm.program import BufferDirective
from ftm_backend.ir.tile.kernel_tree import (
    Block,
    TileBranch,
    TileInstruction,
    TileKernel,
    TileLoop,
    callee_and_arguments,
    instructions,
)
from ftm_backend.ir.tile.program import CompiledFunction, TileProgram
from ftm_backend.symbolic import SymInt
from ftm_backend.target.element_types import slot_bytes
from ftm_backend.target.presets import ELEMENT_BYTES


@dataclass(frozen=True, eq=False)
class _Use:
    """A kernel's reads and writes of a value.

    Attributes:
        epoch: Number of the epoch.
        number: Position in the order of kernels.
        instruction: The call.
        parameters: Parameters that the value is bound to.
        writes: Whether one of them is written.
        once: Whether it is a call outside of loops.
        share: Estimated fraction of its transfers' time that the kernel waits for.
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

    Attributes:
        directive: Its declaration.
        bytes: Its size.
        uses: In order.
        tied: Values that share its memory because a kernel computes one from the other in place.
    """

    directive: BufferDirective
    bytes: int
    uses: list[_Use] = field(default_factory=list)
    tied: list[ArenaValue] = field(default_factory=list)

    @property
    def symbol(self) -> str:
        """Its name."""
        return self.directive.name

    @property
    def region(self) -> tuple[int, int]:
        """Its offset in the arena, and its size."""
        return self.directive.offset, self.bytes


@dataclass(eq=False)
class Residency:
    """A candidate: a value that is in GSM for all of its uses, or as a copy for the first of them.

    Attributes:
        value: The value.
        uses: Uses that access GSM.
        copy: Whether the value is stored to the arena as well, for later uses.
        bytes: Bytes of GSM.
        first: First epoch in which it is live.
        last: Last epoch in which it is live.
        saved: Number of transfers from or to DDR that nothing waits for any more, weighted by
            `_Use.share`. A value with one use is both written and read by it. The store of a copy
            saves nothing.
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
        """Whether both may have the same offset although their lifetimes overlap."""
        return not self.copy and not other.copy and other.value in self.value.tied


_HIDDEN = 0.25
"""Fraction of its transfers' time that a kernel with matrix products waits; an estimate."""


class ArenaLifetimes:
    """The values of the arena that are used, and the GSM that tiles occupy in each epoch.

    Values of symbolic size are left out, and kernels with symbolic tiles count as using all of GSM.

    Attributes:
        values: The values.
        gsm_used: Bytes of GSM per epoch that kernels use for tiles.
    """

    def __init__(self, program: TileProgram, capacity: int) -> None:
        self._functions = {function.name: function for function in program.functions}
        self._named: dict[str, set[str]] = {}
        self._shares: dict[str, float] = {}
        self._capacity = capacity
        self._values: dict[str, ArenaValue] = {}
        for region in program.buffers("arena"):
            size = region.elements * ELEMENT_BYTES[region.dtype]
            if not isinstance(size, SymInt) and not isinstance(region.offset, SymInt):
                self._values[region.name] = ArenaValue(region, size)
        self.gsm_used = [0]
        self._number = 0
        self._replaced: list[tuple[int, str, str]] = []
        main = self._functions["main"]
        assert isinstance(main, TileKernel)
        for statement in main.body:
            if isinstance(statement, TileInstruction) and statement.kind == "barrier":
                self.gsm_used.append(0)
            else:
                self._visit([statement], isinstance(statement, TileLoop))
        self.values = [value for value in self._values.values() if value.uses]
        for number, result, source in self._replaced:
            later, earlier = self._values.get(result), self._values.get(source)
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
        need = function.gsm_bytes
        size = self._capacity if isinstance(need, SymInt) else need
        self.gsm_used[-1] = max(self.gsm_used[-1], size)
        bound: dict[str, tuple[str, ...]] = dict.fromkeys(self._own(function), ())
        # Arguments after the buffers are scalars.
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
        """Return the global buffers that a function uses directly; a compiled one uses none."""
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
            share = self._shares[function.name] = _HIDDEN if function.has_products else 1.0
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
                    len(self.gsm_used) - 1,
                    self._number,
                    instruction,
                    parameters,
                    symbol in written,
                    once and bool(parameters),
                    share,
                )
                value.uses.append(use)


def _named(block: Block) -> set[str]:
    """Return the buffers that a block's instructions access."""
    found: set[str] = set()
    for instruction in instructions(block):
        if instruction.transferred is not None:
            found.add(instruction.transferred)
        found.update(instruction.from_memory)
    return found
