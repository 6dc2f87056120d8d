"""Registers for the values of a function's lines: a linear scan over the lines.

A value that is defined outside of a loop and used inside lives to the loop's end.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OutOfRegisters", "RegisterLine", "VirtualRegister", "allocate", "moves_nothing", "text"]


class OutOfRegisters(Exception):
    """More values live at once than there are registers."""


class VirtualRegister:
    """A virtual register: ``first`` and ``last`` line in which it is alive, and the register it
    gets."""

    __slots__ = ("first", "last", "register")

    def __init__(self) -> None:
        self.first, self.last, self.register = -1, -1, -1


@dataclass
class RegisterLine:
    """A line of text with open registers.

    predicate: value and whether it is negated. opens, closes: a loop begins after, or ends with,
        this line.
    """

    parts: list[str | VirtualRegister]
    predicate: tuple[VirtualRegister, bool] | None = None
    opens: bool = False
    closes: bool = False
    indent: str = "    "


def allocate(lines: list[RegisterLine], registers: range) -> None:
    """Gives every value of ``lines`` a register.  Raises OutOfRegisters."""
    values = _live_ranges(lines)
    free = list(reversed(registers))
    active: list[VirtualRegister] = []
    for value in values:
        still = [other for other in active if other.last > value.first]
        # A source may give its register to the destination of the instruction that uses it last.
        free += sorted(
            (other.register for other in active if other.last <= value.first), reverse=True
        )
        active = still
        if not free:
            raise OutOfRegisters
        value.register = free.pop()
        active.append(value)


def _live_ranges(lines: list[RegisterLine]) -> list[VirtualRegister]:
    """All values in order of definition, with ``first`` and ``last`` set."""
    values: list[VirtualRegister] = []
    open_loops: list[tuple[int, list[VirtualRegister]]] = []
    for number, line in enumerate(lines):
        operands = [part for part in line.parts if isinstance(part, VirtualRegister)]
        if line.predicate:
            operands.append(line.predicate[0])
        for value in operands:
            if value.first < 0:
                value.first = number
                values.append(value)
            value.last = number
            for start, used in open_loops:
                if value.first < start:
                    used.append(value)
        if line.opens:
            open_loops.append((number, []))
        if line.closes:
            for value in open_loops.pop()[1]:
                value.last = number
    return values


def moves_nothing(line: RegisterLine) -> bool:
    """Whether the line copies a register to itself, as when a loop starts at a value that nothing
    else needs."""
    if len(line.parts) != 4 or line.parts[0] != "SMOV ":
        return False
    source, target = line.parts[1], line.parts[3]
    return (
        isinstance(source, VirtualRegister)
        and isinstance(target, VirtualRegister)
        and source.register == target.register
    )


def text(line: RegisterLine) -> str:
    """The line with its registers filled in."""
    body = "".join(
        f"r{part.register}" if isinstance(part, VirtualRegister) else part for part in line.parts
    )
    if line.predicate:
        value, negated = line.predicate
        return f"  [{'!' if negated else ''}r{value.register}] {body}"
    return line.indent + body
