"""Record: operands and results of a loop nest, and their indices in terms of the loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ftm_backend.frontend.strided_value import StridedValue
from ftm_backend.ir.linalg.affine import Affine


@dataclass(frozen=True, slots=True)
class OperandDim:
    """An affine index of one dimension: ``const + sum(factor * loop)``."""

    const: int
    factors: Mapping[int, int]

    def __add__(self, other: OperandDim | int) -> OperandDim:
        """Return the sum of two indices, or of an index and a constant."""
        if not isinstance(other, OperandDim):
            return OperandDim(self.const + other, self.factors)
        factors = dict(self.factors)
        for loop, factor in other.factors.items():
            factors[loop] = factors.get(loop, 0) + factor
        return OperandDim(self.const + other.const, factors)

    def __mul__(self, factor: int) -> OperandDim:
        """Return the index times a constant."""
        return OperandDim(
            self.const * factor, {loop: f * factor for loop, f in self.factors.items()}
        )


Index = Sequence["int | OperandDim | None"]
"""The index of each dimension: a loop, an affine index, or None for element 0 (broadcast)."""


@dataclass(slots=True)
class LoopInput:
    """An operand of a loop nest and its index."""

    value: StridedValue
    index: Index


@dataclass(slots=True)
class LoopOutput:
    """A result of a loop nest.

    Attributes:
        dtype: Its dtype; "" for that of what the body returns, if there is no `init`.
        shape: Its shape.
        index: The loop of each dimension.
        init: Initial value of a reduction, a Python number or a tensor; None if every element is
            written once.
    """

    dtype: str
    shape: tuple[int, ...]
    index: Index
    init: StridedValue | float | None = None


def affine(entry: int | OperandDim | None, rank: int) -> Affine:
    """Convert an entry of an index to an affine function of `rank` loops."""
    if entry is None:
        return Affine.constant(0, rank)
    if isinstance(entry, int):
        return Affine.loop(entry, rank)
    return Affine(entry.const, tuple(entry.factors.get(k, 0) for k in range(rank)))
