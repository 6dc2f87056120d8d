"""Assembly programs as plain data, from code generation or the parser to printer and assembler.

Operands are shared and must not change. They are not frozen, because a function has thousands and
a frozen record takes three times as long to make. Lines count from 1; 0 means that the item has no
place in a text yet (``printer.lay_out`` gives it one).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar


@dataclass(slots=True, unsafe_hash=True)
class Register:
    """Scalar register ``r<number>``."""

    number: int


@dataclass(slots=True, unsafe_hash=True)
class VectorRegister:
    """Map register ``v<number>``."""

    number: int


@dataclass(slots=True, eq=False)
class Immediate:
    """An integer or a float as written: 1 != 1.0, -0.0 != 0.0, nan == nan."""

    value: int | float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Immediate) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(self.value) if self.value == self.value else 0


@dataclass(slots=True, unsafe_hash=True)
class SymbolName:
    """The name of a program scalar, a label or a function."""

    name: str


@dataclass(slots=True, unsafe_hash=True)
class SlotReference:
    """``name[index + offset]``: a slot of a tile, or an address in a buffer.

    Attributes:
        name: The tile or buffer.
        index: Number of a scalar register, or -1 for none.
        offset: Constant that is added.
    """

    name: str
    index: int = -1
    offset: int = 0


Scalar = Register | Immediate | SymbolName
"""A scalar source operand."""


NumberT = TypeVar("NumberT")
"""A number of an operand: a `Scalar`, or an index expression in the tile IR."""

SlotT = TypeVar("SlotT")
"""A slot of a tile: a `SlotReference`, or a ``Slot`` in the tile IR."""


@dataclass(slots=True, unsafe_hash=True)
class Dims(Generic[NumberT]):
    """``extent@stride ... | extent@stride ...``: the two sides of a transfer.

    For row transfers (``1024 | 64@1``) ``row_stride`` is set and ``rows`` is empty.
    """

    rows: tuple[tuple[NumberT, NumberT], ...]
    columns: tuple[tuple[NumberT, NumberT], ...]
    row_stride: NumberT | None = None


@dataclass(slots=True, unsafe_hash=True)
class MapInput(Generic[SlotT]):
    """``X[r5]:v1.col``: an input of a map; ``access`` is ``full``, ``row``, ``col`` or ``one``."""

    tile: SlotT
    register: int
    access: str = "full"


@dataclass(slots=True, unsafe_hash=True)
class MapOutput(Generic[SlotT]):
    """``Y[r5]:v4.rsum.acc``: an output of a map.

    Attributes:
        tile: The slot.
        register: Number of the vector register.
        scope: ``full``, ``r`` (reduce each row), ``c`` (each column) or ``a`` (all elements).
        reduction: ``sum``, ``max``, ...; empty for ``full``.
        accumulate: Whether to combine the result with the content of the tile.
    """

    tile: SlotT
    register: int
    scope: str = "full"
    reduction: str = ""
    accumulate: bool = False


Operand = (
    Register
    | VectorRegister
    | Immediate
    | SymbolName
    | SlotReference
    | Dims[Scalar]
    | MapInput[SlotReference]
    | MapOutput[SlotReference]
)


@dataclass(slots=True)
class AsmInstruction:
    """One instruction, or one ``@map`` block.

    Attributes:
        name: The mnemonic.
        operands: In the order of the text. Of a map: rows, columns, inputs, outputs.
        suffixes: As written after the mnemonic, without dots.
        predicate: ``(register, negated)`` or None.
        line: Line of the text.
        comment: Comment at the end of the line.
        body: Operations of a map.
    """

    name: str
    operands: tuple[Operand, ...] = ()
    suffixes: tuple[str, ...] = ()
    predicate: tuple[int, bool] | None = None
    line: int = 0
    comment: str = ""
    body: list[AsmInstruction | Comment] = field(default_factory=list)

    @property
    def inputs(self) -> list[MapInput[SlotReference]]:
        """The inputs of a map."""
        return [o for o in self.operands if isinstance(o, MapInput)]

    @property
    def outputs(self) -> list[MapOutput[SlotReference]]:
        """The outputs of a map."""
        return [o for o in self.operands if isinstance(o, MapOutput)]


@dataclass(slots=True)
class Label:
    """A label; ``bounds`` are the least and greatest trip count of the loop that it starts."""

    name: str
    bounds: tuple[int, int] | None = None
    line: int = 0
    comment: str = ""


@dataclass(slots=True)
class Comment:
    """A line that has only a comment, or an empty line."""

    text: str
    line: int = 0


@dataclass(slots=True)
class TileDirective:
    """``@tile name, space, dtype, rowsxcolumns, depth, offset``: a ring of ``depth`` slots.

    ``offset`` is in bytes from the start of the space. Each slot starts at the next multiple of 64
    bytes after the slot before it.
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
    """A parameter of a function: ``@param x0, f32`` (a buffer) or ``@scalar a0, f64``.

    Attributes:
        name: Its name.
        dtype: Its type.
        scalar: Whether it is a scalar.
        out: Whether the function writes the buffer.
        alias: Another buffer parameter that a call may bind to the same memory.
        line: Line of the text.
        comment: Comment at the end of the line.
    """

    name: str
    dtype: str
    scalar: bool = False
    out: bool = False
    alias: str = ""
    line: int = 0
    comment: str = ""


