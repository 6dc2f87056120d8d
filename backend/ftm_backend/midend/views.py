"""Strided views of flat buffers and their composition.

A view reads element ``offset + sum(i_k * strides_k)`` of the row-major flattening of its base.  A view of a
view is again one view exactly when the flat index of the inner one never carries in a way that its strides
cannot follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ftm_backend.midend.affine import row_major, volume


@dataclass(frozen=True, slots=True)
class View:
    """``shape`` elements at ``offset + sum(i_k * strides_k)``, in elements of the base."""

    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]

    @staticmethod
    def dense(shape: Sequence[int]) -> View:
        """The whole of a row-major tensor."""
        return View(tuple(shape), 0, row_major(shape))

    @property
    def is_dense(self) -> bool:
        """Whether it reads consecutive elements from element 0, in order (extents of 1 aside)."""
        expected = row_major(self.shape)
        return self.offset == 0 and (
            volume(self.shape) <= 1
            or all(n == 1 or s == e for n, s, e in zip(self.shape, self.strides, expected, strict=True)))


def merge_dims(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """``(extent, stride)`` pairs with neighbours merged where one stride walks through both."""
    merged: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if merged and merged[-1][1] == stride * extent:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    return merged


def compose(outer: View, inner: View) -> View | None:
    """The view that reads ``outer`` of ``inner`` directly from the base of ``inner``.

    Returns:
        None when no single strided view does: the flat index of ``inner`` carries across its dimensions.
    """
    if volume(outer.shape) == 0:
        return View(outer.shape, 0, outer.strides)
    if inner.is_dense:
        return outer
    dims = merge_dims(inner.shape, inner.strides)
    flat = row_major([n for n, _ in dims])
    position = _digits(outer.offset, flat)
    highest = list(position)
    lowest = list(position)
    strides = []
    for extent, stride in zip(outer.shape, outer.strides, strict=True):
        step = _digits(abs(stride), flat)
        sign = 1 if stride >= 0 else -1
        strides.append(sign * sum(d * s for d, (_, s) in zip(step, dims, strict=True)))
        for k, digit in enumerate(step):
            if sign > 0:
                highest[k] += digit * (extent - 1)
            else:
                lowest[k] -= digit * (extent - 1)
    inside = all(low >= 0 and high < n for low, high, (n, _) in zip(lowest, highest, dims, strict=True))
    if not inside:
        return None
    offset = inner.offset + sum(d * s for d, (_, s) in zip(position, dims, strict=True))
    return View(outer.shape, offset, tuple(strides))


def _digits(flat_index: int, flat_strides: Sequence[int]) -> list[int]:
    digits = []
    for stride in flat_strides:
        digits.append(flat_index // stride)
        flat_index %= stride
    return digits
