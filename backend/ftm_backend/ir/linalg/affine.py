"""Affine functions of loop counters: how every address of the midend is written.

``Affine(3, (8, 1))`` over loops ``(i, j)`` is ``3 + 8*i + j``. Indexing maps, views and updates
compose into one such function per access, so no pass looks at a map again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ftm_backend.symbolic import at_hand, is_walked, seen_equal


@dataclass(frozen=True, slots=True)
class Affine:
    """``const + sum(coeffs[k] * loop_k)``; all integers."""

    const: int
    coeffs: tuple[int, ...]

    def __add__(self, other: Affine) -> Affine:
        return Affine(
            self.const + other.const,
            tuple(a + b for a, b in zip(self.coeffs, other.coeffs, strict=True)),
        )

    def scaled(self, factor: int) -> Affine:
        """This function times an integer."""
        return Affine(self.const * factor, tuple(c * factor for c in self.coeffs))

    def shifted(self, offset: int) -> Affine:
        """This function plus an integer."""
        return Affine(self.const + offset, self.coeffs)

    def seen_equal(self, other: Affine) -> bool:
        """Whether it is the other function, for choices that are right where the answer is no."""
        pairs = zip((self.const, *self.coeffs), (other.const, *other.coeffs), strict=True)
        return all(seen_equal(a, b) for a, b in pairs)

    @property
    def is_constant(self) -> bool:
        """Whether it depends on no loop."""
        return not any(self.coeffs)

    def at(self, point: Sequence[int]) -> int:
        """Its value at one point of the loops."""
        return self.const + sum(c * p for c, p in zip(self.coeffs, point, strict=True))

    @staticmethod
    def loop(number: int, rank: int) -> Affine:
        """The counter of one of ``rank`` loops."""
        return Affine(0, tuple(int(k == number) for k in range(rank)))

    @staticmethod
    def constant(value: int, rank: int) -> Affine:
        """The function that is ``value`` everywhere, over ``rank`` loops."""
        return Affine(value, (0,) * rank)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a dense tensor of this shape."""
    strides = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * max(shape[k + 1], 1)
    return tuple(strides)


def volume(shape: Sequence[int]) -> int:
    """Number of elements of a shape; 1 for a 0-dimensional one."""
    count = 1
    for extent in shape:
        count *= extent
    return count


def dot(indices: Sequence[Affine], strides: Sequence[int], offset: int, rank: int) -> Affine:
    """The flat address ``offset + sum(indices[k] * strides[k])`` over ``rank`` loops."""
    const, coeffs = offset, [0] * rank
    for index, stride in zip(indices, strides, strict=True):
        const += index.const * stride
        for k, c in enumerate(index.coeffs):
            if c:
                coeffs[k] += c * stride
    return Affine(const, tuple(coeffs))


def digits(loops: Sequence[int], index: Affine) -> list[int] | None:
    """Loops, outer first, of which ``index`` is the row-major number; None when it is not one."""
    if index.const:
        return None
    order = [k for k, c in enumerate(index.coeffs) if c and is_walked(loops[k])]
    order.sort(key=lambda k: at_hand(index.coeffs[k]))  # that it is the right one is asked below
    expected = 1
    for k in order:
        if not seen_equal(index.coeffs[k], expected):
            return None
        expected *= loops[k]
    return order[::-1]
