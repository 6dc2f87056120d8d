"""Analysis: makes a symbol of each size that differs in another trace of the family.

A second value at the same place makes a symbol (Dynamo's rule). A *place* is the index of a number
in a trace (`ftm_backend.ir.trace.shape_family`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ftm_backend.ir.trace.shape_family import NumberPlaces, numbers_of, with_numbers
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.symbolic import ShapeEnv, SymInt, new_symbol, parse_size

__all__ = ["with_observed_symbols"]

_MOST = 32  # symbols
_LEAST = 2  # sizes of 1 stay constants, since most are always 1


def with_observed_symbols(
    trace: Trace, others: Sequence[Sequence[int]], asked: Iterable[int], trains: bool
) -> Trace | None:
    """Add symbols for sizes of parameters in which other traces differ.

    Two sizes share a symbol only if they were equal in all traces.

    Args:
        trace: The trace, with the symbols that the recorder chose. It is not changed.
        others: Numbers of other traces of the family.
        asked: Places of further numbers that vary; each becomes a separate symbol.
        trains: Sizes of different parameters do not share a symbol.

    Returns:
        The trace with symbols, or None if no size varies, or too many.
    """
    symbols = ShapeEnv(trace.symbols.declared if trace.symbols is not None else {})
    with symbols:
        numbers: list[SymInt | int] = [
            parse_size("{" + size.text + "}") if isinstance(size, SymInt) else size
            for size in numbers_of(trace)
        ]
    known: dict[tuple[object, ...], SymInt] = {}
    columns: dict[str, tuple[int, ...]] = {}  # by the recorder's symbols: the first size's numbers

    def column(place: int) -> tuple[int, ...]:
        return tuple(other[place] for other in others)

    def symbol(key: tuple[object, ...], hint: int) -> SymInt:
        if key not in known:
            known[key] = new_symbol(symbols, hint, 1)
        return known[key]

    for number, (type_, places) in enumerate(
        zip(trace.params, NumberPlaces(trace).params, strict=True)
    ):
        kind = (number,) if trains else (type_.dtype, len(type_.shape))
        for dimension, place in enumerate(places):
            size, seen = numbers[place], column(place)
            if not isinstance(size, SymInt):
                if size >= _LEAST and any(other != size for other in seen):
                    numbers[place] = symbol((*kind, dimension, seen, size), size)
            elif size.text in symbols.declared and columns.setdefault(size.text, seen) != seen:
                numbers[place] = symbol((size.text, seen), size.value)
    for place in sorted(asked):
        size = numbers[place]
        if not isinstance(size, SymInt) and size >= _LEAST:
            numbers[place] = asked_size = symbol(("asked", column(place), size), size)
            symbols.distinct.add(asked_size.text)
    if not 0 < len(symbols.declared) <= _MOST:
        return None
    return with_numbers(trace, numbers, symbols)
