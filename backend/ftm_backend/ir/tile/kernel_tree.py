"""Tile IR of a kernel: a tree of loops, branches and instructions.

Lowerings write it (``builder``). Codegen then overlaps transfers with compute, places tiles in the
scratchpad, inserts waits and allocates registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from ftm_backend.ir.asm import program as p
from ftm_backend.ir.tile.index_expr import Atom, Expr, IndexFactory
from ftm_backend.target.element_types import slot_bytes


@dataclass(eq=False)
class TileDecl:
    """A ring of ``depth`` tiles.

    ``offset`` is its place in the space in bytes, -1 until ``allocate-scratchpad`` has run.
    """

    name: str
    space: str
    dtype: str
    rows: int
    columns: int
    depth: int
    item_bytes: int
    offset: int = -1

    @cached_property
    def slot_bytes(self) -> int:
        """Distance in bytes from one slot of the ring to the next."""
        return slot_bytes(self.rows, self.columns, self.item_bytes)

    @property
    def bytes(self) -> int:
        """Size of the whole ring in bytes."""
        return self.slot_bytes * self.depth


class Slot(NamedTuple):
    """One slot of a tile's ring: ``index`` modulo the depth."""

    tile: TileDecl
    index: Expr  # type: ignore[assignment]  # hides tuple.index


class Address(NamedTuple):
    """The element at ``offset`` in a buffer: ``b0[{64*i1}]``."""

    buffer: str
    offset: Expr


MapOperand = p.VectorRegister | p.Immediate | p.SymbolName | p.SlotReference | Expr
"""An operand of a map operation: a value, a constant, a program scalar, the address of a gather, or
an index expression that a register will hold."""


class MapOperation(NamedTuple):
    """An operation in the body of a map.

    Attributes:
        name: The mnemonic.
        operands: Sources, then the register that it writes.
        suffixes: Types, without dots.
    """

    name: str
    operands: tuple[MapOperand, ...]
    suffixes: tuple[str, ...]


TileOperand = (
    Expr
    | Atom
    | Slot
    | Address
    | p.Dims[Expr]
    | p.MapInput[Slot]
    | p.MapOutput[Slot]
    | p.SymbolName
)
"""An operand: a number, a variable that is defined, or a record that contains numbers and slots."""


class _Effect(NamedTuple):
    """What an instruction does.

    Attributes:
        kind: See `TileInstruction`.
        reads: Positions of the slots among its operands that it reads.
        writes: Positions of those that it writes; with ``.ACC`` it reads them, too.
    """

    kind: str
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()


EFFECTS = {
    "DLD": _Effect("load", (), (2,)),
    "DLB": _Effect("load", (), (3,)),
    "DST": _Effect("store", (0,)),
    "DGA": _Effect("gather", (1,), (3,)),
    "DSC": _Effect("scatter", (0, 1)),
    "DCP": _Effect("copy", (0,), (1,)),
    "DCW": _Effect("copy", (0,), (2,)),
    "MM": _Effect("compute", (0, 1), (2,)),
    "MMW": _Effect("compute", (0, 2), (3,)),
    "TRANS": _Effect("compute", (0,), (1,)),
    "FOLD": _Effect("compute", (0,), (2,)),
    "SCAN": _Effect("compute", (0, 1), (2, 1)),
    "SORT": _Effect("compute", (0,), (1,)),
    "MERGE": _Effect("compute", (0, 1), (2,)),
    "@map": _Effect("compute"),
    "SLDI": _Effect("index"),
    "BARRIER": _Effect("barrier"),
    "@call": _Effect("call"),
    "DWAIT": _Effect("wait"),
    "DWAITALL": _Effect("waitall"),
    "CSTART": _Effect("collective"),
    "CWAIT": _Effect("collective"),
}
"""The instructions of the tile IR. The slots of a map are `MapInput` and `MapOutput`."""


