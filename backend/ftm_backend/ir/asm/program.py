"""A program as plain data: what the parser builds, the printer prints and the assembler reads.

Operands are immutable and shared: equal texts may be the same object. Lines count from 1; 0 means
that the item was not parsed from a text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Register:
    """Scalar register ``r<number>``."""

    number: int


@dataclass(frozen=True, slots=True)
class VectorRegister:
    """Map register ``v<number>``."""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Immediate:
    """An integer or a float, as written: 1 and 1.0 differ, -0.0 and 0.0 differ, nan equals nan."""

    value: int | float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Immediate) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(self.value) if self.value == self.value else 0


@dataclass(frozen=True, slots=True)
class SymbolName:
    """A program scalar, a label or a function."""

    name: str


@dataclass(frozen=True, slots=True)
class SlotReference:
    """``name[index + offset]``: a slot of a tile, or an address in a buffer.

    index: register number, or -1.
    """

    name: str
    index: int = -1
    offset: int = 0


Scalar = Register | Immediate | SymbolName
"""What a scalar source may be."""


@dataclass(frozen=True, slots=True)
class Dims:
    """``extent@stride ... | extent@stride ...``: the two sides of a transfer.

    For row transfers (``1024 | 64@1``) ``row_stride`` is set and ``rows`` is empty.
    """

    rows: tuple[tuple[Scalar, Scalar], ...]
    columns: tuple[tuple[Scalar, Scalar], ...]
    row_stride: Scalar | None = None


Operand = Register | VectorRegister | Immediate | SymbolName | SlotReference | Dims


@dataclass(slots=True)
class AsmInstruction:
    """One instruction; ``suffixes`` as written after the mnemonic, without dots.

    predicate: ``(register, negated)`` or None.
    """

    name: str
    operands: tuple[Operand, ...] = ()
    suffixes: tuple[str, ...] = ()
    predicate: tuple[int, bool] | None = None
    line: int = 0
    comment: str = ""


@dataclass(frozen=True, slots=True)
class MapInput:
    """``X[r5]:v1.col``: access is ``full``, ``row``, ``col`` or ``one``."""

    tile: SlotReference
    register: int
    access: str = "full"


@dataclass(frozen=True, slots=True)
class MapOutput:
    """``Y[r5]:v4.rsum.acc``: scope is ``full``, ``r``, ``c`` or ``a``; reduction is empty for
    ``full``."""

    tile: SlotReference
    register: int
    scope: str = "full"
    reduction: str = ""
    accumulate: bool = False


@dataclass(slots=True)
class MapBlock:
    """A ``@map`` block."""

    rows: Scalar
    columns: Scalar
    inputs: tuple[MapInput, ...]
    outputs: tuple[MapOutput, ...]
    body: list[AsmInstruction | Comment] = field(default_factory=list)
    predicate: tuple[int, bool] | None = None
    line: int = 0
    comment: str = ""


@dataclass(slots=True)
class Label:
    """A label; ``bounds`` are the least and the greatest trip count of the loop that it heads."""

    name: str
    bounds: tuple[int, int] | None = None
    line: int = 0
    comment: str = ""


@dataclass(slots=True)
class Comment:
    """A line of its own with a comment, or an empty line."""

    text: str
    line: int = 0


@dataclass(slots=True)
class TileDirective:
    """``@tile name, space, dtype, rowsxcolumns, depth, offset``: a ring of ``depth`` slots.

    offset: bytes in the space.  Slots follow each other at the next multiple of 64 bytes.
    """

    name: str
    space: str
    dtype: str
    rows: int
    columns: int
    depth: int
    offset: int
    line: int = 0
    comment: str = ""


@dataclass(slots=True)
class AsmParameter:
    """``@param x0, f32`` (a buffer) or ``@scalar a0, f64`` in a function: what every call of it
    binds.

    out: a buffer that the function writes. alias: another buffer parameter that may be bound to the
        same memory.
    """

    name: str
    dtype: str
    scalar: bool = False
    out: bool = False
    alias: str = ""
    line: int = 0
    comment: str = ""


@dataclass(slots=True)
class AsmFunction:
    """``@func`` to ``@ret``: parameters, tiles and code in the order of the text."""

    name: str
    items: list[AsmParameter | TileDirective | AsmInstruction | MapBlock | Label | Comment] = field(
        default_factory=list
    )
    line: int = 0
    end: int = 0
    comment: str = ""
    end_comment: str = ""
    object: Any = field(default=None, compare=False, repr=False)
    """Its `objects.FunctionObject`, where the assembler has encoded it before; then ``items`` has
    no more than parameters."""

    @property
    def parameters(self) -> list[AsmParameter]:
        """The parameters, in order."""
        return [item for item in self.items if isinstance(item, AsmParameter)]


@dataclass(slots=True)
class BufferDirective:
    """A header line: ``kind`` is ``in``, ``out``, ``const``, ``arena`` or ``gsm``.

    alias: outputs: the input whose storage may be passed.  data: constants: little-endian bytes.
    offset: arena, gsm: bytes.
    """

    kind: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    alias: str = ""
    data: bytes = b""
    offset: int = 0
    line: int = 0
    comment: str = ""

    @property
    def elements(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count


@dataclass(slots=True)
class ScalarArgument:
    """``@scalar s0, f64``."""

    name: str
    dtype: str
    line: int = 0
    comment: str = ""


@dataclass(slots=True)
class AsmProgram:
    """A whole assembly file.

    source: the lines of the text that it was parsed from, for messages; empty otherwise.
    """

    name: str
    machine: str
    header: list[BufferDirective | ScalarArgument | Comment] = field(default_factory=list)
    functions: list[AsmFunction | Comment] = field(default_factory=list)
    line: int = 0
    comment: str = ""
    source: list[str] = field(default_factory=list, compare=False, repr=False)
    leading: list[Comment] = field(default_factory=list)

    def buffers(self, kind: str) -> list[BufferDirective]:
        """The buffers of one kind, in the order of the text."""
        return [
            item for item in self.header if isinstance(item, BufferDirective) and item.kind == kind
        ]

    def scalars(self) -> list[ScalarArgument]:
        """The runtime scalar arguments, in order."""
        return [item for item in self.header if isinstance(item, ScalarArgument)]

    def __str__(self) -> str:
        from ftm_backend.ir.asm.printer import print_program

        return print_program(self)
