"""Operands and results of a loop nest: a value each, and which loops walk its dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ftm_backend.frontend.strided_value import StridedValue
from ftm_backend.ir.linalg.affine import Affine

__all__ = ["Index", "LoopInput", "LoopOutput", "OperandDim", "affine"]


@dataclass(frozen=True, slots=True)
class OperandDim:
    """A place along a dimension as a sum of multiples of loops: ``const + sum(factor * loop)``."""

    const: int
    factors: Mapping[int, int]

    def __add__(self, other: OperandDim | int) -> OperandDim:
        if not isinstance(other, OperandDim):
            return OperandDim(self.const + other, self.factors)
        factors = dict(self.factors)
        for loop, factor in other.factors.items():
            factors[loop] = factors.get(loop, 0) + factor
        return OperandDim(self.const + other.const, factors)

    def __mul__(self, factor: int) -> OperandDim:
        return OperandDim(
            self.const * factor, {loop: f * factor for loop, f in self.factors.items()}
        )


Index = Sequence["int | OperandDim | None"]
"""For each dimension of a tensor the loop that walks it, or a place; None reads element 0
(broadcast)."""


@dataclass(slots=True)
class LoopInput:
    """An operand of a loop nest."""

    value: StridedValue
    index: Index


@dataclass(slots=True)
class LoopOutput:
    """A result of a loop nest: dtype, shape, the loop of each dimension, and the value it starts
    from.

    init: None where every element is written once; a Python number for reductions; or a Value.
    """

    dtype: str
    shape: tuple[int, ...]
    index: Index
    init: StridedValue | float | None = None


def affine(place: int | OperandDim | None, rank: int) -> Affine:
    """What an entry of an index is as a function of ``rank`` loops."""
    if place is None:
        return Affine.constant(0, rank)
    if isinstance(place, int):
        return Affine.loop(place, rank)
    return Affine(place.const, tuple(place.factors.get(k, 0) for k in range(rank)))
