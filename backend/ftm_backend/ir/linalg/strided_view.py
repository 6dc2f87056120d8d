"""Strided views of contiguous data: (sizes, strides, offset) over a flat buffer.

The frontend uses them to express a view by MLIR's operations (reshape, slice, permute, expand); the
lowering folds such operations back into one access. A view of a view is again one view unless the
inner flat index carries in a way that its strides cannot follow (`compose`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.symbolic import SymInt, guarded_equal, size_hint


@dataclass(frozen=True, slots=True)
class Strided:
    """A strided view: element ``(i_0, i_1, ...)`` is at ``offset + sum(i_k * strides[k])``."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @classmethod
    def whole(cls, sizes: Sequence[int]) -> Strided:
        """Return the view of a whole contiguous buffer of shape ``sizes``."""
        return cls(tuple(sizes), row_major(sizes))

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.sizes)

    def is_contiguous(self) -> bool:
        """Whether it is row-major without gaps; the offset and strides of extents 1 are free."""
        if self.numel == 0:
            return True
        return self._is_row_major()

    @property
    def is_dense(self) -> bool:
        """Whether it is consecutive elements from element 0, in order."""
        if self.offset:
            return False
        return self._is_row_major() or self.numel <= 1

    def _is_row_major(self) -> bool:
        steps = zip(self.sizes, self.strides, row_major(self.sizes), strict=True)
        return all(
            guarded_equal(stride, expected) or guarded_equal(size, 1)
            for size, stride, expected in steps
        )

    def permute(self, order: Sequence[int]) -> Strided:
        """Return the view whose dimension k is dimension ``order[k]`` of this one."""
        return Strided(
            tuple(self.sizes[i] for i in order), tuple(self.strides[i] for i in order), self.offset
        )

    def slice(self, dim: int, start: int, length: int, step: int = 1) -> Strided:
        """Take ``length`` elements of ``dim`` from ``start``, each ``step`` (may be < 0) apart."""
        sizes, strides = list(self.sizes), list(self.strides)
        offset = self.offset + start * strides[dim] if length else self.offset
        sizes[dim] = length
        strides[dim] *= step
        return Strided(tuple(sizes), tuple(strides), offset)

    def select(self, dim: int, index: int) -> Strided:
        """Take entry ``index`` of ``dim`` and drop that dimension."""
        return Strided(
            self.sizes[:dim] + self.sizes[dim + 1 :],
            self.strides[:dim] + self.strides[dim + 1 :],
            self.offset + index * self.strides[dim],
        )

    def expand(self, sizes: Sequence[int]) -> Strided:
        """Broadcast to ``sizes``, where -1 keeps an extent; new dimensions come in front."""
        added = len(sizes) - len(self.sizes)
        out_sizes, out_strides = [], []
        for k, size in enumerate(sizes):
            own = self.sizes[k - added] if k >= added else 1
            # A size-1 dimension that is broadcast to a symbolic size has stride 0 at every size,
            # also at size 1, so there is no need for a guard on the symbol.
            repeats = type(own) is int and own == 1 and isinstance(size, SymInt)
            keep = k >= added and not repeats and (size in (-1, own))
            out_sizes.append(own if size == -1 else size)
            out_strides.append(self.strides[k - added] if keep else 0)
        return Strided(tuple(out_sizes), tuple(out_strides), self.offset)

    def reshape(self, sizes: Sequence[int]) -> Strided | None:
        """Return the same elements in row-major order under new ``sizes``.

        Returns:
            None if no strides express that.
        """
        sizes = tuple(sizes)
        if self.numel == 0 or math.prod(sizes) == 0:
            return Strided(sizes, row_major(sizes), self.offset)
        if self.is_contiguous():
            return Strided(sizes, row_major(sizes), self.offset)
        # runs of dimensions that advance as one: [extent, stride of the last]
        groups: list[list[int]] = []
        for size, stride in zip(self.sizes, self.strides, strict=True):
            if guarded_equal(size, 1):
                continue
            if groups and guarded_equal(groups[-1][1], size * stride):
                groups[-1][0] *= size
                groups[-1][1] = stride
            else:
                groups.append([size, stride])
        strides: list[int] = [0] * len(sizes)
        dim = len(sizes) - 1
        for extent, stride in reversed(groups):
            filled = 1
            while dim >= 0 and filled < extent:
                strides[dim] = stride * filled
                filled *= sizes[dim]
                dim -= 1
            if filled != extent:
                return None
        return Strided(sizes, tuple(strides), self.offset)


