"""Explains a compile that a user would not expect: which earlier trace is nearest, and what differs.

A *recompile* is the compile of a trace that records the same operations as an earlier one: something that the
code depends on has changed, a shape, a dtype or a constant.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass

__all__ = ["History"]

_KEPT = 32  # earlier traces to compare with
_OPERATION = re.compile(r"^(?P<results>[%$][^=]*) = (?P<name>\S+?)\((?P<arguments>.*)\) : (?P<types>.*)$")
_SHOWN = 3  # differences that an explanation names


@dataclass(frozen=True)
class _Trace:
    number: int
    lines: tuple[str, ...]
    names: tuple[str, ...]
    """What each line does, without what a change of shape or constant would change."""


class History:
    """The traces that this process has had compiled or has loaded."""

    def __init__(self) -> None:
        self._count = 0
        self._kept: deque[_Trace] = deque(maxlen=_KEPT)

    def add(self, text: str) -> str | None:
        """Remembers a trace; if it repeats an earlier one but for details, returns which ones."""
        lines = tuple(line.strip() for line in text.splitlines()[1:])
        trace = _Trace(self._count, lines, tuple(map(_name, lines)))
        self._count += 1
        nearest = self._nearest(trace)
        self._kept.append(trace)
        return None if nearest is None else _explain(trace, nearest)

    def _nearest(self, trace: _Trace) -> _Trace | None:
        same = [other for other in self._kept if other.names == trace.names]
        return min(same, key=lambda other: _distance(trace, other), default=None)


def _name(line: str) -> str:
    match = _OPERATION.match(line)
    return match["name"] if match else line.split(" = ")[-1].split()[0]


def _distance(left: _Trace, right: _Trace) -> int:
    return sum(a != b for a, b in zip(left.lines, right.lines, strict=True))


def _explain(trace: _Trace, nearest: _Trace) -> str:
    differing = [(new, old) for new, old in zip(trace.lines, nearest.lines, strict=True) if new != old]
    kinds = Counter(_kind(new, old) for new, old in differing)
    counted = ", ".join(f"{kind} {count}x" for kind, count in kinds.most_common())
    shown = "; ".join(f"`{new}` was `{old}`" for new, old in differing[:_SHOWN])
    more = "; ..." if len(differing) > _SHOWN else ""
    return f"program {trace.number} records what program {nearest.number} does, but for {counted}: {shown}{more}"


def _kind(new: str, old: str) -> str:
    """What differs between two lines that do the same: "shape", "dtype", "operand" or "constant"."""
    types, before = (re.findall(r"\b([a-z]+\d+)\[([\d,]*)\]", line) for line in (new, old))
    if [dtype for dtype, _ in types] != [dtype for dtype, _ in before]:
        return "dtype"
    if types != before:
        return "shape"
    operands, earlier = (re.findall(r"[%$]\d+", line) for line in (new, old))
    return "operand" if operands != earlier else "constant"
