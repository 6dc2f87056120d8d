"""Matching of traces with sizes of 1 to dynamic-shape programs of other families.

The recorder writes a view for an operand that is not contiguous. With a dimension of 1 a transposed
tensor is often contiguous: [1 token, heads] transposed has the same memory as before. So the trace
of one token has no view, and other lines than that of two tokens, although it computes the same.

`bare` writes each operand's strides in one form, whether the trace has a view or not. Two traces
with equal `bare` texts are served by one program. The sizes that a trace would have in the other
family are guessed from the lines that both have; comparing the `bare` texts verifies the guess.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ftm_backend.symbolic import compile_expressions, free_symbols
from ftm_backend.symbolic.shape_relations import ShapeRelation
from ftm_lazy import _C

__all__ = ["SizeOneRelatives", "TraceToMatch", "bare", "values_with_ones"]

_LINE = re.compile(r"  ([%$][^=]*) = (.*)")
_VIEW = re.compile(
    r"ftm\.view\(base=%(\d+), sizes=\[([\d,]*)\], strides=\[([\d,-]*)\], offset=(\d+)\) : (\w+)"
)
_WRITTEN = re.compile(r"sizes=\[([\d,]*)\], strides=\[([\d,-]*)\]")
_VALUE = re.compile(r"%(\d+)")
_TYPE = re.compile(r"none|(\w+)\[([\d,]*)\]")
_PLACED = re.compile(r"ftm\.view\(base=%(\d+), ")


def bare(text: str) -> str:
    """Return a trace without view lines and without strides of dimensions of 1.

    Each use of a view is replaced by its base, sizes, strides and offset.
    """
    read: dict[str, str] = {}  # the text that replaces each value
    # for contiguous values the base of the view, and the offset in elements
    begins: dict[str, tuple[str, int]] = {}
    count = 0
    lines = []
    for line in text.splitlines():
        found = _LINE.match(line)
        view = _VIEW.match(found[2]) if found is not None else None
        if found is not None and view is not None and view[1] in begins:
            name, begin = begins[view[1]]
            begin += int(view[4])
            in_order, steps = _order(view[2], view[3])
            if in_order:
                begins[found[1][1:]] = name, begin
            read[found[1][1:]] = f"{name}[{view[2]}]:{view[5]}" + (
                "" if in_order and not begin else f"{steps}+{begin}"
            )
            continue
        made = found[2] if found is not None else line
        lines.append(
            _WRITTEN.sub(_written, _VALUE.sub(lambda value: read[value[1]], _parameter(made)))
        )
        for value, type_ in (
            zip(_VALUE.findall(found[1]), _TYPE.finditer(made.rpartition(" : ")[2]), strict=False)
            if found
            else ()
        ):
            begins[value] = f"%{count}", 0
            read[value] = f"%{count}[{type_[2]}]:{type_[1]}"
            count += 1
    return "\n".join(lines)


def _order(sizes: str, strides: str) -> tuple[bool, list[int]]:
    """Return whether a view is contiguous, and its strides; those of dimensions of 1 are 0."""
    extents, steps = _steps(sizes, strides)
    row_major, step = [], 1
    for extent in reversed(extents):
        row_major.append(step if extent != 1 else 0)
        step *= extent
    return steps == row_major[::-1], steps


def _steps(sizes: str, strides: str) -> tuple[list[int], list[int]]:
    """Parse sizes and strides; strides of dimensions of 1 become 0."""
    extents = [int(size) for size in sizes.split(",") if size]
    return extents, [
        int(step) if extent != 1 else 0
        for extent, step in zip(extents, strides.split(",") if strides else (), strict=True)
    ]


def _written(window: re.Match[str]) -> str:
    return f"sizes=[{window[1]}], strides={_steps(window[1], window[2])[1]}"


def _parameter(made: str) -> str:
    """Replace a parameter's shape by its number of elements; its uses have the shape."""
    if not made.startswith("param "):
        return made
    dtype, _, extents = made.rstrip("]").partition("[")
    return f"{dtype} of {math.prod(int(extent or 1) for extent in extents.split(','))}"


@dataclass(frozen=True)
class _Lines:
    """The part of a family's text that is equal in families of the same computation.

    Attributes:
        text: The lines without views and without the shapes of parameters.
        numbers: Indices of the numbers in these lines, among all numbers that vary.
        parameters: For each parameter the range [begin, end) of indices of its extents.
    """

    text: str
    numbers: tuple[int, ...]
    parameters: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, shared: str) -> _Lines:
        """Extract the lines of a text with ``#`` for each number that varies."""
        read: dict[str, str] = {}
        lines: list[str] = []
        numbers: list[int] = []
        parameters: list[tuple[int, int]] = []
        at = 0
        for line in shared.splitlines():
            count = line.count("#")
            found = _LINE.match(line)
            view = _PLACED.match(found[2]) if found is not None else None
            if found is not None and view is not None and view[1] in read:
                read[found[1][1:]] = read[view[1]]
            else:
                made = found[2] if found is not None else line
                if made.startswith("param "):
                    parameters.append((at, at + count))
                    made = made.partition("[")[0]
                else:
                    numbers.extend(range(at, at + count))
                lines.append(_VALUE.sub(lambda value: read[value[1]], made))
                for k, value in enumerate(_VALUE.findall(found[1]) if found is not None else ()):
                    read[value] = f"%{len(lines)}.{k}"
            at += count
        return cls("\n".join(lines), tuple(numbers), tuple(parameters))


