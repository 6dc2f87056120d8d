"""Analysis: express a view's sizes, strides and offset by the symbolic shape of its base."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from ftm_backend.symbolic import SymInt, divides, size_hint


def view_arguments(
    base: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    offset: int,
    guess: Callable[[int], int],
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return sizes, strides and offset of a view in terms of its base's shape, where they match.

    Args:
        base: Shape of the tensor whose elements, in row-major order, the view shows.
        sizes: The view's sizes; plain or symbolic.
        strides: The view's strides, in elements.
        offset: The view's offset, in elements.
        guess: From a number that does not follow from the base to a guess of its size, or itself.

    Returns:
        Sizes, strides and offset.
    """
    memory = _Memory(base)
    if not memory.varies and memory.is_whole(sizes, strides):
        repeated = (
            size if stride else guess(size) for size, stride in zip(sizes, strides, strict=True)
        )
        return tuple(repeated), tuple(strides), offset
    # strides declared symbolic are complete: the others are constants
    if any(isinstance(stride, SymInt) for stride in strides):
        found = tuple(strides)
    else:
        found = tuple(memory.stride(stride, guess) for stride in strides)
    extents = tuple(
        memory.size(size, stride, guess) for size, stride in zip(sizes, found, strict=True)
    )
    return extents, found, memory.offset(offset, extents, found, guess)


class _Memory:
    """Row-major layout of a tensor; ``steps[d]`` is the stride of dimension ``d``."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)
        self.dim_strides = tuple(math.prod(self.shape[d + 1 :]) for d in range(len(self.shape)))
        self.count = math.prod(self.shape)
        self.varies = any(isinstance(size, SymInt) for size in self.shape)

    def is_whole(self, sizes: Sequence[int], strides: Sequence[int]) -> bool:
        """Whether a view shows every element, as reshapes, permutations and expansions do."""
        shown = math.prod(size for size, stride in zip(sizes, strides, strict=True) if stride)
        return size_hint(shown) == size_hint(self.count)

    def stride(self, stride: int, guess: Callable[[int], int]) -> int:
        """Express a stride by that of a dimension, or of a part of a dimension."""
        if isinstance(stride, SymInt) or stride <= 1:
            return stride
        for whole in (*reversed(self.dim_strides), self.count):
            if size_hint(whole) == stride:
                return whole
        for step, extent in zip(reversed(self.dim_strides), reversed(self.shape), strict=True):
            multiple, remainder = divmod(stride, size_hint(step))
            if not remainder and multiple <= size_hint(extent):
                part = next((part for part in _factors(extent) if size_hint(part) == multiple), 0)
                return step * (part or (multiple if divides(multiple, extent) else guess(multiple)))
        return guess(stride)

    def size(self, size: int, stride: int, guess: Callable[[int], int]) -> int:
        """Express a view's extent along a dimension of this stride."""
        if isinstance(size, SymInt) or size <= 1:
            return size
        if not size_hint(stride):
            return guess(size)
        for number, candidate in enumerate(self._along(stride)):
            if size_hint(candidate) == size:
                return candidate
            if not number and not isinstance(candidate, SymInt) and candidate % size == 0:
                return size  # a constant divisor, such as the heads of attention
        return guess(size)

    def _along(self, stride: int) -> Iterator[int]:
        """Yield the possible extents at this stride, the most likely first.

        They are the rest of the stride's dimension, its products with the dimensions before, and
        their factors.
        """
        for d in reversed(range(len(self.shape))):
            if (
                size_hint(self.dim_strides[d])
                <= size_hint(stride)
                < size_hint(self.dim_strides[d]) * size_hint(self.shape[d])
            ):
                multiple = (
                    stride // self.dim_strides[d] if divides(self.dim_strides[d], stride) else 0
                )
                if not size_hint(multiple) or not divides(multiple, self.shape[d]):
                    return
                remaining = self.shape[d] // multiple
                yield remaining
                for before in reversed(range(d)):
                    yield math.prod(self.shape[before:d]) * remaining
                for first in reversed(range(d + 1)):
                    yield from _factors(math.prod(self.shape[first:d]) * remaining)
                return

    def offset(
        self, offset: int, sizes: Sequence[int], strides: Sequence[int], guess: Callable[[int], int]
    ) -> int:
        """Express an offset dimension by dimension: from the start, or relative to the end."""
        if isinstance(offset, SymInt) or not offset:
            return offset
        symbolic_offset, remaining = 0, offset
        for extent, step in zip(self.shape, self.dim_strides, strict=True):
            index, remaining = (
                divmod(remaining, size_hint(step)) if size_hint(step) else (0, remaining)
            )
            if not index:
                continue
            view_extent = next(
                (
                    size
                    for size, stride in zip(sizes, strides, strict=True)
                    if size_hint(stride) == size_hint(step)
                ),
                1,
            )
            # The end of the dimension, or of the parts that the view splits it into, such as the
            # rows of each sequence of a batch.
            parts = (
                stride // step
                for stride in strides
                if size_hint(stride) > size_hint(step) and divides(step, stride)
            )
            ends = (
                end
                for end in (extent, *parts)
                if isinstance(end, SymInt) and index + size_hint(view_extent) == end.value
            )
            end = next(ends, None)
            symbolic_offset += (guess(index) if end is None else end - view_extent) * step
        return symbolic_offset + remaining


def _factors(size: int) -> Iterator[int]:
    """Yield factors of a monomial, those with most symbols first."""
    if not isinstance(size, SymInt) or (monomial := size.monomial) is None:
        return
    factor, atoms = monomial
    for count in range(len(atoms), 0, -1):
        for chosen in dict.fromkeys(itertools.combinations(atoms, count)):
            part = size.product(chosen)
            for coefficient in range(1, abs(factor) + 1):
                if factor % coefficient == 0:
                    yield part * coefficient
