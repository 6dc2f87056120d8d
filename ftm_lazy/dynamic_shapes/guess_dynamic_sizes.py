"""Analysis: mark the sizes of a first trace that will probably vary, by symbols.

In a trace without gradients these are the sizes of integer tensors and masks (token ids; not uint8,
which are pixels), of tensors that the trace fills itself, and of results of dynamic-shape programs,
such as growing KV caches. The recorder determines them (``csrc/partition/guess_varying_sizes.h``).
The compiler then infers which other numbers depend on them
(`ftm_backend.frontend.symbolic_shape_inference`).

A *place* is the index of a number in a trace (`ftm_backend.ir.trace.shape_family`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ftm_backend.ir.trace.shape_family import NumberPlaces, numbers_of, with_numbers
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.symbolic import ShapeEnv, SymInt, new_symbol
from ftm_lazy.dynamic_shapes.cache_windows import (
    CacheWindow,
    TransposedWindow,
    appended_dims,
    cropped,
    transposed,
)

__all__ = ["mark_dynamic_sizes"]

_FACTORIES = frozenset({"aten::full", "aten::zeros", "aten::ones", "aten::arange.start_step"})
_COUNTED = frozenset({"i64", "i32", "i1"})
# images, sounds and quantized tensors usually have fixed sizes
_NARROW = frozenset({"u8", "i8", "i16"})
_LEAST = 1
_MOST = 32


def mark_dynamic_sizes(
    trace: Trace,
    varies: Sequence[int],
    others: Sequence[Sequence[int]] = (),
    asked: Iterable[int] = (),
    trains: bool = False,
    any_size: bool = False,
) -> Trace | None:
    """Replace the sizes that will probably vary by symbols.

    Args:
        trace: The trace.
        varies: For each parameter a bit mask of the dimensions that will probably vary.
        others: Numbers of traces of the same structure. A parameter's size varies if theirs
            differs.
        asked: Places of further numbers that vary, because they did not follow from the others;
            each becomes a separate symbol.
        trains: Keep the sizes of integer tensors and of filled tensors fixed, as in batches and
            gradients. Each other size becomes a separate symbol: two experts may get equally many
            tokens by chance.
        any_size: Also replace sizes of 1. Otherwise they stay constants, since most are always 1.
            Exceptions: a dimension that the trace appends to, such as a cache of one token, and
            sizes of integer tensors marked in `varies`.

    Returns:
        The trace with symbols, or None if no size varies.
    """
    marker = _Marker(trace, others, _LEAST if any_size else _LEAST + 1)
    marker.mark_parameters(varies, trains)
    given = set(marker.symbols.values.values())
    for place in sorted(asked):
        if place not in marker.marked:
            symbol = marker.symbol(place, "asked", marker.column(place))
            if isinstance(symbol, SymInt):
                marker.symbols.distinct.add(symbol.text)
    if not trains:
        marker.mark_factories(given)
    if not marker.symbols.values:
        return None
    if not trains:
        marker.mark_updates()
    if len(marker.symbols.values) > _MOST:
        return None
    return with_numbers(trace, marker.numbers, marker.symbols)


class _Marker:
    """Replaces numbers of a trace by polynomials.

    Attributes:
        numbers: The numbers of the trace, literal or symbolic.
        marked: The places that were replaced.
        symbols: The symbols that occur.
    """

    def __init__(self, trace: Trace, others: Sequence[Sequence[int]], smallest: int) -> None:
        self._trace, self._others, self._smallest = trace, others, smallest
        self._places = NumberPlaces(trace)
        self._known: dict[tuple[object, ...], SymInt] = {}
        self.numbers: list[Any] = list(numbers_of(trace))
        self._literals = tuple(self.numbers)
        self.marked: set[int] = set()
        self.symbols = ShapeEnv({})

    def column(self, place: int) -> tuple[int, ...]:
        """Return the numbers of other traces at a place."""
        return tuple(other[place] for other in self._others)

    def _varies(self, place: int) -> bool:
        """Return whether another trace has another number at a place."""
        return any(other[place] != self._literals[place] for other in self._others)

    def symbol(self, place: int, *kind: object, least: int | None = None) -> Any:
        """Replace a number by the symbol of its kind and value, unless it is too small.

        Args:
            place: The number's place.
            *kind: Equal numbers of one kind become one symbol.
            least: The smallest number to replace.

        Returns:
            The symbol or the number.
        """
        number = self._literals[place]
        if number < (self._smallest if least is None else least):
            return number
        symbol = self._known.get((*kind, number))
        if symbol is None:
            symbol = self._known[(*kind, number)] = new_symbol(self.symbols, number, _LEAST)
        self._replace(place, symbol)
        return symbol

    def _replace(self, place: int, size: Any) -> None:
        self.numbers[place] = size
        self.marked.add(place)

    def mark_parameters(self, varies: Sequence[int], trains: bool) -> None:
        """Replace the sizes of parameters, and of the windows through which caches are read."""
        appended: set[tuple[int, int]] = set()
        for operands, dim in appended_dims(self._trace):
            appended.update((value, dim) for value in operands)
        windows: dict[int, list[CacheWindow]] = {}
        for window in cropped(self._trace, self._places):
            windows.setdefault(window.extent, []).append(window)
        behind = {window.extent: window for window in transposed(self._trace, self._places)}
        for number, type_ in enumerate(self._trace.params):
            mask = _varying_dims(type_.dtype, varies[number], trains) if varies else 0
            told = varies[number] if varies and type_.dtype in _COUNTED else 0
            rank = len(type_.shape)
            for dimension, place in enumerate(self._places.params[number]):
                here = self._cache_windows(windows.get(place, ()), place, bool(mask & 1), trains)
                if here:
                    self._mark_windows(here, trains)
                elif mask & 1 and place in behind and not trains:
                    self._mark_transposed(behind[place], place)
                elif mask >> dimension & 1 or self._varies(place):
                    is_told = dimension == rank - 1 and told >> dimension & 1
                    grows = {(number, dimension), (number, dimension - rank)} & appended
                    self._mark_extent(number, dimension, trains, bool(is_told or grows))

    def _mark_extent(self, number: int, dimension: int, trains: bool, may_be_one: bool) -> None:
        """Replace one extent of a parameter; of traces without gradients it may be small."""
        type_, place = self._trace.params[number], self._places.params[number][dimension]
        kind = (number,) if trains else (type_.dtype, len(type_.shape))
        least = _LEAST if may_be_one and not trains else None
        self.symbol(place, *kind, dimension, self.column(place), least=least)

    def _cache_windows(
        self, windows: Sequence[CacheWindow], place: int, is_made: bool, trains: bool
    ) -> list[CacheWindow]:
        """Return the views of a parameter that are windows of a cache.

        A view is none if other traces show that the parameter's extent varies, but neither the
        window's rows nor its whole do.

        Args:
            windows: The views of the parameter that are cropped.
            place: The place of the extent that they crop.
            is_made: The device made the parameter. Else it is a cache only if rows are appended.
            trains: The trace has gradients.
        """
        if self._varies(place):
            windows = [w for w in windows if self._varies(w.rows) or self._varies(w.whole)]
        is_appended = not trains and any(window.grows for window in windows)
        return [*windows] if is_made or is_appended else []

    def _mark_transposed(self, cache: TransposedWindow, place: int) -> None:
        rows = self.symbol(cache.rows, "rows")
        for stride, row in cache.outer:
            self._replace(stride, row * rows)
        self._replace(place, cache.each * rows + cache.rest)

    def _mark_windows(self, windows: Sequence[CacheWindow], trains: bool) -> None:
        for window in windows:
            rows = self.symbol(window.rows, "rows", least=None if trains else _LEAST)
            whole = self.symbol(window.whole, "whole")
            for place, times in window.outer:
                self._replace(place, times * whole)
            self._replace(window.extent, window.wholes * whole + window.width * rows)

    def mark_factories(self, given: set[int]) -> None:
        """Replace the sizes of tensors that the trace fills, except the numbers in ``given``."""
        for position, node in enumerate(self._trace.nodes):
            if node.op not in _FACTORIES:
                continue
            for name, value in node.spec.args:
                for k, place in enumerate(self._places.argument(position, name)):
                    if self._literals[place] not in given and place not in self.marked:
                        # the position in a list of extents distinguishes symbols
                        self.symbol(place, "made", k if isinstance(value, tuple) else "")

    def mark_updates(self) -> None:
        """Replace the offsets at which the trace writes, each by a separate symbol."""
        for position, node in enumerate(self._trace.nodes):
            if node.op == "ftm.update" and node.argument("sizes"):
                (place,) = self._places.argument(position, "offset")
                offset = self._literals[place]
                if offset > 0 and place not in self.marked:
                    self._replace(place, new_symbol(self.symbols, offset, 0))


def _varying_dims(dtype: str, told: int, trains: bool) -> int:
    """Return the bit mask of a parameter's varying dimensions, from the recorder's mask."""
    if dtype in _NARROW:
        return 0
    return -1 if dtype in _COUNTED and not trains else told
