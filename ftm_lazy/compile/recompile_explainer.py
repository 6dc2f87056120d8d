"""Why a program has to be compiled: the nearest earlier trace, and what differs.

| cause | the trace |
|---|---|
| first | is like none before |
| new op sequence | records mostly the operations of an earlier one, but others too, fewer, or in another order |
| new dtype, new sizes, new number | records the same operations, on other dtypes or sizes, or with another Python number |
| new operands | ..., on values of other operations |
| new set of results | ..., of which others are still needed afterwards |

A *recompile* is a compile that a user would not expect: of a trace with the same operations as an
earlier one; or, once the first steps are over, with mostly the same operations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["CAUSES", "CompileHistory", "RecompileExplanation", "TraceRecord", "read"]

_KINDS = ("dtype", "sizes", "number", "operands", "results")
"""What can differ between lines that do the same; the first that does is the cause."""

CAUSES = (
    "first",
    "new op sequence",
    "new dtype",
    "new sizes",
    "new number",
    "new operands",
    "new set of results",
)

_KEPT = 32  # earlier traces to compare with
_ALIKE = 0.5  # the part of the operations that makes a trace one that an earlier one nearly fits
_SHOWN = 3  # differences that an explanation names
_NODE = re.compile(r"^[%$][^=]* = (?P<name>[\w.]+::[\w.]+|[\w.]+)")
_TYPE = re.compile(r"\b([a-z]+\d+)\[([\d,]*)\]")
_VALUE = re.compile(r"[%$]\d+")
_NO_OPERATION = ("param", "scalar", "return")


@dataclass(frozen=True)
class TraceRecord:
    """A trace as it is compared: see `read`."""

    lines: tuple[str, ...]
    """All but the first: parameters, scalars, operations, and last the results."""
    names: tuple[str, ...]
    """What each line does: the operation, "param", "scalar" or "return"."""
    operations: tuple[str, ...]
    """Their names, in order."""
    counts: Counter[str]
    """The same, counted."""

    @property
    def results(self) -> tuple[str, ...]:
        """The values that are needed afterwards: ``%3``, ..."""
        return tuple(_VALUE.findall(self.lines[-1])) if self.lines else ()

    def line_of(self, value: str) -> str:
        """Return the line that makes this value."""
        return next(
            (line for line in self.lines if value in _VALUE.findall(line.partition(" = ")[0])),
            value,
        )


@dataclass(frozen=True)
class RecompileExplanation:
    """Why a trace fits no earlier program."""

    cause: str
    """One of `CAUSES`."""
    text: str
    """What differs from the nearest earlier program, for people; empty for the first of its
    kind."""

    def is_recompile(self, settled: bool) -> bool:
        """Return whether it is a surprise; `settled`: the first steps are over, so that other operations
        are one too."""
        return self.cause != "first" and (settled or self.cause != "new op sequence")


def read(text: str) -> TraceRecord:
    """Return a trace from its canonical text."""
    lines = tuple(line.strip() for line in text.splitlines()[1:])
    names = tuple(map(_name, lines))
    operations = tuple(name for name in names if name not in _NO_OPERATION)
    return TraceRecord(lines, names, operations, Counter(operations))


class CompileHistory:
    """The traces that this process has had compiled or has loaded.

    One thread at a time may add; others may explain meanwhile, since the kept traces are replaced
    and never changed in place.
    """

    def __init__(self) -> None:
        self._kept: tuple[tuple[int, TraceRecord], ...] = ()

    def add(self, trace: TraceRecord) -> None:
        """Remember a trace, to compare later ones with."""
        self._kept = (*self._kept[1 - _KEPT :], (_next_number(self._kept), trace))

    def explain(self, trace: TraceRecord, locations: Sequence[str] = ()) -> RecompileExplanation:
        """Why no earlier trace is this one.

        Args:
            trace: a new one. locations: for each of its operations the Python line that recorded
            it, or ""; none where nobody noted them.
        """
        kept = self._kept
        same = [(number, other) for number, other in kept if other.operations == trace.operations]
        if same:
            number, nearest = min(same, key=lambda pair: len(_differences(trace, pair[1])))
            cause, difference = _explain_same(trace, nearest, locations)
        else:
            alike = [pair for pair in kept if _likeness(trace, pair[1]) >= _ALIKE]
            if not alike:
                return RecompileExplanation("first", "")
            number, nearest = max(alike, key=lambda pair: _likeness(trace, pair[1]))
            cause, difference = "new op sequence", _explain_other(trace, nearest, locations)
        return RecompileExplanation(
            cause, f"program {_next_number(kept)} is nearly program {number}, but for {difference}"
        )


def _next_number(kept: Sequence[tuple[int, TraceRecord]]) -> int:
    return kept[-1][0] + 1 if kept else 0


def _name(line: str) -> str:
    match = _NODE.match(line)
    return match["name"] if match else line.split(maxsplit=1)[0]


def _likeness(left: TraceRecord, right: TraceRecord) -> float:
    return (left.counts & right.counts).total() / max(left.counts.total(), right.counts.total(), 1)


def _differences(left: TraceRecord, right: TraceRecord) -> list[tuple[str, str]]:
    """Lines that differ; parameters that only one of them has are no line of the other."""
    if len(left.lines) == len(right.lines):
        return [pair for pair in zip(left.lines, right.lines, strict=True) if pair[0] != pair[1]]
    operations = (
        [
            line
            for line, name in zip(side.lines, side.names, strict=True)
            if name not in _NO_OPERATION
        ]
        for side in (left, right)
    )
    return [
        pair
        for pair in zip(*operations, strict=True)
        if _VALUE.sub("%", pair[0]) != _VALUE.sub("%", pair[1])
    ]


def _explain_same(
    trace: TraceRecord, nearest: TraceRecord, locations: Sequence[str]
) -> tuple[str, str]:
    """Return the cause, and what differs, of traces of the same operations."""
    differing = _differences(trace, nearest)
    kinds = Counter(_kind(new, old) for new, old in differing) or Counter(["operands"])
    kind = min(kinds, key=_KINDS.index)
    counted = ", ".join(f"{kind} ({count}x)" for kind, count in kinds.most_common())
    if kind == "results":
        new, old = set(trace.results), set(nearest.results)
        shown = [f"`{trace.line_of(value)}` is needed now" for value in sorted(new - old)]
        shown += [f"`{nearest.line_of(value)}` is not needed now" for value in sorted(old - new)]
    else:
        shown = [f"`{new}` was `{old}`{_place(trace, new, locations)}" for new, old in differing]
    more = "; ..." if len(shown) > _SHOWN else ""
    cause = "new set of results" if kind == "results" else f"new {kind}"
    return cause, f"{counted}: {'; '.join(shown[:_SHOWN])}{more}"


def _explain_other(trace: TraceRecord, nearest: TraceRecord, locations: Sequence[str]) -> str:
    """What differs between traces of different operations."""
    more = [f"{count} more {name}" for name, count in (trace.counts - nearest.counts).items()]
    fewer = [f"{count} fewer {name}" for name, count in (nearest.counts - trace.counts).items()]
    counted = ", ".join(more + fewer) or "the order of the operations"
    pairs = zip(trace.operations, nearest.operations, strict=False)
    first = next((i for i, (new, old) in enumerate(pairs) if new != old), None)
    if first is None:  # one is the beginning of the other
        return f"{counted}, at the end"
    new, old = trace.operations[first], nearest.operations[first]
    location = locations[first] if first < len(locations) else ""
    return f"{counted}: operation {first + 1:,} is {new}, was {old}{f' ({location})' if location else ''}"


def _place(trace: TraceRecord, line: str, locations: Sequence[str]) -> str:
    """Return the Python line that recorded an operation, in parentheses; nothing for what is none, or if
    nobody noted it."""
    index = trace.lines.index(line)
    if trace.names[index] in _NO_OPERATION:
        return ""
    operation = sum(name not in _NO_OPERATION for name in trace.names[:index])
    location = locations[operation] if operation < len(locations) else ""
    return f" ({location})" if location else ""


def _kind(new: str, old: str) -> str:
    """What differs between two lines that do the same: one of `_KINDS`."""
    if new.startswith("return") and old.startswith("return"):
        return "results"
    types, before = _TYPE.findall(new), _TYPE.findall(old)
    if [dtype for dtype, _ in types] != [dtype for dtype, _ in before]:
        return "dtype"
    if types != before:
        return "sizes"
    return "number" if _VALUE.sub("%", new) != _VALUE.sub("%", old) else "operands"
