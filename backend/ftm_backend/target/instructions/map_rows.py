"""Helpers that build rows of map operations: operands, costs and examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend.target.element_types import BY_SUFFIX, FLOATS
from ftm_backend.target.instruction import (
    SAME,
    Cost,
    InstructionDef,
    InstructionExample,
    MacroDef,
    OperandDef,
)

MOVE = Cost((("VMAC", 1),), 1)
VIEU1 = Cost((("VIEU", 1),), 1)
FMA = Cost((("VMAC", 1),), 6)
MUL = Cost((("VMAC", 1),), 4)


EXPANDED = Cost((), 0)
"""Cost of an operation that is a macro for every type; ``target.op_costs`` derives it."""


def example(
    line: str,
    result: tuple[str, Sequence[float]],
    *inputs: tuple[str, Sequence[float]],
    **scalars: tuple[str, float],
) -> InstructionExample:
    """Make an example of one map operation on a row of elements.

    Args:
        line: The operation; it reads v0, v1, ... and writes v9.
        result: (type suffix, values) of v9.
        inputs: (type suffix, values) of v0, v1, ...
        scalars: Program scalars: (dtype token, value) by name.
    """

    def row(value: tuple[str, Sequence[float]]) -> tuple[str, tuple[int, ...], list[float]]:
        suffix, values = value
        return BY_SUFFIX[suffix].token, (len(values),), list(values)

    return InstructionExample(
        line,
        {f"b{i}": row(value) for i, value in enumerate(inputs)},
        {"o0": row(result)},
        dict(scalars),
        ("v9",),
    )


def operation(
    name: str,
    family: str,
    sources: str,
    doc: str,
    formula: str,
    types: tuple[str, ...],
    cost: Cost,
    shown: InstructionExample,
    *,
    kinds: Sequence[str] | None = None,
    result: str = SAME,
    from_types: tuple[str, ...] = (),
    macro: MacroDef | None = None,
    elements: str = "",
    exact: bool = False,
    mirrors: str = "",
) -> InstructionDef:
    """Make the row of a map operation.

    ``sources`` has the names of the source operands, one letter each, and ``kinds`` their types; by
    default all have the operation's type. ``elements`` lists operations of linalg bodies, separated
    by blanks. ``shown`` is the example. The other arguments are fields of `InstructionDef`.
    """
    rules = kinds or [SAME] * len(sources)
    operands = tuple(OperandDef(n, k) for n, k in zip(sources, rules, strict=True))
    return InstructionDef(
        name,
        family,
        (*operands, OperandDef("d", result)),
        doc,
        formula,
        cost,
        shown,
        types=types,
        from_types=from_types,
        result=result,
        macro=macro,
        elements=tuple(elements.split()),
        exact=exact,
        mirrors=mirrors,
    )


def unary_math(
    name: str,
    doc: str,
    formula: str,
    expansion: str,
    function: Callable[[float], float],
    values: Sequence[float],
    *,
    elements: str | None = None,
    exact: bool = False,
) -> InstructionDef:
    """Make the row of a floating-point function of one operand.

    Args:
        name: Mnemonic.
        doc: For the manual.
        formula: For the manual.
        expansion: Its macro.
        function: Computes the results of the example.
        values: Operands of the example.
        elements: Operations of linalg bodies that it implements; by default ``math.<name>``.
        exact: See `InstructionDef`.
    """
    shown = example(f"{name}.F64 v0, v9", ("F64", [function(x) for x in values]), ("F64", values))
    return operation(
        name,
        "map math",
        "a",
        doc,
        formula,
        FLOATS,
        EXPANDED,
        shown,
        macro=MacroDef(expansion, FLOATS),
        elements=f"math.{name[1:].lower()}" if elements is None else elements,
        exact=exact,
    )