def merged(view: Strided) -> list[tuple[int, int]]:
    """Return ``(extent, stride)`` pairs; adjacent dimensions that one stride walks are merged."""
    pairs: list[tuple[int, int]] = []
    for extent, stride in zip(view.sizes, view.strides, strict=True):
        if guarded_equal(extent, 1):
            continue
        if pairs and guarded_equal(pairs[-1][1], stride * extent):
            pairs[-1] = (pairs[-1][0] * extent, stride)
        else:
            pairs.append((extent, stride))
    return pairs


def compose(outer: Strided, inner: Strided) -> Strided | None:
    """Compose two views: ``outer`` indexes the elements of ``inner`` in row-major order.

    Returns:
        The view that reads the buffer under ``inner`` directly, or None if no single strided view
        does because the flat index of ``inner`` carries across its dimensions.
    """
    if outer.numel == 0:
        return Strided(outer.sizes, outer.strides, 0)
    if inner.is_dense:
        return outer
    dims = merged(inner)
    flat = row_major([n for n, _ in dims])
    position = _digits(outer.offset, flat)
    highest, lowest = list(position), list(position)
    strides = []
    for extent, stride in zip(outer.sizes, outer.strides, strict=True):
        step = _digits(abs(stride), flat)
        sign = 1 if stride >= 0 else -1
        strides.append(sign * sum(d * s for d, (_, s) in zip(step, dims, strict=True)))
        for k, digit in enumerate(step):
            if sign > 0:
                highest[k] += digit * (extent - 1)
            else:
                lowest[k] -= digit * (extent - 1)
    if not all(
        low >= 0 and high < n for low, high, (n, _) in zip(lowest, highest, dims, strict=True)
    ):
        return None
    return Strided(
        outer.sizes,
        tuple(strides),
        inner.offset + sum(d * s for d, (_, s) in zip(position, dims, strict=True)),
    )


def _digits(flat_index: int, flat_strides: Sequence[int]) -> list[int]:
    """Decompose an index by mixed radix: ``sum(digit * stride)`` is the index.

    The caller checks that no digit exceeds the extent of its dimension.
    """
    digits = []
    for stride in flat_strides:
        # Every decomposition gives the right sum, so the comparison needs no guard.
        if size_hint(flat_index) < size_hint(stride):
            digits.append(0)
        else:
            digits.append(flat_index // stride)
            flat_index %= stride
    return digits


@dataclass(frozen=True, slots=True)
class Slicing:
    """A view as operations of MLIR, which apply to the contiguous base in this order.

    Attributes:
        shape: Reshape the base to this shape.
        starts: Start of the slice of each dimension.
        lengths: Length of the slice of each dimension.
        order: Permute the dimensions.
        insert: The shape after size-1 dimensions are inserted or dropped.
        expand: Broadcast to this shape.
    """

    shape: tuple[int, ...]
    starts: tuple[int, ...]
    lengths: tuple[int, ...]
    order: tuple[int, ...]
    insert: tuple[int, ...]
    expand: tuple[int, ...]


def decompose(view: Strided, numel: int) -> Slicing | None:
    """Express ``view`` of a contiguous buffer of ``numel`` elements by MLIR's operations.

    Returns:
        None if that is impossible: overlapping windows, diagonals, steps that divide no extent, no
        elements.
    """
    if view.numel == 0 or view.offset < 0 or min(view.strides, default=0) < 0:
        return None
    real = [k for k in range(len(view.sizes)) if view.sizes[k] > 1 and view.strides[k] > 0]
    by_stride = sorted(real, key=lambda k: -view.strides[k])
    shape, starts, lengths = [], [], []
    extent, offset = numel, view.offset
    for k in by_stride:
        stride = view.strides[k]
        if extent % stride:
            return None
        start, offset = divmod(offset, stride)
        if start + view.sizes[k] > extent // stride:
            return None
        shape.append(extent // stride)
        starts.append(start)
        lengths.append(view.sizes[k])
        extent = stride
    if extent > 1:
        shape.append(extent)
        starts.append(offset)
        lengths.append(1)
    order = [by_stride.index(k) for k in real] + list(range(len(real), len(shape)))
    insert = tuple(size if k in real else 1 for k, size in enumerate(view.sizes))
    return Slicing(tuple(shape), tuple(starts), tuple(lengths), tuple(order), insert, view.sizes)