FunctionItem = AsmParameter | TileDirective | AsmInstruction | Label | Comment


@dataclass(slots=True)
class AsmFunction:
    """``@func`` to ``@ret``: parameters, tiles and code in textual order.

    Attributes:
        name: Its name.
        items: What stands between ``@func`` and ``@ret``.
        line: Line of ``@func``.
        end: Line of ``@ret``.
        comment: Comment at the end of the line of ``@func``.
        end_comment: Comment at the end of the line of ``@ret``.
        printed: The lines of ``items``, of a function that does not change any more; else empty.
        object: Its `assembler.object_files.ObjectFile`, once it is assembled, or None. With one,
            ``items`` may have parameters only.
    """

    name: str
    items: list[FunctionItem] = field(default_factory=list)
    line: int = 0
    end: int = 0
    comment: str = ""
    end_comment: str = ""
    printed: tuple[str, ...] = field(default=(), compare=False, repr=False)
    object: Any = field(default=None, compare=False, repr=False)

    @property
    def parameters(self) -> list[AsmParameter]:
        """The parameters, in order."""
        return [item for item in self.items if isinstance(item, AsmParameter)]


@dataclass(slots=True)
class BufferDirective:
    """A header line that declares a buffer.

    Attributes:
        kind: ``in``, ``out``, ``const``, ``arena`` or ``gsm``.
        name: Its name.
        dtype: Element type.
        shape: Extents.
        alias: For ``out``: the input whose storage the caller may pass.
        data: For ``const``: little-endian bytes.
        offset: For ``arena`` and ``gsm``: bytes from the start of that memory.
        line: Line of the text.
        comment: Comment at the end of the line.
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
    """``@scalar s0, f64`` in the header: a runtime scalar."""

    name: str
    dtype: str
    line: int = 0
    comment: str = ""


@dataclass(slots=True)
class AsmProgram:
    """A whole assembly file.

    ``source`` has the lines of the text that it was parsed from or laid out in, for error messages.
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
        """Return the buffers of one kind in textual order."""
        return [
            item for item in self.header if isinstance(item, BufferDirective) and item.kind == kind
        ]

    def scalars(self) -> list[ScalarArgument]:
        """Return the runtime scalars in order."""
        return [item for item in self.header if isinstance(item, ScalarArgument)]

    def __str__(self) -> str:
        from ftm_backend.ir.asm.printer import print_program

        return print_program(self)
