"""Linear-scan register allocation over the lines of a function.

A value that is defined before a loop and used inside is live until the loop ends.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OutOfRegisters", "RegisterLine", "VirtualRegister", "allocate", "is_self_move", "text"]


class OutOfRegisters(Exception):
    """More values are live at once than there are registers."""


class VirtualRegister:
    """A virtual register: first and last line in which it is live, and its physical register."""

    __slots__ = ("first", "last", "register")

    def __init__(self) -> None:
        self.first, self.last, self.register = -1, -1, -1


@dataclass
class RegisterLine:
    """A line of text with virtual registers.

    Attributes:
        parts: Its text.
        predicate: Register and whether it is negated.
        opens: Whether a loop starts after this line.
        closes: Whether a loop ends with this line.
        indent: Indentation.
    """

    parts: list[str | VirtualRegister]
    predicate: tuple[VirtualRegister, bool] | None = None
    opens: bool = False
    closes: bool = False
    indent: str = "    "


def allocate(lines: list[RegisterLine], registers: range) -> None:
    """Assign a register to every value; raise OutOfRegisters if there are too few."""
    values = _live_ranges(lines)
    free = list(reversed(registers))
    active: list[VirtualRegister] = []
    for value in values:
        still = [other for other in active if other.last > value.first]
        # An instruction may reuse the register of a source that it uses last for its destination.
        free += sorted(
            (other.register for other in active if other.last <= value.first), reverse=True
        )
        active = still
        if not free:
            raise OutOfRegisters
        value.register = free.pop()
        active.append(value)


def _live_ranges(lines: list[RegisterLine]) -> list[VirtualRegister]:
    """Return all values in order of definition, with ``first`` and ``last`` set."""
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


def is_self_move(line: RegisterLine) -> bool:
    """Whether the line copies a register to itself.

    That happens if a loop starts at a value that is dead afterwards.
    """
    if len(line.parts) != 4 or line.parts[0] != "SMOV ":
        return False
    source, target = line.parts[1], line.parts[3]
    return (
        isinstance(source, VirtualRegister)
        and isinstance(target, VirtualRegister)
        and source.register == target.register
    )


def text(line: RegisterLine) -> str:
    """Print the line with its registers."""
    body = "".join(
        f"r{part.register}" if isinstance(part, VirtualRegister) else part for part in line.parts
    )
    if line.predicate:
        value, negated = line.predicate
        return f"  [{'!' if negated else ''}r{value.register}] {body}"
    return line.indent + body
