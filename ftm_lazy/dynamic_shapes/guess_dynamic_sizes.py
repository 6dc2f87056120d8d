"""Analysis: mark the sizes of a first trace that will probably vary, by symbols.

In a trace without gradients these are the sizes of integer tensors and masks (token ids; not uint8,
which are pixels), of tensors that the trace fills itself, and of results of dynamic-shape programs,
such as growing KV caches. The recorder determines them (``csrc/graph/trace.h``). The compiler then
infers which other numbers depend on them (`ftm_backend.frontend.symbolic_shape_inference`).

All functions search the trace's text with regular expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ftm_backend.symbolic.shape_relations import NumberSpans, ShapeRelation
from ftm_lazy.dynamic_shapes.cache_windows import CacheWindow, cropped, turned

__all__ = ["relation_of", "seeded", "varying_results"]

_PARAMETER = re.compile(r"^  %(\d+) = param (\w+)\[([\d,]+)\]$", re.MULTILINE)
_UPDATE = re.compile(
    r"ftm\.update\(base=%\d+, value=%\d+, sizes=\[[\d,]+\], strides=\[[\d,]+\], offset=([1-9]\d*)\)"
)
_FACTORY = re.compile(r"^  %\d+ = aten::(?:full|zeros|ones|arange\.start_step)\(.*$", re.MULTILINE)
_CAT = re.compile(r"aten::cat\(tensors=\[(%\d+(?:,%\d+)*)\], dim=(-?\d+)\)")
_SIZE = re.compile(r"^  size (s\d+) = (\d+), (\d+)\n", re.MULTILINE)
_NUMBER = re.compile(r"-?\d+")
_COUNTED = frozenset({"i64", "i32", "i1"})
# images, sounds and quantized tensors usually have fixed sizes
_NARROW = frozenset({"u8", "i8", "i16"})
_TYPE = re.compile(r"none|\w+\[[^]]*\]")
_LEAST = 1
_MOST = 32


def seeded(
    text: str,
    varies: Sequence[int],
    places: NumberSpans,
    others: Sequence[Sequence[int]] = (),
    asked: Iterable[int] = (),
    trains: bool = False,
    any_size: bool = False,
) -> str:
    """Replace the sizes that will probably vary by symbols.

    Args:
        text: The trace.
        varies: For each parameter a bit mask of the dimensions that will probably vary.
        places: Positions in the text of the numbers that may vary.
        others: Numbers of traces of the same structure. A parameter's size varies if theirs
            differs.
        asked: Indices of further numbers that vary, because they did not follow from the others;
            each becomes a separate symbol.
        trains: Keep the sizes of integer tensors and of filled tensors fixed, as in batches and
            gradients. Each other size becomes a separate symbol: two experts may get equally many
            tokens by chance.
        any_size: Also replace sizes of 1. Otherwise they stay constants, since most are always 1.
            Exceptions: a dimension that the trace appends to, such as a cache of one token, and
            sizes of integer tensors marked in `varies`.

    Returns:
        The trace with symbols, or "" if no size varies.
    """
    columns = {begin: tuple(other[k] for other in others) for k, (begin, _, _) in enumerate(places)}
    differs = {
        begin
        for begin, end, _ in places
        if any(number != int(text[begin:end]) for number in columns[begin])
    }
    symbols: dict[tuple[object, ...], str] = {}
    own: set[str] = set()
    values: list[int] = []
    spelled: list[tuple[int, int, str]] = []

    smallest = _LEAST if any_size else _LEAST + 1

    def symbol(begin: int, end: int, *kind: object, least: int = smallest) -> str:
        number = int(text[begin:end])
        if number < least:
            return str(number)
        name = symbols.get((*kind, number))
        if name is None:
            name = symbols[(*kind, number)] = f"s{len(values)}"
            values.append(number)
        spelled.append((begin, end, name))
        return name

    growing = {(value, int(cat[2])) for cat in _CAT.finditer(text) for value in cat[1].split(",")}
    windows: dict[int, list[CacheWindow]] = {}
    for window in cropped(text):
        windows.setdefault(window.extent[0], []).append(window)
    behind = {window.extent[0]: window for window in turned(text)}
    for parameter in _PARAMETER.finditer(text):
        dtype, rank = parameter[2], parameter[3].count(",") + 1
        number = int(parameter[1])
        mask = (
            (0 if dtype in _NARROW else -1 if dtype in _COUNTED and not trains else varies[number])
            if varies
            else 0
        )
        for dimension, extent in enumerate(_NUMBER.finditer(text, *parameter.span(3))):
            # A view is no cache window if other traces show that the parameter's extent varies, but
            # neither the window's rows nor its whole do.
            windows_here = [
                window
                for window in windows.get(extent.start(), ())
                if extent.start() not in differs
                or not differs.isdisjoint((window.rows[0], window.whole[0]))
            ]
            # A parameter that rows are appended to is a cache, even if it comes from the CPU.
            if windows_here and (
                mask & 1 or (not trains and any(window.grows for window in windows_here))
            ):
                for window in windows_here:
                    rows = symbol(*window.rows, "rows", least=smallest if trains else _LEAST)
                    whole = symbol(*window.whole, "whole")
                    spelled += [(*place, f"{times}*{whole}") for place, times in window.outer]
                spelled.append((*extent.span(), f"{window.wholes}*{whole}+{window.width}*{rows}"))
            elif mask & 1 and extent.start() in behind and not trains:
                there = behind[extent.start()]
                rows = symbol(*there.rows, "rows")
                spelled += [(*place, f"{row}*{rows}") for place, row in there.outer]
                spelled.append((*extent.span(), f"{there.each}*{rows}{there.rest:+d}"))
            elif mask >> dimension & 1 or extent.start() in differs:
                kind = (number,) if trains else (dtype, rank)
                is_told = (
                    dtype in _COUNTED
                    and varies
                    and dimension == rank - 1
                    and varies[number] >> dimension & 1
                )
                grows = {(f"%{number}", dimension), (f"%{number}", dimension - rank)} & growing
                least = _LEAST if not trains and (is_told or grows) else smallest
                symbol(
                    *extent.span(), *kind, dimension, columns.get(extent.start(), ()), least=least
                )
    given = set(values)
    begun = {begin for begin, _, _ in spelled}
    for place in sorted(asked):
        begin, end, _ = places[place]
        if begin not in begun:
            own.add(symbol(begin, end, "asked", columns[begin]))
    begun = {begin for begin, _, _ in spelled}
    for line in () if trains else _FACTORY.finditer(text):
        for begin, end, is_extent in places:
            if (
                line.start() <= begin < line.end()
                and not is_extent
                and int(text[begin:end]) not in given
                and begin not in begun
            ):
                # the position in a list of extents distinguishes symbols
                inside = text.rfind("[", line.start(), begin)
                symbol(begin, end, "made", text.count(",", inside, begin) if inside >= 0 else "")
    if not values:
        return ""
    leasts = [_LEAST] * len(values)
    begun = {begin for begin, _, _ in spelled}
    for update in () if trains else _UPDATE.finditer(text):
        if update.start(1) not in begun:
            spelled.append((*update.span(1), f"s{len(values)}"))
            values.append(int(update[1]))
            leasts.append(0)
    if len(values) > _MOST:
        return ""
    pieces, at = [], 0
    for begin, end, name in sorted(spelled):
        pieces += [text[at:begin], "{" + name + "}"]
        at = end
    head, _, body = "".join([*pieces, text[at:]]).partition("\n")
    declared = (
        f"  size s{k} = {value}, {least}"
        for k, (value, least) in enumerate(zip(values, leasts, strict=True))
    )
    return "\n".join(
        [head, *(line + ", own" * (line.split()[1] in own) for line in declared), body]
    )


def relation_of(general: str, text: str, places: NumberSpans) -> ShapeRelation:
    """Return how the numbers of a trace follow from the symbols of its dynamic trace.

    Args:
        general: The trace with symbols.
        text: The static trace that it was derived from.
        places: Positions in `text` of the numbers that may vary.

    Raises:
        ValueError: `general` was not derived from `text`.
    """
    body, at, here = _SIZE.sub("", general), 0, 0
    fixed: list[tuple[int, int]] = []
    texts: list[tuple[int, str]] = []
    for place, (begin, end, _) in enumerate(places):
        there = here + begin - at
        if body[here:there] != text[at:begin]:
            raise ValueError("the general trace is another")
        if body[there : there + 1] == "{":
            close = body.index("}", there)
            texts.append((place, body[there + 1 : close]))
            here = close + 1
        else:
            here = there + end - begin
            if body[there:here] != text[begin:end]:
                raise ValueError("the general trace has another number")
            fixed.append((place, int(text[begin:end])))
        at = end
    if body[here:] != text[at:]:
        raise ValueError("the general trace is another")
    first = {spelled: place for place, spelled in reversed(texts)}
    return ShapeRelation.of(
        fixed,
        texts,
        [
            (name, first[name], int(least))
            for name, _, least in _SIZE.findall(general)
            if name in first
        ],
    )


def varying_results(general: str) -> list[int]:
    """Return for each result of a trace with symbols a bit mask of its symbolic dimensions."""
    types: dict[str, str] = {}
    for line in general.splitlines():
        names, is_value, made = line.partition(" = ")
        if is_value and line.startswith("  %"):
            types |= zip(
                names.strip().split(", "),
                _TYPE.findall(made.rpartition(" : ")[2].removeprefix("param ")),
                strict=True,
            )
    return [_mask(types[name]) for name in general.rstrip().rpartition("return ")[2].split(", ")]


def _mask(type_: str) -> int:
    return sum(
        1 << k
        for k, extent in enumerate(type_.partition("[")[2].rstrip("]").split(","))
        if "{" in extent and k < 64
    )
