"""Recognize transposed convolutions that the frontend wrote as sub-pixel convolutions.

The gradient of a convolution's input with stride ``s`` is ``s * s`` dense convolutions, one for
each *phase* of the result: the elements that are ``s`` apart and see the same taps. With stride 1
there is one phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from ftm_backend.ir.linalg.affine import row_major, volume
from ftm_backend.ir.linalg.function import Statement, Tensor, Update, Value, WindowPart
from ftm_backend.ir.linalg.strided_layout import Strided
from ftm_backend.symbolic import is_integer

__all__ = ["ConvTransposeMatch", "transposed"]

CONVOLUTION = "linalg.conv_2d_nchw_fchw"


@dataclass(frozen=True)
class ConvTransposeMatch:
    """A transposed convolution in two dimensions.

        result[n, c, o * stride + k * dilation - padding] += x[n, f, o] * weight[f, c, k]

    Attributes:
        x: The input ``[n, f, h, w]``.
        weight: The weights ``[f, c, kh, kw]``.
        stride: Rows and columns.
        dilation: Rows and columns.
        padding: Rows and columns.
        products: The convolutions that it replaces.
    """

    x: Tensor
    weight: Tensor
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]
    products: tuple[Statement, ...]


@dataclass(frozen=True)
class _PhaseWindow:
    """A window of the result of a convolution, as elements of one phase.

    Attributes:
        product: The convolution.
        start: First row and column of the window.
        counts: Rows and columns of the window.
        first: Row and column of the whole result where the window's first element is.
    """

    product: Statement
    start: tuple[int, int]
    counts: tuple[int, int]
    first: tuple[int, int]


@dataclass(frozen=True)
class _Taps:
    """What a convolution reads in one dimension.

    Attributes:
        window: Position of the first window in the input.
        spacing: Distance between two elements of a window (dilation).
        first: Tap of the weights that the first element of a window meets.
        step: By how much the tap decreases from one element to the next.
        count: Elements of a window.
    """

    window: int
    spacing: int
    first: int
    step: int
    count: int


def transposed(made: Statement | Update) -> ConvTransposeMatch | None:
    """Return the transposed convolution that an operation computes; None if it is another one.

    Args:
        made: A convolution, or the update that combines the phases.
    """
    shape = (made.result if isinstance(made, Update) else made.results[0].value).shape
    if len(shape) != 4 or not all(is_integer(n) and n > 0 for n in shape):
        return None
    if isinstance(made, Statement):
        pieces, strides, zero = [_PhaseWindow(made, (0, 0), shape[2:], (0, 0))], {(1, 1)}, False
    else:
        found = list(_pieces(made, shape))
        if not found or None in found:
            return None
        pieces, strides = [each[0] for each in found if each], {each[1] for each in found if each}
        zero = _is_zero(made.base.value)
        if not zero and (made.base.value.producer is not None or made.base.value.splat is not None):
            return None
    products = tuple(dict.fromkeys(piece.product for piece in pieces))
    if len(strides) != 1 or not all(_is_product(each) for each in products):
        return None
    ((rows, columns),) = strides
    x, weight = _input(products[0]), _weight(products[0])
    if x is None or weight is None or (x.view.sizes[0], weight.view.sizes[1]) != shape[:2]:
        return None
    taps = {product: _taps(product, x, weight) for product in products}
    geometry = []
    for dim, stride in enumerate((rows, columns)):
        steps = [
            (piece, each[dim]) for piece in pieces if (each := taps[piece.product]) is not None
        ]
        if len(steps) != len(pieces) or (one := _geometry(dim, stride, steps)) is None:
            return None
        geometry.append(one)
    if not _is_whole(pieces, taps, shape, (rows, columns), geometry, weight.view.sizes[2:], zero):
        return None
    (a, low), (b, left) = geometry
    return ConvTransposeMatch(x, weight, (rows, columns), (a, b), (low, left), products)


def _is_zero(value: Value) -> bool:
    return value.splat is not None and value.splat.op == "constant" and value.splat.payload == 0


def _is_product(statement: Statement) -> bool:
    (result,) = statement.results
    if (
        statement.op != CONVOLUTION
        or statement.volume == 0
        or any(t.value.splat is not None for t in statement.tensors)
    ):
        return False
    start = result.init
    numbers = (
        *statement.loops,
        *(n for t in statement.tensors for n in (*t.view.sizes, *t.view.strides, t.view.offset)),
    )
    zero = (
        start is not None
        and not hasattr(start, "index")
        and start.op == "constant"
        and start.payload == 0
    )
    return (
        zero
        and all(map(is_integer, numbers))
        and statement.attributes.get("strides", (1, 1)) == (1, 1)
    )


# --- where phases are stored


def _pieces(
    update: Update, shape: tuple[int, ...]
) -> Iterator[tuple[_PhaseWindow, tuple[int, int]] | None]:
    """Yield each phase window of an update, with the distance of its elements.

    Yields None for a part that is no window of a convolution.
    """
    whole = row_major(shape)
    for part in update.parts:
        for tensor, place in _unstacked(part):
            product, view = tensor.value.producer, tensor.view
            if (
                len(place.sizes) != 4
                or not isinstance(product, Statement)
                or product.op != CONVOLUTION
            ):
                yield None
                continue
            made, strides = tensor.value.shape, row_major(tensor.value.shape)
            numbers = (
                *place.sizes,
                *place.strides,
                place.offset,
                *view.strides,
                view.offset,
                *made,
            )
            if (
                not all(map(is_integer, numbers))
                or place.sizes[:2] != shape[:2]
                or made[:2] != shape[:2]
            ):
                yield None
                continue
            straight = all(
                n == 1 or have == want
                for n, have, want in zip(view.sizes, view.strides, strides, strict=True)
            )
            images = all(
                n == 1 or have == want
                for n, have, want in zip(shape[:2], place.strides, whole, strict=False)
            )
            rows, columns = place.strides[2:]
            first, start = divmod(place.offset, shape[3]), divmod(view.offset, made[3])
            inside = (
                start[0] + place.sizes[2] <= made[2]
                and start[1] + place.sizes[3] <= made[3]
                and first[0] < shape[2]
            )
            if (
                not straight
                or not images
                or not inside
                or rows % shape[3]
                or rows <= 0
                or columns <= 0
            ):
                yield None
                continue
            yield (
                _PhaseWindow(product, start, (place.sizes[2], place.sizes[3]), first),
                (rows // shape[3], columns),
            )


def _unstacked(part: WindowPart) -> Iterator[tuple[Tensor, Strided]]:
    """Yield the views of convolutions that a part consists of, and where they are stored.

    Looks through copies, and through the concatenation of two phases.
    """
    tensor, place = part.value, part.place
    maker = tensor.value.producer
    if (
        isinstance(maker, Statement)
        and tensor.is_whole
        and tensor.view.sizes == place.sizes
        and (moved := maker.copied_view()) is not None
    ):
        tensor, maker = moved, moved.value.producer
    if (
        not isinstance(maker, Update)
        or len(tensor.view.sizes) != 5
        or tensor.view.sizes != place.sizes
    ):
        yield tensor, place
        return
    one = volume(tensor.value.shape[1:])
    view = tensor.view
    if not all(map(is_integer, (*view.sizes, *view.strides, view.offset, one))):
        yield tensor, place
        return
    stacked = 0 if view.sizes[0] == 1 and place.strides[0] == 0 else 4
    step = view.strides[stacked] if view.sizes[stacked] > 1 else one
    for number in range(view.sizes[stacked]):
        inner, outer = view.select(stacked, number), place.select(stacked, number)
        phase, offset = divmod(inner.offset, one)
        found = next(
            (
                p
                for p in maker.parts
                if p.place.offset == phase * one and p.value.is_whole and p.place.numel == one
            ),
            None,
        )
        if step != one or (found is None and not _is_zero(maker.base.value)):
            yield tensor, place  # no phase window
        elif found is not None:
            yield Tensor(found.value.value, Strided(inner.sizes, inner.strides, offset)), outer


# --- what convolutions read


def _input(product: Statement) -> Tensor | None:
    """Return the input of a convolution without its border of zeros; None if it is no tensor."""
    value = product.tensors[0].value
    inside, sizes = (
        (value, value.shape) if value.border is None else (value.border.inside, value.border.sizes)
    )
    return (
        Tensor(inside, Strided.whole(sizes)) if len(sizes) == 4 and inside.splat is None else None
    )


def _weight(product: Statement) -> Tensor | None:
    """Return all taps ``[f, c, kh, kw]`` of the weights that a convolution reads some of.

    Looks through a copy tap by tap. None if the operand is no tensor of that form.
    """
    value = product.tensors[1].value
    if len(value.shape) != 4:
        return None
    maker = value.producer
    moved = maker.copied_view() if isinstance(maker, Statement) else None
    view = Strided.whole(value.shape)
    if moved is not None:
        value, view = moved.value, moved.view.permute((2, 3, 0, 1))
    rows, columns = view.strides[2:]
    joined = 1 in view.sizes[2:] or rows == columns * view.sizes[3]
    return Tensor(value, view) if joined and value.splat is None and value.border is None else None


def _taps(product: Statement, x: Tensor, weight: Tensor) -> tuple[_Taps, _Taps] | None:
    """Return what a convolution reads of input and weights, for rows and columns; None if more."""
    image, some = product.tensors
    if (mine := _input(product)) is None or (mine.value, mine.view) != (x.value, x.view):
        return None
    if (mine := _weight(product)) is None or (mine.value, mine.view) != (weight.value, weight.view):
        return None
    border, shape = image.value.border, image.value.shape
    low = border.low if border is not None else (0, 0, 0, 0)
    high = [whole - n - before for whole, n, before in zip(shape, x.view.sizes, low, strict=True)]
    straight = all(
        n == 1 or have == want
        for n, have, want in zip(
            image.view.sizes, image.view.strides, row_major(shape), strict=True
        )
    )
    if not straight or image.view.sizes[:2] != shape[:2] or any(low[:2]) or any(high[:2]):
        return None
    start = divmod(image.view.offset, shape[3])
    if any(
        first + n > whole
        for first, n, whole in zip(start, image.view.sizes[2:], shape[2:], strict=True)
    ):
        return None
    # strides of the operand: copied tap by tap, or in the order of the weights
    copied = some.value is not weight.value
    held = row_major(some.value.shape)
    f, c, row, column = (held[d] for d in ((2, 3, 0, 1) if copied else (0, 1, 2, 3)))
    channels, filters, *counts = some.view.sizes
    if (channels, filters) != (weight.view.sizes[1], weight.view.sizes[0]):
        return None
    if any(
        n > 1 and have != want
        for n, have, want in zip((channels, filters), some.view.strides, (c, f), strict=False)
    ):
        return None
    first, left = [], some.view.offset
    for step in (row, column):
        first.append(left // step)
        left %= step
    steps = []
    for n, stride, step in zip(counts, some.view.strides[2:], (row, column), strict=True):
        if n > 1 and (stride >= 0 or stride % step):
            return None
        steps.append(-stride // step if n > 1 else 1)
    inside = all(
        0 <= at - (n - 1) * step and at < whole
        for at, n, step, whole in zip(first, counts, steps, weight.view.sizes[2:], strict=True)
    )
    if left or not inside:
        return None
    spacings = product.attributes.get("dilations", (1, 1))
    rows, columns = (
        _Taps(start[d] - low[2 + d], spacings[d], first[d], steps[d], counts[d]) for d in (0, 1)
    )
    return rows, columns


# --- geometry


def _geometry(
    dim: int, stride: int, steps: Sequence[tuple[_PhaseWindow, _Taps]]
) -> tuple[int, int] | None:
    """Return dilation and padding of one dimension, if all phases agree.

    Element ``i`` of a convolution is element ``first + stride * (i - start)`` of the result. Its
    element ``t`` of a window meets tap ``taps.first - step * t``, at position ``window + i +
    spacing * t``.
    """
    dilations = {Fraction(stride * t.spacing, t.step) for _, t in steps if t.count > 1}
    offsets = {(t.first, stride * (t.window + p.start[dim]) - p.first[dim]) for p, t in steps}
    tap, offset = min(offsets)
    dilations |= {
        Fraction(offset - other, another - tap) for another, other in offsets if another != tap
    }
    dilation = min(dilations, default=Fraction(1))
    paddings = {offset + dilation * tap for tap, offset in offsets}
    if len(dilations) > 1 or len(paddings) > 1 or dilation.denominator != 1 or dilation < 1:
        return None
    return int(dilation), int(paddings.pop())


def _is_whole(
    pieces: Sequence[_PhaseWindow],
    taps: dict[Statement, tuple[_Taps, _Taps] | None],
    shape: tuple[int, ...],
    strides: tuple[int, int],
    geometry: Sequence[tuple[int, int]],
    window: Sequence[int],
    zero: bool,
) -> bool:
    """Return whether the windows cover all elements of the result that a tap reaches.

    Each must have all taps that reach it. Other elements must be zero, which ``zero`` states.
    """
    every = []
    for dim in (0, 1):
        dilation, padding = geometry[dim]
        met = {
            r: {k for k in range(window[dim]) if (r + padding - dilation * k) % strides[dim] == 0}
            for r in range(min(strides[dim], shape[2 + dim]))
        }
        every.append(met)
    seen: dict[tuple[int, int], int] = {}
    for piece in pieces:
        phase = (piece.first[0] % strides[0], piece.first[1] % strides[1])
        seen[phase] = seen.get(phase, 0) + prod(piece.counts)
        each = taps[piece.product]
        assert each is not None
        if any(
            {t.first - t.step * n for n in range(t.count)} != every[dim][phase[dim]]
            for dim, t in enumerate(each)
        ):
            return False
    for row, of_rows in every[0].items():
        for column, of_columns in every[1].items():
            places = len(range(row, shape[2], strides[0])) * len(
                range(column, shape[3], strides[1])
            )
            if of_rows and of_columns and seen.get((row, column), 0) != places:
                return False
            if not (of_rows and of_columns) and not zero:
                return False
    return True
