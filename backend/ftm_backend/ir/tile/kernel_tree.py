"""Tile IR of a kernel: a tree of loops, branches and instructions.

Lowerings write it (``builder``). Codegen then overlaps transfers with compute, places tiles in the
scratchpad, inserts waits and allocates registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import NamedTuple

from ftm_backend.ir.tile.index_expr import Atom, Expr, IndexFactory
from ftm_backend.target.element_types import slot_bytes

__all__ = [
    "Block",
    "IndexUse",
    "KernelParameter",
    "Parts",
    "Slot",
    "TileBranch",
    "TileDecl",
    "TileInstruction",
    "TileKernel",
    "TileLoop",
    "Transfer",
    "callee_and_arguments",
    "gsm_bytes",
    "instructions",
]


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


class IndexUse(NamedTuple):
    """An index expression as an operand of an instruction.

    ``address`` marks an operand that may be register plus constant (addresses and slots); any
    other one must be a register or a constant.
    """

    expr: Expr
    address: bool = False


Parts = list["str | IndexUse | Slot"]
"""Text of an instruction with index expressions in between; a slot prints ``X`` or ``X[index]``."""


@dataclass(eq=False)
class Transfer:
    """The memory in DDR that a DMA instruction accesses, to decide whether two may overlap.

    Attributes:
        buffer: Symbol of the buffer.
        offset: First element.
        extents: Extents of all dimensions.
        strides: Strides of all dimensions, in elements.
    """

    buffer: str
    offset: Expr
    extents: tuple[Expr, ...]
    strides: tuple[int, ...]

    @property
    def span(self) -> float:
        """Upper bound of the elements from the first to the last that it accesses."""
        reach = [
            (e.high - 1) * s if s > 0 else inf
            for e, s in zip(self.extents, self.strides, strict=True)
            if s
        ]
        return sum(reach) + 1


@dataclass(eq=False)
class TileInstruction:
    """One instruction, or one ``@map`` block.

    Attributes:
        kind: ``load``, ``store``, ``gather``, ``scatter``, ``copy`` (these five are DMA),
            ``compute``, ``index`` (defines ``result``), ``barrier``, ``call``, ``wait`` or
            ``waitall``.
        parts: Its text.
        reads: Slots that it reads.
        writes: Slots that it writes; an accumulator is in both.
        result: The variable that an instruction of kind ``index`` defines.
        transfer: The memory in DDR that a DMA instruction accesses.
        from_memory: Buffers that it reads other than by DMA.
    """

    kind: str
    parts: Parts
    reads: list[Slot] = field(default_factory=list)
    writes: list[Slot] = field(default_factory=list)
    result: Atom | None = None
    transfer: Transfer | None = None
    from_memory: tuple[str, ...] = ()

    @property
    def is_dma(self) -> bool:
        """Whether it continues asynchronously after the core has issued it."""
        return self.kind in ("load", "store", "gather", "scatter", "copy")

    def slots(self) -> Sequence[Slot]:
        """Return all slots that it accesses."""
        return [*self.reads, *self.writes]


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


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """A buffer parameter, which every call binds.

    Attributes:
        name: Its name.
        dtype: Element type.
        out: Whether the function writes it.
        alias: Another parameter that a call may bind to the same memory.
    """

    name: str
    dtype: str
    out: bool = False
    alias: str = ""


@dataclass
class TileKernel:
    """One function.

    Attributes:
        name: Its name.
        indices: Creates its index expressions.
        tiles: Tiles in order of declaration.
        body: Its statements.
        parameters: Buffers that calls bind.
        scalars: (name, type) of the scalars that calls bind, after the buffers.
    """

    name: str
    indices: IndexFactory
    tiles: list[TileDecl]
    body: Block
    parameters: list[KernelParameter] = field(default_factory=list)
    scalars: list[tuple[str, str]] = field(default_factory=list)


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
    text = "".join(part for part in call.parts if isinstance(part, str))
    name, *arguments = text.removeprefix("@call ").split(", ")
    return (name, *(argument.partition("[")[0] for argument in arguments))


def gsm_bytes(kernel: TileKernel) -> int:
    """Return the number of bytes of GSM up to the end of a kernel's last tile, once placed."""
    return max(
        (tile.offset + tile.bytes for tile in kernel.tiles if tile.space == "gsm"), default=0
    )
