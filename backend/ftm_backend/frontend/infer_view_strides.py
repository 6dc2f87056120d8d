"""Where a view's numbers come from, by the memory that it looks at."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from ftm_backend.symbolic import SymInt, at_hand, divides

__all__ = ["view_arguments"]


def view_arguments(
    base: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    offset: int,
    guess: Callable[[int], int],
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Sizes, strides and offset of a view, as numbers that come from the shape of its base where
    they seem to.

    Args:
        base: extents of the tensor whose elements, in row-major order, the view looks at. guess:
        from a number that does not come from the base to the size that it may be, or to itself.
    """
    memory = _Memory(base)
    if not memory.varies and memory.is_whole(sizes, strides):
        repeated = (
            size if stride else guess(size) for size, stride in zip(sizes, strides, strict=True)
        )
        return tuple(repeated), tuple(strides), offset
    # declared, and the others are numbers
    if any(isinstance(stride, SymInt) for stride in strides):
        found = tuple(strides)
    else:
        found = tuple(memory.stride(stride, guess) for stride in strides)
    extents = tuple(
        memory.size(size, stride, guess) for size, stride in zip(sizes, found, strict=True)
    )
    return extents, found, memory.offset(offset, extents, found, guess)


class _Memory:
    """Elements of a tensor in row-major order; ``steps[d]`` of them are between neighbours along
    dimension ``d``."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)
        self.steps = tuple(math.prod(self.shape[d + 1 :]) for d in range(len(self.shape)))
        self.count = math.prod(self.shape)
        self.varies = any(isinstance(size, SymInt) for size in self.shape)

    def is_whole(self, sizes: Sequence[int], strides: Sequence[int]) -> bool:
        """Whether a view shows every element, as reshapes, permutations and expansions do."""
        seen = math.prod(size for size, stride in zip(sizes, strides, strict=True) if stride)
        return at_hand(seen) == at_hand(self.count)

    def stride(self, stride: int, guess: Callable[[int], int]) -> int:
        """A stride that is one of a dimension's, or of a part of a dimension."""
        if isinstance(stride, SymInt) or stride <= 1:
            return stride
        for whole in (*reversed(self.steps), self.count):
            if at_hand(whole) == stride:
                return whole
        for step, extent in zip(reversed(self.steps), reversed(self.shape), strict=True):
            times, rest = divmod(stride, at_hand(step))
            if not rest and times <= at_hand(extent):
                part = next((part for part in _parts(extent) if at_hand(part) == times), 0)
                return step * (part or (times if divides(times, extent) else guess(times)))
        return guess(stride)

    def size(self, size: int, stride: int, guess: Callable[[int], int]) -> int:
        """The extent of a view along elements of this distance."""
        if isinstance(size, SymInt) or size <= 1:
            return size
        if not at_hand(stride):
            return guess(size)
        for number, candidate in enumerate(self._along(stride)):
            if at_hand(candidate) == size:
                return candidate
            if not number and not isinstance(candidate, SymInt) and candidate % size == 0:
                return size  # as heads of a fixed width
        return guess(size)

    def _along(self, stride: int) -> Iterator[int]:
        """How many elements there may be at this distance: what is left of its dimension, with
        those before it, and parts of these."""
        for d in reversed(range(len(self.shape))):
            if (
                at_hand(self.steps[d])
                <= at_hand(stride)
                < at_hand(self.steps[d]) * at_hand(self.shape[d])
            ):
                times = stride // self.steps[d] if divides(self.steps[d], stride) else 0
                if not at_hand(times) or not divides(times, self.shape[d]):
                    return
                left = self.shape[d] // times
                yield left
                for before in reversed(range(d)):
                    yield math.prod(self.shape[before:d]) * left
                for first in reversed(range(d + 1)):
                    yield from _parts(math.prod(self.shape[first:d]) * left)
                return

    def offset(
        self, offset: int, sizes: Sequence[int], strides: Sequence[int], guess: Callable[[int], int]
    ) -> int:
        """The first element, dimension by dimension: from the start, or so many before the end."""
        if isinstance(offset, SymInt) or not offset:
            return offset
        place, left = 0, offset
        for extent, step in zip(self.shape, self.steps, strict=True):
            digit, left = divmod(left, at_hand(step)) if at_hand(step) else (0, left)
            if not digit:
                continue
            shown = next(
                (
                    size
                    for size, stride in zip(sizes, strides, strict=True)
                    if at_hand(stride) == at_hand(step)
                ),
                1,
            )
            # Of the dimension, or of the parts that the view cuts it into, as the rows of each text
            # of a batch.
            parts = (
                stride // step
                for stride in strides
                if at_hand(stride) > at_hand(step) and divides(step, stride)
            )
            ends = (
                end
                for end in (extent, *parts)
                if isinstance(end, SymInt) and digit + at_hand(shown) == end.value
            )
            end = next(ends, None)
            place += (guess(digit) if end is None else end - shown) * step
        return place + left


def _parts(size: int) -> Iterator[int]:
    """Products of some factors of a monomial, those with most symbols first."""
    if not isinstance(size, SymInt) or (found := size.monomial) is None:
        return
    factor, atoms = found
    for count in range(len(atoms), 0, -1):
        for chosen in dict.fromkeys(itertools.combinations(atoms, count)):
            part = size.product(chosen)
            for times in range(1, abs(factor) + 1):
                if factor % times == 0:
                    yield part * times
