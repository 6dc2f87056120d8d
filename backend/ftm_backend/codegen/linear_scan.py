"""Linear-scan register allocation over the instructions of a function.

Registers from `VIRTUAL` on are virtual, one for each value. A loop is the code from a label with
bounds to the branch back to it. A value that is defined before a loop and used inside is live until
the loop ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ftm_backend.ir.asm import program as p
from ftm_backend.target.element_types import SCALAR_REGISTERS

__all__ = ["VIRTUAL", "CodeItem", "OutOfRegisters", "allocate"]

VIRTUAL = SCALAR_REGISTERS
"""Number of the first virtual register."""

CodeItem = p.AsmInstruction | p.MapBlock | p.Label
"""What register allocation works on."""

_REGISTERS = tuple(map(p.Register, range(SCALAR_REGISTERS)))


class OutOfRegisters(Exception):
    """More values are live at once than there are registers."""


@dataclass(slots=True)
class _LiveRange:
    """First and last item in which a virtual register is live."""

    register: int
    first: int
    last: int


def allocate(items: list[CodeItem], registers: range) -> list[CodeItem]:
    """Return the items with a register for each virtual one, without moves to the same register.

    Raises:
        OutOfRegisters: There are too few.
    """
    free = list(reversed(registers))
    chosen: dict[int, int] = {}
    active: list[_LiveRange] = []
    for value in _live_ranges(items):
        still = [other for other in active if other.last > value.first]
        # An instruction may reuse the register of a source that it uses last for its destination.
        free += sorted(
            (chosen[other.register] for other in active if other.last <= value.first), reverse=True
        )
        active = still
        if not free:
            raise OutOfRegisters
        chosen[value.register] = free.pop()
        active.append(value)
    allocated = [_assigned(item, chosen) for item in items]
    return [item for item in allocated if not _is_self_move(item)]


def _live_ranges(items: list[CodeItem]) -> list[_LiveRange]:
    """Return all values in order of definition."""
    values: dict[int, _LiveRange] = {}
    open_loops: list[tuple[int, str, list[_LiveRange]]] = []
    for number, item in enumerate(items):
        if isinstance(item, p.Label):
            if item.bounds is not None:
                open_loops.append((number, item.name, []))
            continue
        for register in _registers_of(item):
            value = values.get(register)
            if value is None:
                value = values[register] = _LiveRange(register, number, number)
            value.last = number
            for start, _, used in open_loops:
                if value.first < start:
                    used.append(value)
        if open_loops and _target(item) == open_loops[-1][1]:  # the branch back
            for value in open_loops.pop()[2]:
                value.last = number
    return list(values.values())


def _target(item: p.AsmInstruction | p.MapBlock) -> str:
    """Return the label that a branch jumps to."""
    if isinstance(item, p.MapBlock) or item.name != "SBR":
        return ""
    (label,) = item.operands
    assert isinstance(label, p.SymbolName)
    return label.name


def _registers_of(item: p.AsmInstruction | p.MapBlock) -> Iterator[int]:
    """Yield the registers of an item: sources, destination, predicate."""
    if isinstance(item, p.MapBlock):
        yield from _registers_in((item.rows, item.columns))
        yield from _registers_in(x.tile for x in item.inputs)
        yield from _registers_in(x.tile for x in item.outputs)
        for line in item.body:
            if isinstance(line, p.AsmInstruction):
                yield from _registers_in(line.operands)
    else:
        yield from _registers_in(item.operands)
    if item.predicate is not None:
        yield item.predicate[0]


def _registers_in(operands: Iterable[p.Operand]) -> Iterator[int]:
    for operand in operands:
        if isinstance(operand, p.Register):
            yield operand.number
        elif isinstance(operand, p.SlotReference):
            if operand.index >= 0:
                yield operand.index
        elif isinstance(operand, p.Dims):
            for pair in (*operand.rows, *operand.columns):
                yield from _registers_in(pair)
            if operand.row_stride is not None:
                yield from _registers_in((operand.row_stride,))


def _assigned(item: CodeItem, chosen: Mapping[int, int]) -> CodeItem:
    """Replace the virtual registers of an item."""
    if isinstance(item, p.Label):
        return item
    predicate = None
    if item.predicate is not None:
        predicate = chosen[item.predicate[0]], item.predicate[1]
    if isinstance(item, p.AsmInstruction):
        operands = tuple([_physical(operand, chosen) for operand in item.operands])
        return p.AsmInstruction(item.name, operands, item.suffixes, predicate)
    return p.MapBlock(
        _number(item.rows, chosen),
        _number(item.columns, chosen),
        tuple([replace(x, tile=_slot(x.tile, chosen)) for x in item.inputs]),
        tuple([replace(x, tile=_slot(x.tile, chosen)) for x in item.outputs]),
        [
            replace(x, operands=tuple([_physical(operand, chosen) for operand in x.operands]))
            if isinstance(x, p.AsmInstruction)
            else x
            for x in item.body
        ],
        predicate,
    )


def _physical(operand: p.Operand, chosen: Mapping[int, int]) -> p.Operand:
    if isinstance(operand, (p.Register, p.Immediate, p.SymbolName)):
        return _number(operand, chosen)
    if isinstance(operand, p.SlotReference):
        return _slot(operand, chosen)
    if isinstance(operand, p.Dims):
        rows, columns = (
            tuple([(_number(e, chosen), _number(s, chosen)) for e, s in side])
            for side in (operand.rows, operand.columns)
        )
        stride = operand.row_stride
        return p.Dims(rows, columns, None if stride is None else _number(stride, chosen))
    return operand


def _number(scalar: p.Scalar, chosen: Mapping[int, int]) -> p.Scalar:
    return _REGISTERS[chosen[scalar.number]] if isinstance(scalar, p.Register) else scalar


def _slot(slot: p.SlotReference, chosen: Mapping[int, int]) -> p.SlotReference:
    return slot if slot.index < 0 else p.SlotReference(slot.name, chosen[slot.index], slot.offset)


def _is_self_move(item: CodeItem) -> bool:
    """Whether an instruction copies a register to itself.

    That happens if a loop starts at a value that is dead afterwards.
    """
    if not isinstance(item, p.AsmInstruction) or item.name != "SMOV":
        return False
    source, target = item.operands
    return source == target
