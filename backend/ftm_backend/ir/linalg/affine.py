"""Affine functions of loop counters: every address of the midend is one.

``Affine(3, (8, 1))`` over loops ``(i, j)`` is ``3 + 8*i + j``. Indexing maps, views and updates
compose into one such function per access, so later passes never see an indexing map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ftm_backend.symbolic import guarded_equal, may_exceed_one, size_hint


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

    def over(self, loops: Sequence[int]) -> Affine:
        """This function of some of the loops, in a new order; the counters of others are 0."""
        return Affine(self.const, tuple(self.coeffs[loop] for loop in loops))

    def guarded_equal(self, other: Affine) -> bool:
        """Whether both functions are equal at the sizes seen; adds a guard if they are."""
        pairs = zip((self.const, *self.coeffs), (other.const, *other.coeffs), strict=True)
        return all(guarded_equal(a, b) for a, b in pairs)

    @property
    def is_constant(self) -> bool:
        """Whether no loop counter occurs in it."""
        return not any(self.coeffs)

    def at(self, point: Sequence[int]) -> int:
        """Evaluate the function at one point of the iteration domain."""
        return self.const + sum(c * p for c, p in zip(self.coeffs, point, strict=True))

    @staticmethod
    def loop(number: int, rank: int) -> Affine:
        """Return the counter of loop ``number`` out of ``rank`` loops."""
        return Affine(0, tuple(int(k == number) for k in range(rank)))

    @staticmethod
    def constant(value: int, rank: int) -> Affine:
        """Return the constant function ``value`` over ``rank`` loops."""
        return Affine(value, (0,) * rank)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a dense row-major tensor of this shape."""
    strides = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * max(shape[k + 1], 1)
    return tuple(strides)


def volume(shape: Sequence[int]) -> int:
    """Return the number of elements of a shape; 1 for a 0-dimensional one."""
    count = 1
    for extent in shape:
        count *= extent
    return count


def dot(indices: Sequence[Affine], strides: Sequence[int], offset: int, rank: int) -> Affine:
    """Return the flat address ``offset + sum(indices[k] * strides[k])`` over ``rank`` loops."""
    const, coeffs = offset, [0] * rank
    for index, stride in zip(indices, strides, strict=True):
        const += index.const * stride
        for k, c in enumerate(index.coeffs):
            if c:
                coeffs[k] += c * stride
    return Affine(const, tuple(coeffs))


def digits(loops: Sequence[int], index: Affine) -> list[int] | None:
    """Find the loops that ``index`` numbers in row-major order.

    Example: over loops of extents ``(4, 8)`` the index ``8*i + j`` gives ``[0, 1]``.

    Returns:
        The loops, outermost first, or None if ``index`` is no row-major number of loops.
    """
    if index.const:
        return None
    order = [k for k, c in enumerate(index.coeffs) if c and may_exceed_one(loops[k])]
    order.sort(key=lambda k: size_hint(index.coeffs[k]))  # the loop below checks this order
    expected = 1
    for k in order:
        if not guarded_equal(index.coeffs[k], expected):
            return None
        expected *= loops[k]
    return order[::-1]