@dataclass(eq=False, slots=True)
class TileInstruction:
    """One instruction, or one ``@map`` block.

    Attributes:
        name: The mnemonic.
        operands: In the order of the text. Of a map: rows, columns, inputs, outputs.
        suffixes: As written after the mnemonic, without dots.
        body: Operations of a map.
        kind: ``load``, ``store``, ``gather``, ``scatter``, ``copy`` (these five are DMA),
            ``compute``, ``index`` (defines ``result``), ``barrier``, ``call``, ``wait``,
            ``waitall`` or ``collective``.
        reads: Slots that it reads.
        writes: Slots that it writes; an accumulator is in both.
        from_memory: Buffers that it reads other than by DMA.
    """

    name: str
    operands: tuple[TileOperand, ...] = ()
    suffixes: tuple[str, ...] = ()
    body: tuple[MapOperation, ...] = ()
    kind: str = field(init=False)
    reads: list[Slot] = field(init=False)
    writes: list[Slot] = field(init=False)
    from_memory: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        """Derive what it does from its name."""
        self.kind, reads, writes = EFFECTS[self.name]
        if self.name == "@map":
            gathers = (o.operands[0] for o in self.body if o.name == "VGA")
            self.from_memory = tuple(o.name for o in gathers if isinstance(o, p.SlotReference))
            outputs = [o for o in self.operands if isinstance(o, p.MapOutput)]
            self.reads = [o.tile for o in self.operands if isinstance(o, p.MapInput)]
            self.reads += [o.tile for o in outputs if o.accumulate]
            self.writes = [o.tile for o in outputs]
            return
        if self.kind in ("index", "collective"):
            self.from_memory = tuple(o.buffer for o in self.operands if isinstance(o, Address))
        self.reads, self.writes = self._slots_at(reads), self._slots_at(writes)
        if "ACC" in self.suffixes:
            self.reads += self.writes

    def _slots_at(self, positions: tuple[int, ...]) -> list[Slot]:
        slots = [self.operands[k] for k in positions]
        if not all(isinstance(slot, Slot) for slot in slots):
            raise ValueError(f"operands {positions} of {self.name} are slots of tiles")
        return slots  # type: ignore[return-value]  # checked

    @property
    def is_dma(self) -> bool:
        """Whether it continues asynchronously after the core has issued it."""
        return self.kind in ("load", "store", "gather", "scatter", "copy")

    @property
    def result(self) -> Atom | None:
        """The variable that an instruction of kind ``index`` defines."""
        last = self.operands[-1] if self.operands else None
        return last if isinstance(last, Atom) else None

    @property
    def address(self) -> Address | None:
        """The address in DDR that a DMA instruction accesses, or an ``index`` loads from."""
        return next((o for o in self.operands if isinstance(o, Address)), None)

    @property
    def dims(self) -> p.Dims[Expr]:
        """The dimensions of a transfer."""
        return next(o for o in self.operands if isinstance(o, p.Dims))

    @property
    def transferred(self) -> str | None:
        """The buffer in DDR that a DMA instruction accesses."""
        address = self.address if self.is_dma else None
        return None if address is None else address.buffer

    def slots(self) -> Sequence[Slot]:
        """Return all slots that it accesses."""
        return [*self.reads, *self.writes]

    def named_slots(self) -> Iterator[Slot]:
        """Yield the slots among its operands."""
        for operand in self.operands:
            if isinstance(operand, Slot):
                yield operand
            elif isinstance(operand, (p.MapInput, p.MapOutput)):
                yield operand.tile

    def rewritten(
        self, slot: Callable[[Slot], Slot], number: Callable[[Expr], Expr] | None = None
    ) -> TileInstruction:
        """Return the instruction with other slots, and with other numbers outside of slots."""
        new = number or _same

        def changed(operand: TileOperand) -> TileOperand:
            if isinstance(operand, Slot):
                return slot(operand)
            if isinstance(operand, (p.MapInput, p.MapOutput)):
                return replace(operand, tile=slot(operand.tile))
            if number is None:
                return operand
            if isinstance(operand, Expr):
                return new(operand)
            if isinstance(operand, Address):
                return Address(operand.buffer, new(operand.offset))
            if isinstance(operand, p.Dims):
                stride = operand.row_stride
                return p.Dims(
                    tuple((new(e), new(s)) for e, s in operand.rows),
                    tuple((new(e), new(s)) for e, s in operand.columns),
                    None if stride is None else new(stride),
                )
            return operand

        return replace(self, operands=tuple(map(changed, self.operands)))

    def renamed(self, buffer: str, name: str) -> TileInstruction:
        """Return the instruction with another buffer in place of ``buffer``."""
        operands = (
            Address(name, o.offset) if isinstance(o, Address) and o.buffer == buffer else o
            for o in self.operands
        )
        return replace(self, operands=tuple(operands))


def _same(number: Expr) -> Expr:
    return number


@dataclass(eq=False)
class TileLoop:
    """``for variable in range(lower, upper)``.

    Loops count iterations (step 1), so that the bounds of the counter are exact.
    """

    variable: Atom
    lower: Expr
    upper: Expr
    body: Block


@dataclass(eq=False)
class TileBranch:
    """``if condition: body``, ``else: otherwise``; the condition is 0 or 1."""

    condition: Expr
    body: Block
    otherwise: Block


Block = list["TileInstruction | TileLoop | TileBranch"]


@dataclass
class TileKernel:
    """One function.

    Attributes:
        name: Its name.
        indices: Creates its index expressions.
        tiles: Tiles in order of declaration.
        body: Its statements.
        parameters: What calls bind: buffers, then scalars.
    """

    name: str
    indices: IndexFactory
    tiles: list[TileDecl]
    body: Block
    parameters: list[p.AsmParameter] = field(default_factory=list)

    @property
    def gsm_bytes(self) -> int:
        """Bytes of GSM up to the end of its last tile, once tiles are placed."""
        ends = (tile.offset + tile.bytes for tile in self.tiles if tile.space == "gsm")
        return max(ends, default=0)

    @property
    def can_fault(self) -> bool:
        """Whether it accesses memory at data-dependent addresses, or communicates."""
        every = instructions(self.body)
        return any(i.kind in ("gather", "scatter", "collective") or i.from_memory for i in every)

    @property
    def has_products(self) -> bool:
        """Whether it contains matrix products."""
        return any(i.name in ("MM", "MMW") for i in instructions(self.body))

    @property
    def scattered(self) -> frozenset[str]:
        """The buffers that it writes at data-dependent addresses."""
        scatters = (i.transferred for i in instructions(self.body) if i.kind == "scatter")
        return frozenset(buffer for buffer in scatters if buffer is not None)


def instructions(block: Block) -> Iterator[TileInstruction]:
    """Yield all instructions below ``block`` in textual order."""
    for statement in block:
        if isinstance(statement, TileInstruction):
            yield statement
        elif isinstance(statement, TileLoop):
            yield from instructions(statement.body)
        else:
            yield from instructions(statement.body)
            yield from instructions(statement.otherwise)


def callee_and_arguments(call: TileInstruction) -> tuple[str, ...]:
    """Return the function that a ``call`` calls, then the buffers and scalars that it binds."""
    return tuple(
        operand.buffer if isinstance(operand, Address) else operand.name
        for operand in call.operands
        if isinstance(operand, (Address, p.SymbolName))
    )
