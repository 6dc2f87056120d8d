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

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ftm_backend.ir.trace.trace import TensorType, Trace

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
_NO_OPERATION = ("param", "scalar", "return")


class TraceLine(NamedTuple):
    """A line of a trace.

    Attributes:
        text: The text, without indentation.
        name: The operation's name, "param", "scalar" or "return".
        spec: The text without the numbers of values.
        types: Types of the results, or of the parameter.
        defines: Numbers of the values that it defines.
    """

    text: str
    name: str
    spec: str
    types: tuple[TensorType | None, ...] = ()
    defines: range = range(0)


@dataclass(frozen=True)
class TraceRecord:
    """A trace split into lines for comparison; made by `read`."""

    lines: tuple[TraceLine, ...]
    """Parameters, scalars, operations, and the results last."""
    results: tuple[int, ...]
    """The numbers of the values that the trace returns."""
    operations: tuple[str, ...]
    """The names of the operations, in order."""
    counts: Counter[str]
    """The number of occurrences of each operation."""

    def line_of(self, value: int) -> str:
        """Return the line that defines a value."""
        return next(line.text for line in self.lines if value in line.defines)


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


def read(trace: Trace) -> TraceRecord:
    """Split a trace into lines."""
    texts = (line.strip() for line in trace.lines())
    lines = [
        TraceLine(next(texts), "param", str(type_), (type_,), range(number, number + 1))
        for number, type_ in enumerate(trace.params)
    ]
    lines += [TraceLine(next(texts), "scalar", dtype) for dtype in trace.scalars]
    number = len(trace.params)
    for node in trace.nodes:
        defines = range(number, number + len(node.results))
        spec = "%".join(node.spec.text_parts)
        lines.append(TraceLine(next(texts), node.op, spec, node.results, defines))
        number = defines.stop
    lines.append(TraceLine(next(texts), "return", ""))
    operations = tuple(node.op for node in trace.nodes)
    return TraceRecord(tuple(lines), tuple(trace.results), operations, Counter(operations))


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


def _similarity(left: TraceRecord, right: TraceRecord) -> float:
    return (left.counts & right.counts).total() / max(left.counts.total(), right.counts.total(), 1)


def _differences(left: TraceRecord, right: TraceRecord) -> list[tuple[TraceLine, TraceLine]]:
    """Return the pairs of differing lines; only operations if the traces have unequal lengths."""
    if len(left.lines) == len(right.lines):
        pairs = zip(left.lines, right.lines, strict=True)
        return [pair for pair in pairs if pair[0].text != pair[1].text]
    operations = (
        [line for line in side.lines if line.name not in _NO_OPERATION] for side in (left, right)
    )
    return [pair for pair in zip(*operations, strict=True) if pair[0].spec != pair[1].spec]


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
        shown = [
            f"`{line.text}` was `{old_line.text}`{_location(trace, line, locations)}"
            for line, old_line in differing
        ]
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


def _location(trace: TraceRecord, line: TraceLine, locations: Sequence[str]) -> str:
    """Return the Python line that recorded an operation, in parentheses; "" if unknown."""
    if line.name in _NO_OPERATION:
        return ""
    before = trace.lines[: trace.lines.index(line)]
    operation = sum(other.name not in _NO_OPERATION for other in before)
    location = locations[operation] if operation < len(locations) else ""
    return f" ({location})" if location else ""


def _kind(new: TraceLine, old: TraceLine) -> str:
    """Return the difference, one of `_KINDS`, between two lines of the same operation."""
    if new.name == old.name == "return":
        return "results"
    dtypes, before = ([type_ and type_.dtype for type_ in line.types] for line in (new, old))
    if dtypes != before:
        return "dtype"
    if new.types != old.types:
        return "sizes"
    return "number" if new.spec != old.spec else "operands"
