"""Costs of map operations: those of their rows, or of their expansions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ftm_backend.target import instruction_table
from ftm_backend.target.element_types import BY_SUFFIX
from ftm_backend.target.instruction import SAME, Cost, InstructionDef
from ftm_backend.target.macros.macro_builder import SEEDS, MacroBuilder, MacroOperation, MacroValue

_SEED = Cost((("VMAC1", 1),), 1)
_HALVES = ("F16", "BF16")


def is_macro(row: InstructionDef, suffix: str) -> bool:
    """Whether an operation of type ``suffix`` is expanded; without types, its result's counts."""
    return row.macro is not None and (suffix or row.result) in row.macro.types


def expansion(row: InstructionDef, suffix: str, whole: bool = False) -> MacroBuilder:
    """Record the expansion of a map operation.

    Args:
        row: The operation.
        suffix: Its type.
        whole: Record all steps of data-dependent loops, although nearly all data need only one.

    Returns:
        The recorded operations. Operands are registers 0, 1, ...; the last one gives the result.
    """
    assert row.macro is not None
    body = MacroBuilder(
        [suffix if operand.kind == SAME else operand.kind for operand in row.operands[:-1]], whole
    )
    if suffix in _HALVES and row.macro.widened:
        result: MacroValue = row.macro.function(
            body, *(body.convert(value, "F32") for value in body.inputs)
        )
        body.convert(result, suffix)
    else:
        row.macro.function(body, *body.inputs)
    return body


def steps(row: InstructionDef, suffix: str) -> Iterator[tuple[MacroOperation, Cost, int]]:
    """Yield the operations of an expansion, each with its cost and the vectors it works on.

    An operation on elements wider than the macro's own type works on several vectors.
    """
    own = max(
        BY_SUFFIX[suffix if operand.kind == SAME else operand.kind].bytes
        for operand in row.operands
    )
    for operation in expansion(row, suffix).operations:
        each = _SEED if operation.name in SEEDS else cost(operation.name, operation.type)
        yield operation, each, max(1, operation.bytes // own)


@cache
def cost(name: str, suffix: str) -> Cost:
    """Return the cost of a map operation per vector of its type.

    An expansion occupies the units that its operations occupy; its latency is its critical path.
    """
    row = instruction_table.BY_NAME[name]
    if not is_macro(row, suffix):
        return row.cost
    slots: dict[str, int] = {}
    ready: dict[int, int] = {}
    longest = 0
    for operation, each, vectors in steps(row, suffix):
        for unit, count in each.slots:
            slots[unit] = slots.get(unit, 0) + count * vectors
        start = max(
            (
                ready.get(source.number, 0)
                for source in operation.sources
                if isinstance(source, MacroValue)
            ),
            default=0,
        )
        ready[operation.result.number] = start + each.latency
        longest = max(longest, start + each.latency)
    return Cost(tuple(sorted(slots.items())), longest)
