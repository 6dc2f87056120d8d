"""What the instruction table says about one instruction: the record types, without any instruction.

Everything that knows instructions reads these records: parser, printer, verifier, image, the
emulator's generated header, the cycle model, and ``docs/isa.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

# Operand kinds of instructions outside maps.
REGISTER = "register"  # rN, written
SCALAR = "scalar"  # rN, integer immediate or an i64 program scalar, read
ADDRESS = "address"  # b0[r3+12]
SLOT = "slot"  # X[r5]
DIMS = "dims"  # 2@512 r7@64 | 8@1
ROW_DIMS = "row_dims"  # 1024 | 64@1
# 28@1 28@1 | 30@30 30@1: extents and what is before them, extents and strides with the border
SIDES = "sides"
LABEL = "label"  # BB_end
FUNCTION = "function"  # kernel_0
ARGUMENTS = "arguments"  # b0[128], t5[r3], s2: any number, as the function's parameters say
MAP_HEADER = "map_header"  # r7 x 64, X:v0 -> Y:v1

# Types of map operands: a suffix ("I64", "B1"), or one of these.
SAME = "T"  # the operation's type
FROM = "F"  # the second suffix of a conversion


@dataclass(frozen=True)
class OperandDef:
    """One operand: its name in formulas, and its kind (see the constants of this module).

    In map operations ``kind`` is the type rule of the register or immediate.
    """

    name: str
    kind: str


@dataclass(frozen=True)
class Cost:
    """What an instruction occupies: ``slots`` gives operations per vector (or per instruction) by
    unit.

    latency: cycles from issue to use of the result. model: how the cycle model treats it: ``issue``
    (slots only), ``dma``, ``mm``, ``trans``, ``scan``, ``sort``, ``merge``, ``map``, ``gather``,
    ``wait``, ``branch``, ``barrier``.
    """

    slots: tuple[tuple[str, int], ...]
    latency: int
    model: str = "issue"


@dataclass(frozen=True)
class MacroDef:
    """That an instruction stands for others.

    name: ``module.function`` of ``target.macros``. Of a map operation it records the others on a
    ``Body``, for which ``target.op_costs`` says what they cost; of another instruction it executes
    or counts them on a ``Unit``. types: suffixes of the map operation for which it is a macro; of
    others the row's own cost holds. widened: F16 and BF16 are computed in F32 and rounded once.
    """

    name: str
    types: tuple[str, ...] = ()
    widened: bool = True

    @property
    def function(self) -> Callable[..., Any]:
        """The expansion; compilers, which run none, do not load it."""
        module, _, function = self.name.partition(".")
        found: Callable[..., Any] = getattr(
            import_module(f"ftm_backend.target.macros.{module}"), function
        )
        return found


@dataclass(frozen=True)
class InstructionExample:
    """A program that shows the instruction, and what it computes.

    inputs, outputs: name -> (type token, shape, flat values). scalars: name -> (type token, value).
    body: for map operations the lines of the map body over v0, v1, ... (the inputs) that end by
    writing the registers in ``results``; for others the text of ``@func main``.
    """

    body: str
    inputs: dict[str, tuple[str, tuple[int, ...], list[Any]]]
    outputs: dict[str, tuple[str, tuple[int, ...], list[Any]]]
    scalars: dict[str, tuple[str, Any]] = field(default_factory=dict)
    results: tuple[str, ...] = ()


@dataclass(frozen=True)
class InstructionDef:
    """One row of the table.

    name: mnemonic without suffixes. family: chapter of the manual, and ``map`` instructions are
    those legal inside ``@map`` only. suffixes: optional words, in order, each of which may follow
    once (``.TA``); a tuple inside stands for alternatives. types: legal type suffixes of a map
    operation; empty when it takes none. doc: one or two sentences. formula: the precise meaning.
    cost: of types for which the operation is no macro.

    Of operations on strips, whose kernels are in the machine's table (machine/src/kernels):
    elements: what bodies of linalg call the operation (``math.tanh``). exact: of halves, the result
    is a half without rounding. mirrors: the operation whose kernel computes it, with the two
    operands exchanged.
    """

    name: str
    family: str
    operands: tuple[OperandDef, ...]
    doc: str
    formula: str
    cost: Cost
    example: InstructionExample
    suffixes: tuple[str | tuple[str, ...], ...] = ()
    types: tuple[str, ...] = ()
    from_types: tuple[str, ...] = ()
    result: str = SAME
    macro: MacroDef | None = None
    elements: tuple[str, ...] = ()
    exact: bool = False
    mirrors: str = ""

    @property
    def in_map(self) -> bool:
        """Whether the instruction belongs inside ``@map``."""
        return self.family.startswith("map")
