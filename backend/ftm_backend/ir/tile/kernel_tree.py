"""A kernel as a tree of loops and instructions: what the last passes before the text rewrite.

Lowerings write it (``builder.py``); codegen overlaps its transfers, lays its tiles out, inserts
waits and allocates registers.
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
    "KernelParameter",
    "Parts",
    "Slot",
    "SlotUse",
    "TileBranch",
    "TileDecl",
    "TileInstruction",
    "TileKernel",
    "TileLoop",
    "Transfer",
    "called",
    "gsm_bytes",
    "instructions",
]


@dataclass(eq=False)
class TileDecl:
    """A ring of tiles; ``offset`` is its place in the space, in bytes, once planned."""

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
        """Distance of one slot of the ring from the next."""
        return slot_bytes(self.rows, self.columns, self.item_bytes)

    @property
    def bytes(self) -> int:
        """Size of the whole ring."""
        return self.slot_bytes * self.depth


class Slot(NamedTuple):
    """One element of a tile's ring: ``index`` modulo the depth."""

    tile: TileDecl
    index: Expr  # type: ignore[assignment]  # instead of tuple's method of that name


class SlotUse(NamedTuple):
    """An index expression in the text of an instruction.

    ``address``: written as register plus number, as addresses and slots allow; else as one register
        or number.
    """

    expr: Expr
    address: bool = False


Parts = list["str | SlotUse | Slot"]
"""Text in which index expressions are left open; a slot stands for ``X`` or ``X[index]``."""


@dataclass(eq=False)
class Transfer:
    """What a DMA instruction touches in DDR: for the question whether two of them may overlap.

    extents, strides: of all its dimensions, in elements.
    """

    buffer: str
    offset: Expr
    extents: tuple[Expr, ...]
    strides: tuple[int, ...]

    @property
    def span(self) -> float:
        """Elements from the first to the last that it touches; infinite when not known."""
        reach = [
            (e.high - 1) * s if s > 0 else inf
            for e, s in zip(self.extents, self.strides, strict=True)
            if s
        ]
        return sum(reach) + 1


@dataclass(eq=False)
class TileInstruction:
    """One instruction, or one ``@map`` block.

    kind: ``load``, ``store``, ``gather``, ``scatter``, ``copy`` (DMA), ``compute``, ``index``
    (defines ``result``), ``barrier``, ``call``, ``wait`` or ``waitall``. parts: the text, in which
    index expressions are left open. reads, writes: the slots that it reads and those that it sets;
    one that is combined with is in both. from_memory: buffers that it reads other than by DMA;
    to_memory: the block that a DMA instruction touches.
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
        """Whether it goes on after the core has issued it."""
        return self.kind in ("load", "store", "gather", "scatter", "copy")

    def slots(self) -> Sequence[Slot]:
        """All slots that it touches."""
        return [*self.reads, *self.writes]


@dataclass(eq=False)
class TileLoop:
    """``for variable in range(lower, upper)``: counters count iterations, so that their bounds are
    exact."""

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
    """A buffer that every call binds: ``out`` where the function writes it, ``alias`` another one
    that may be the same memory."""

    name: str
    dtype: str
    out: bool = False
    alias: str = ""


@dataclass
class TileKernel:
    """One function: its name, tiles in order of declaration, and body; what calls bind: buffers,
    then (name, type) of scalars."""

    name: str
    indices: IndexFactory
    tiles: list[TileDecl]
    body: Block
    parameters: list[KernelParameter] = field(default_factory=list)
    scalars: list[tuple[str, str]] = field(default_factory=list)


def instructions(block: Block) -> Iterator[TileInstruction]:
    """All instructions below ``block``, in textual order."""
    for statement in block:
        if isinstance(statement, TileInstruction):
            yield statement
        elif isinstance(statement, TileLoop):
            yield from instructions(statement.body)
        else:
            yield from instructions(statement.body)
            yield from instructions(statement.otherwise)


def called(call: TileInstruction) -> tuple[str, ...]:
    """The function that an instruction of kind ``call`` runs, and the buffers and scalars that it
    binds."""
    text = "".join(part for part in call.parts if isinstance(part, str))
    name, *arguments = text.removeprefix("@call ").split(", ")
    return (name, *(argument.partition("[")[0] for argument in arguments))


def gsm_bytes(kernel: TileKernel) -> int:
    """Where the last of a kernel's tiles in GSM ends, once they are placed."""
    return max(
        (tile.offset + tile.bytes for tile in kernel.tiles if tile.space == "gsm"), default=0
    )
