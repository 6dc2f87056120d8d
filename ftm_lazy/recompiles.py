"""Explains a compile that a user would not expect: which earlier trace is nearest, and what differs.

A *recompile* is the compile of a trace that records the same operations as an earlier one, so that only a
shape, a dtype or a constant has changed; or, once the first steps are over, of a trace that records mostly the
same operations.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass

__all__ = ["History"]

_KEPT = 32  # earlier traces to compare with
_ALIKE = 0.5  # the part of the operations that makes a trace one that an earlier one nearly fits
_SHOWN = 3  # differences that an explanation names
_NODE = re.compile(r"^[%$][^=]* = (?P<name>[\w.]+::[\w.]+|[\w.]+)")
_TYPE = re.compile(r"\b([a-z]+\d+)\[([\d,]*)\]")
_VALUE = re.compile(r"[%$]\d+")


@dataclass(frozen=True)
class _Trace:
    number: int
    lines: tuple[str, ...]
    names: tuple[str, ...]
    """What each line does: the operation, "param", "scalar" or "return"."""
    counts: Counter[str]


class History:
    """The traces that this process has had compiled or has loaded."""

    def __init__(self) -> None:
        self._count = 0
        self._kept: deque[_Trace] = deque(maxlen=_KEPT)

    def add(self, text: str, settled: bool) -> str | None:
        """Remembers a trace; if it is nearly an earlier one, returns what differs.

        Args:
            text: canonical text of the trace.
            settled: whether the first steps are over, so that other operations are unexpected too.
        """
        lines = tuple(line.strip() for line in text.splitlines()[1:])
        names = tuple(map(_name, lines))
        trace = _Trace(self._count, lines, names, Counter(names))
        nearest = self._nearest(trace, settled)
        self._count += 1
        self._kept.append(trace)
        return None if nearest is None else _explain(trace, nearest)

    def _nearest(self, trace: _Trace, settled: bool) -> _Trace | None:
        same = [other for other in self._kept if other.names == trace.names]
        if same:
            return min(same, key=lambda other: len(_differences(trace, other)))
        nearest = max(self._kept, key=lambda other: _likeness(trace, other), default=None)
        return nearest if settled and nearest and _likeness(trace, nearest) >= _ALIKE else None


def _name(line: str) -> str:
    match = _NODE.match(line)
    return match["name"] if match else line.split(maxsplit=1)[0]


def _likeness(left: _Trace, right: _Trace) -> float:
    return (left.counts & right.counts).total() / max(left.counts.total(), right.counts.total(), 1)


def _differences(left: _Trace, right: _Trace) -> list[tuple[str, str]]:
    return [pair for pair in zip(left.lines, right.lines, strict=False) if pair[0] != pair[1]]


def _explain(trace: _Trace, nearest: _Trace) -> str:
    head = f"program {trace.number} is nearly program {nearest.number}, but for "
    differing = _differences(trace, nearest)
    if trace.names != nearest.names:
        more = [f"{count} more {name}" for name, count in (trace.counts - nearest.counts).items()]
        fewer = [f"{count} fewer {name}" for name, count in (nearest.counts - trace.counts).items()]
        counted, shown = ", ".join(more + fewer) or "the order of the operations", differing[:1]
    else:
        kinds = Counter(_kind(new, old) for new, old in differing)
        counted, shown = ", ".join(f"{kind} ({count}x)" for kind, count in kinds.most_common()), differing[:_SHOWN]
    lines = "; ".join(f"`{new}` was `{old}`" for new, old in shown)
    return f"{head}{counted}: {lines}{'; ...' if len(differing) > len(shown) else ''}"


def _kind(new: str, old: str) -> str:
    """What differs between two lines that do the same: "shape", "dtype", "operand" or "constant"."""
    types, before = _TYPE.findall(new), _TYPE.findall(old)
    if [dtype for dtype, _ in types] != [dtype for dtype, _ in before]:
        return "dtype"
    if types != before:
        return "shape"
    return "operand" if _VALUE.findall(new) != _VALUE.findall(old) else "constant"