class TraceToMatch:
    """A trace, parsed once for all programs that are tried."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.shared, self.numbers = _C._family(text)
        self.lines = _Lines.of(self.shared)

    @functools.cached_property
    def bare(self) -> str:
        """See `bare`."""
        return bare(self.text)


class SizeOneRelatives:
    """Index of trace families by their common lines (`_Lines.text`)."""

    def __init__(self) -> None:
        # Digest to family keys, in insertion order, with the positions of their numbers.
        self._families: dict[bytes, dict[bytes, _Lines]] = {}
        self._digests: dict[bytes, bytes] = {}  # family key to digest of its lines

    def add(self, key: bytes, shared: str) -> None:
        """Add a family that has programs.

        Args:
            key: The family's key.
            shared: The family's text, with ``#`` for each number that varies.
        """
        lines = _Lines.of(shared)
        digest = _digest(lines)
        self._families.setdefault(digest, {})[key] = replace(lines, text="")
        self._digests[key] = digest

    def remove(self, key: bytes) -> None:
        """Remove a family if it is present."""
        digest = self._digests.pop(key, None)
        if digest is not None:
            del self._families[digest][key]
            if not self._families[digest]:
                del self._families[digest]

    def of(self, trace: TraceToMatch) -> list[tuple[bytes, _Lines]]:
        """Return the families whose programs may serve a trace: key, positions of numbers."""
        return list(self._families.get(_digest(trace.lines), {}).items())

    def clear(self) -> None:
        """Remove all families."""
        self._families.clear()
        self._digests.clear()


def _digest(lines: _Lines) -> bytes:
    return hashlib.blake2b(lines.text.encode(), digest_size=16).digest()


def values_with_ones(
    trace: TraceToMatch,
    shared: str,
    lines: _Lines,
    relation: ShapeRelation,
    admits: Callable[[Sequence[int]], bool],
) -> tuple[int, ...] | None:
    """Return the symbols' values with which a program of another family serves a trace.

    Args:
        trace: The trace.
        shared: The other family's text, with ``#`` for each number that varies.
        lines: The positions of its numbers.
        relation: How its numbers follow from the program's symbols.
        admits: Whether the program's guards hold for given values.

    Returns:
        The values; None if the trace computes something else or a guard fails.
    """
    try:
        values = _sizes(relation, lines, trace.lines, trace.numbers)
        same = (
            _member(shared, relation.numbers(values))
            if values is not None and admits(values)
            else None
        )
    except ZeroDivisionError:  # the other family has no trace with these sizes
        return None
    return values if same is not None and bare(same) == trace.bare else None


def _member(shared: str, numbers: Sequence[int]) -> str | None:
    """Return the trace of a family with these numbers; None if ``#`` also occurs elsewhere."""
    parts = shared.split("#")
    if len(parts) != len(numbers) + 1:
        return None
    return (
        "".join(part for pair in zip(parts, map(str, numbers), strict=False) for part in pair)
        + parts[-1]
    )


def _sizes(
    relation: ShapeRelation, theirs: _Lines, ours: _Lines, numbers: Sequence[int]
) -> tuple[int, ...] | None:
    """Solve for the symbols of another family's relation, given a trace's numbers.

    Equations with one unknown symbol are solved in turn; None if some symbol stays unknown.
    """
    spelled = dict(relation.texts) | {place: str(number) for place, number in relation.fixed}
    asked = [
        (spelled[there], numbers[here])
        for there, here in zip(theirs.numbers, ours.numbers, strict=True)
    ]
    for there, here in zip(theirs.parameters, ours.parameters, strict=True):
        count = "*".join(f"({spelled[place]})" for place in range(*there)) or "1"
        asked.append((count, math.prod(numbers[slice(*here)])))
    equations = [(text, _free_symbols(text), number) for text, number in dict.fromkeys(asked)]
    known: dict[str, int] = {}
    names = [name for name, _, _ in relation.symbols]
    while len(known) < len(names):
        before = len(known)
        for text, symbols, number in equations:
            missing = symbols - known.keys()
            if len(missing) == 1:
                name = next(iter(missing))
                value = number if text == name else _solution(text, known, name, number)
                if value is not None:
                    known[name] = value
        if len(known) == before:
            return None
    return tuple(known[name] for name in names)


_free_symbols = functools.lru_cache(1 << 12)(free_symbols)


def _solution(text: str, known: dict[str, int], name: str, number: int) -> int | None:
    """Solve a linear expression in one symbol for a number; None if it does not depend on it."""
    names = (*known, name)
    nothing, each = (
        compile_expressions([text], names)(*known.values(), value)[0] for value in (0, 1)
    )
    return (number - nothing) // (each - nothing) if each != nothing else None
