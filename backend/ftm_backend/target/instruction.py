"""Record types of the instruction table.

Parser, printer, verifier, image format, the emulator's generated header, the cycle model and
``docs/isa.md`` are all driven by these records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
SIDES = "sides"  # 28@1 28@1 | 30@30 30@1: extent@padding before it | padded extent@its stride
LABEL = "label"  # BB_end
FUNCTION = "function"  # kernel_0
ARGUMENTS = "arguments"  # b0[128], t5[r3], s2: any number, matching the function's parameters
MAP_HEADER = "map_header"  # r7 x 64, X:v0 -> Y:v1

# Types of operands of map operations: a suffix ("I64", "B1"), or one of these.
SAME = "T"  # the operation's type
FROM = "F"  # the second suffix of a conversion


@dataclass(frozen=True)
class OperandDef:
    """One operand.

    Attributes:
        name: Its name in formulas.
        kind: One of the constants of this module; for a map operation the type of the operand.
    """

    name: str
    kind: str


@dataclass(frozen=True)
class Cost:
    """What an instruction costs.

    Attributes:
        slots: (unit, operations per vector, or per instruction outside of maps).
        latency: Cycles from issue to use of the result.
        model: How the cycle model charges it: ``issue`` (slots only), ``dma``, ``mm``, ``trans``,
            ``scan``, ``sort``, ``merge``, ``fold``, ``map``, ``gather``, ``wait``, ``branch`` or
            ``barrier``.
    """

    slots: tuple[tuple[str, int], ...]
    latency: int
    model: str = "issue"


@dataclass(frozen=True)
class MacroDef:
    """The expansion of an instruction into simpler ones.

    Attributes:
        name: ``module.function`` in ``target.macros``. The function of a map operation records the
            expansion on a `MacroBuilder`, and ``target.op_costs`` costs it. The function of any
            other instruction executes it on a `MacroSimulator`, which counts its cycles.
        types: Suffixes of a map operation that are expanded; the row's own cost holds for others.
        widened: Whether F16 and BF16 are computed in F32 and rounded once.
    """

    name: str
    types: tuple[str, ...] = ()
    widened: bool = True

    @property
    def function(self) -> Callable[..., Any]:
        """The expansion function; imported on demand, since compilation never calls it."""
        module, _, function = self.name.partition(".")
        return getattr(import_module(f"ftm_backend.target.macros.{module}"), function)


@dataclass(frozen=True)
class InstructionExample:
    """An executable example of an instruction, with its expected results.

    Attributes:
        body: For a map operation, lines of a map body over v0, v1, ... (the inputs) that end by
            writing the registers ``results``. For any other instruction, the text of
            ``@func main``.
        inputs: Name -> (dtype token, shape, flat values).
        outputs: As ``inputs``.
        scalars: Name -> (dtype token, value).
        results: See ``body``.
    """

    body: str
    inputs: dict[str, tuple[str, tuple[int, ...], Sequence[float]]]
    outputs: dict[str, tuple[str, tuple[int, ...], Sequence[float]]]
    scalars: dict[str, tuple[str, float]] = field(default_factory=dict)
    results: tuple[str, ...] = ()


@dataclass(frozen=True)
class InstructionDef:
    """One row of the instruction table.

    Attributes:
        name: Mnemonic without suffixes.
        family: Chapter of the manual. Instructions of a family ``map ...`` are legal only inside
            of ``@map``.
        operands: Operands in order.
        doc: One or two sentences for the manual.
        formula: The precise meaning.
        cost: Cost for the types that are not expanded by ``macro``.
        example: Program that shows the instruction; a test executes it.
        suffixes: Optional words in their order, each at most once (``.TA``); a nested tuple lists
            alternatives.
        types: Legal type suffixes of a map operation; empty if it takes none.
        from_types: Legal second type suffixes of a conversion.
        result: Type of the result of a map operation.
        macro: Its expansion, if any.
        elements: Operations of linalg bodies that it implements (``math.tanh``).
        exact: Whether the result for half-precision operands is representable without rounding.
        mirrors: The operation whose kernel computes it with the two operands swapped.
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
        """Whether the instruction is legal only inside of ``@map``."""
        return self.family.startswith("map")
