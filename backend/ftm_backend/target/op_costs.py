"""What map operations cost: the rows' own numbers, and of macros those of the operations that they
stand for."""

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
    """Whether the operation stands for others when its type is ``suffix`` (for operations without
    one, their result's)."""
    return row.macro is not None and (suffix or row.result) in row.macro.types


def expansion(row: InstructionDef, suffix: str, whole: bool = False) -> MacroBuilder:
    """What the macro does, recorded: its operands are registers 0, 1, ..., and the last operation
    gives the result.

    whole: with all steps of loops of which nearly all data need one.
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
    """The operations of a macro for a vector of its own type: each with what it costs, and how many
    vectors it needs as its elements may
    be wider."""
    own = max(
        BY_SUFFIX[suffix if operand.kind == SAME else operand.kind].bytes
        for operand in row.operands
    )
    for operation in expansion(row, suffix).operations:
        each = _SEED if operation.name in SEEDS else cost(operation.name, operation.type)
        yield operation, each, max(1, operation.bytes // own)


@cache
def cost(name: str, suffix: str) -> Cost:
    """The cost of map operation ``name`` on type ``suffix``, for each vector of as many lanes as
    elements of that type have.

    A macro occupies what its operations do, those on wider elements once for each of the vectors
    that they need, and its latency is its critical path's.
    """
    row = instruction_table.BY_NAME[name]
    if not is_macro(row, suffix):
        return row.cost
    taken: dict[str, int] = {}
    ready: dict[int, int] = {}
    longest = 0
    for operation, each, vectors in steps(row, suffix):
        for unit, count in each.slots:
            taken[unit] = taken.get(unit, 0) + count * vectors
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
    return Cost(tuple(sorted(taken.items())), longest)
