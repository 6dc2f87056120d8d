"""Explanation of a compile: the nearest earlier trace, and the differences from it.

The causes:

- first: No earlier trace is similar.
- new op sequence: At least half of the operations are those of an earlier trace; others were added,
  removed or reordered.
- new dtype, new sizes, new number: The operations are the same as in an earlier trace, with another
  dtype, size or Python number.
- new operands: ... with operands computed by other operations.
- new set of results: ... and other values are still needed afterwards.

A *recompile* is a compile that a user would not expect: the trace has the same operations as an
earlier one, or, after the first steps, mostly the same operations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["CAUSES", "CompileHistory", "RecompileExplanation", "TraceRecord", "read"]

_KINDS = ("dtype", "sizes", "number", "operands", "results")
"""Possible differences between two lines of one operation; the first that occurs is the cause."""

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
_SIMILAR = 0.5  # share of common operations from which two traces are similar
_SHOWN = 3  # differences that an explanation lists
_NODE = re.compile(r"^[%$][^=]* = (?P<name>[\w.]+::[\w.]+|[\w.]+)")
_TYPE = re.compile(r"\b([a-z]+\d+)\[([\d,]*)\]")
_VALUE = re.compile(r"[%$]\d+")
_NO_OPERATION = ("param", "scalar", "return")


@dataclass(frozen=True)
class TraceRecord:
    """A trace split into lines for comparison; made by `read`."""

    lines: tuple[str, ...]
    """All lines but the first: parameters, scalars, operations, and the results last."""
    names: tuple[str, ...]
    """For each line the operation's name, "param", "scalar" or "return"."""
    operations: tuple[str, ...]
    """The names of the operations, in order."""
    counts: Counter[str]
    """The number of occurrences of each operation."""

    @property
    def results(self) -> tuple[str, ...]:
        """The values that the trace returns: ``%3``, ..."""
        return tuple(_VALUE.findall(self.lines[-1])) if self.lines else ()

    def line_of(self, value: str) -> str:
        """Return the line that defines a value."""
        return next(
            (line for line in self.lines if value in _VALUE.findall(line.partition(" = ")[0])),
            value,
        )


@dataclass(frozen=True)
class RecompileExplanation:
    """Why a trace matches no earlier program."""

    cause: str
    """One of `CAUSES`."""
    text: str
    """The differences from the nearest earlier program; empty if no program is similar."""

    def is_recompile(self, settled: bool) -> bool:
        """Return whether the compile is unexpected.

        Args:
            settled: The first steps are over, so a new op sequence is unexpected, too.
        """
        return self.cause != "first" and (settled or self.cause != "new op sequence")


def read(text: str) -> TraceRecord:
    """Parse the canonical text of a trace."""
    lines = tuple(line.strip() for line in text.splitlines()[1:])
    names = tuple(map(_name, lines))
    operations = tuple(name for name in names if name not in _NO_OPERATION)
    return TraceRecord(lines, names, operations, Counter(operations))


class CompileHistory:
    """The last traces that this process compiled or loaded.

    One thread at a time may call `add`. Others may call `explain` concurrently, because the tuple
    of traces is replaced and never changed in place.
    """

    def __init__(self) -> None:
        self._kept: tuple[tuple[int, TraceRecord], ...] = ()

    def add(self, trace: TraceRecord) -> None:
        """Add a trace to compare later ones with."""
        self._kept = (*self._kept[1 - _KEPT :], (_next_number(self._kept), trace))

    def explain(self, trace: TraceRecord, locations: Sequence[str] = ()) -> RecompileExplanation:
        """Explain why a trace matches no earlier one.

        Args:
            trace: The new trace.
            locations: For each operation the Python line that recorded it, or "". Empty if lines
                are not recorded.
        """
        kept = self._kept
        same = [(number, other) for number, other in kept if other.operations == trace.operations]
        if same:
            number, nearest = min(same, key=lambda pair: len(_differences(trace, pair[1])))
            cause, difference = _explain_same(trace, nearest, locations)
        else:
            similar = [pair for pair in kept if _similarity(trace, pair[1]) >= _SIMILAR]
            if not similar:
                return RecompileExplanation("first", "")
            number, nearest = max(similar, key=lambda pair: _similarity(trace, pair[1]))
            cause, difference = "new op sequence", _explain_sequence(trace, nearest, locations)
        programs = f"program {_next_number(kept)} differs from program {number}"
        return RecompileExplanation(cause, f"{programs}: {difference}")


