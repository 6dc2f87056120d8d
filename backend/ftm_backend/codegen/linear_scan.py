"""Linear-scan register allocation over the instructions of a function.

Registers from `VIRTUAL` on are virtual, one for each value. A loop is the code from a label with
bounds to the branch back to it. A value that is defined before a loop and used inside is live until
the loop ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ftm_backend.ir.asm import program as p
from ftm_backend.target.element_types import SCALAR_REGISTERS

VIRTUAL = SCALAR_REGISTERS
"""Number of the first virtual register."""

CodeItem = p.AsmInstruction | p.Label
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
    """Give the items registers, in place; return them without moves to the same register.

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
    for item in items:
        _assign(item, chosen)
    return [item for item in items if not _is_self_move(item)]


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


def _target(item: p.AsmInstruction) -> str:
    """Return the label that a branch jumps to."""
    if item.name != "SBR":
        return ""
    (label,) = item.operands
    assert isinstance(label, p.SymbolName)
    return label.name


def _registers_of(item: p.AsmInstruction) -> list[int]:
    """Return the registers of an item: sources, destination, predicate."""
    found: list[int] = []
    _collect(item.operands, found)
    for line in _reading(item):
        _collect(line.operands, found)
    if item.predicate is not None:
        found.append(item.predicate[0])
    return found


def _reading(item: p.AsmInstruction) -> list[p.AsmInstruction]:
    """Return the operations of a map that read scalar registers."""
    return [x for x in item.body if isinstance(x, p.AsmInstruction) and x.name == "VIDX"]


def _collect(operands: Iterable[p.Operand], found: list[int]) -> None:
    for operand in operands:
        if isinstance(operand, p.Register):
            found.append(operand.number)
        elif isinstance(operand, p.SlotReference):
            if operand.index >= 0:
                found.append(operand.index)
        elif isinstance(operand, p.Dims):
            for pair in (*operand.rows, *operand.columns):
                _collect(pair, found)
            if operand.row_stride is not None:
                _collect((operand.row_stride,), found)
        elif isinstance(operand, (p.MapInput, p.MapOutput)):
            _collect((operand.tile,), found)


def _assign(item: CodeItem, chosen: Mapping[int, int]) -> None:
    """Replace the virtual registers of an item, in place."""
    if isinstance(item, p.Label):
        return
    if item.predicate is not None:
        item.predicate = chosen[item.predicate[0]], item.predicate[1]
    item.operands = tuple([_physical(operand, chosen) for operand in item.operands])
    for line in _reading(item):
        line.operands = tuple([_physical(operand, chosen) for operand in line.operands])


def _physical(operand: p.Operand, chosen: Mapping[int, int]) -> p.Operand:
    if isinstance(operand, p.Register):
        return _REGISTERS[chosen[operand.number]]
    if isinstance(operand, p.SlotReference):
        return _slot(operand, chosen)
    if isinstance(operand, p.Dims):
        rows, columns = (
            tuple([(_number(e, chosen), _number(s, chosen)) for e, s in side])
            for side in (operand.rows, operand.columns)
        )
        stride = operand.row_stride
        return p.Dims(rows, columns, None if stride is None else _number(stride, chosen))
    if isinstance(operand, (p.MapInput, p.MapOutput)) and operand.tile.index >= 0:
        return replace(operand, tile=_slot(operand.tile, chosen))
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
