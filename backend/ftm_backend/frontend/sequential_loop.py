"""Loops over iterations, each of which needs the one before: cells over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.ir.linalg import function
from ftm_backend.ir.linalg.affine import volume
from ftm_backend.symbolic import always_equal, never_negative

__all__ = ["LoopIteration", "repeat"]


class LoopIteration:
    """What the body of a `repeat` takes out of tensors and puts into the results; rows are ``first
    + step * k`` in iteration k."""

    def __init__(
        self, b: LinalgBuilder, outside: function.LinalgFunction, results: list[StridedValue]
    ) -> None:
        self._b, self._outside, self._results = b, outside, results
        self.stores: list[function.Window] = []
        self._windows: list[function.Window] = []

    def row(self, x: StridedValue, first: int, step: int) -> StridedValue:
        """A row of a tensor from outside: an element of its first dimension."""
        if x.base.splat is not None:
            return StridedValue(
                function.Value(x.base.dtype, x.shape[1:], splat=x.base.splat), x.dtype
            )
        return self._window(self._dense(x), first, step)

    def made(self, number: int, first: int, step: int) -> StridedValue:
        """A row of a result."""
        return self._window(self._results[number], first, step)

    def store(self, number: int, first: int, step: int, x: StridedValue) -> None:
        """Writes a row of a result; in one iteration, each row is written once, and read before if
        at all."""
        self.stores.append(self._moving(self._results[number], first, step))
        self._b.function.results.append(self._b.tensor(x))

    def _window(self, x: StridedValue, first: int, step: int) -> StridedValue:
        made = function.Value(x.base.dtype, x.shape[1:], window=self._moving(x, first, step))
        self._b.function.inputs.append(made)
        return StridedValue(made, x.dtype)

    def _moving(self, x: StridedValue, first: int, step: int) -> function.Window:
        row = volume(x.shape[1:])
        made = function.Window(x.base, x.access.offset + first * row, step * row)
        for other in self._windows:
            same = always_equal(made.step, other.step)
            distance = made.start - other.start
            disjoint = never_negative(distance - row) or never_negative(-distance - row)
            if (
                x in self._results
                and other.value is made.value
                and not (same and (disjoint or always_equal(distance, 0)))
            ):
                raise ValueError(
                    f"rows {first} + {step} * k of a result may be those of another window of it, in some iterations"
                )
        self._windows.append(made)
        return made

    def _dense(self, x: StridedValue) -> StridedValue:
        if x.access.is_contiguous():
            return x
        inside, self._b.function = self._b.function, self._outside
        x = self._b.copy(x)
        self._b.function = inside
        return x


def repeat(
    b: LinalgBuilder,
    trips: int,
    bases: Sequence[StridedValue],
    body: Callable[[LoopIteration], None],
) -> tuple[StridedValue, ...]:
    """``body`` for each of ``trips`` iterations, one after the other.

    Args:
        trips: at least 1. bases: what the results are before; rows that will all be written may be
        `LinalgBuilder.empty`. body: called once; builds what one iteration computes.

    Returns:
        The results, in the shapes of their bases.
    """
    dense = [x if x.base.splat is not None or b.tensor(x).is_whole else b.copy(x) for x in bases]
    results = [StridedValue(function.Value(x.base.dtype, x.shape), x.dtype) for x in dense]
    outside, copies = b.function, b.copies
    iteration = LoopIteration(b, outside, results)
    b.function, b.copies = function.LinalgFunction(), dict(copies)
    body(iteration)
    made = function.SequentialLoop(
        trips, b.function, iteration.stores, [r.base for r in results], [x.base for x in dense]
    )
    b.function, b.copies = outside, copies
    for result in results:
        result.base.producer = made
    b.function.body.append(made)
    return tuple(results)