def _next_number(kept: Sequence[tuple[int, TraceRecord]]) -> int:
    return kept[-1][0] + 1 if kept else 0


def _name(line: str) -> str:
    match = _NODE.match(line)
    return match["name"] if match else line.split(maxsplit=1)[0]


def _similarity(left: TraceRecord, right: TraceRecord) -> float:
    return (left.counts & right.counts).total() / max(left.counts.total(), right.counts.total(), 1)


def _differences(left: TraceRecord, right: TraceRecord) -> list[tuple[str, str]]:
    """Return the pairs of differing lines; only operations if the traces have unequal lengths."""
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
    """Return the cause and the differences of two traces with the same operations."""
    differing = _differences(trace, nearest)
    kinds = Counter(_kind(new, old) for new, old in differing) or Counter(["operands"])
    kind = min(kinds, key=_KINDS.index)
    counted = ", ".join(f"{kind} ({count}x)" for kind, count in kinds.most_common())
    if kind == "results":
        new, old = set(trace.results), set(nearest.results)
        shown = [f"`{trace.line_of(value)}` is needed now" for value in sorted(new - old)]
        shown += [f"`{nearest.line_of(value)}` is not needed now" for value in sorted(old - new)]
    else:
        shown = [f"`{new}` was `{old}`{_location(trace, new, locations)}" for new, old in differing]
    more = "; ..." if len(shown) > _SHOWN else ""
    cause = "new set of results" if kind == "results" else f"new {kind}"
    return cause, f"{counted}: {'; '.join(shown[:_SHOWN])}{more}"


def _explain_sequence(trace: TraceRecord, nearest: TraceRecord, locations: Sequence[str]) -> str:
    """Return the differences of two traces with different operations."""
    more = [f"{count} more {name}" for name, count in (trace.counts - nearest.counts).items()]
    fewer = [f"{count} fewer {name}" for name, count in (nearest.counts - trace.counts).items()]
    counted = ", ".join(more + fewer) or "the order of the operations"
    pairs = zip(trace.operations, nearest.operations, strict=False)
    first = next((i for i, (new, old) in enumerate(pairs) if new != old), None)
    if first is None:  # one is a prefix of the other
        return f"{counted}, at the end"
    new, old = trace.operations[first], nearest.operations[first]
    location = locations[first] if first < len(locations) else ""
    line = f" ({location})" if location else ""
    return f"{counted}: operation {first + 1:,} is {new}, was {old}{line}"


def _location(trace: TraceRecord, line: str, locations: Sequence[str]) -> str:
    """Return the Python line that recorded an operation, in parentheses; "" if unknown."""
    index = trace.lines.index(line)
    if trace.names[index] in _NO_OPERATION:
        return ""
    operation = sum(name not in _NO_OPERATION for name in trace.names[:index])
    location = locations[operation] if operation < len(locations) else ""
    return f" ({location})" if location else ""


def _kind(new: str, old: str) -> str:
    """Return the difference, one of `_KINDS`, between two lines of the same operation."""
    if new.startswith("return") and old.startswith("return"):
        return "results"
    types, before = _TYPE.findall(new), _TYPE.findall(old)
    if [dtype for dtype, _ in types] != [dtype for dtype, _ in before]:
        return "dtype"
    if types != before:
        return "sizes"
    return "number" if _VALUE.sub("%", new) != _VALUE.sub("%", old) else "operands"
