"""Build sequential loops, whose iterations depend on the previous one, such as RNN cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.ir.linalg import function
from ftm_backend.ir.linalg.affine import volume
from ftm_backend.symbolic import statically_known_equal, statically_known_nonnegative


class LoopIteration:
    """Reads and writes rows in the body of `repeat`.

    A row is an element of a tensor's first dimension. In iteration k it is row ``first + step *
    k``.
    """

    def __init__(
        self, b: LinalgBuilder, outside: function.LinalgFunction, results: list[StridedValue]
    ) -> None:
        """Start the body; `outside` is the function that contains the loop."""
        self._b, self._outside, self._results = b, outside, results
        self.stores: list[function.Window] = []
        self._windows: list[function.Window] = []

    def row(self, x: StridedValue, first: int, step: int) -> StridedValue:
        """Return a row of a tensor from outside of the loop."""
        if x.base.splat is not None:
            return StridedValue(
                function.Value(x.base.dtype, x.shape[1:], splat=x.base.splat), x.dtype
            )
        return self._window(self._dense(x), first, step)

    def result_row(self, number: int, first: int, step: int) -> StridedValue:
        """Return a row of a result."""
        return self._window(self._results[number], first, step)

    def store(self, number: int, first: int, step: int, x: StridedValue) -> None:
        """Write a row of a result.

        An iteration writes each row at most once, and reads it before that if at all.
        """
        self.stores.append(self._moving(self._results[number], first, step))
        self._b.function.results.append(self._b.tensor(x))

    def _window(self, x: StridedValue, first: int, step: int) -> StridedValue:
        value = function.Value(x.base.dtype, x.shape[1:], window=self._moving(x, first, step))
        self._b.function.inputs.append(value)
        return StridedValue(value, x.dtype)

    def _moving(self, x: StridedValue, first: int, step: int) -> function.Window:
        row = volume(x.shape[1:])
        window = function.Window(x.base, x.access.offset + first * row, step * row)
        for other in self._windows:
            same = statically_known_equal(window.step, other.step)
            distance = window.start - other.start
            disjoint = statically_known_nonnegative(distance - row) or statically_known_nonnegative(
                -distance - row
            )
            if (
                x in self._results
                and other.value is window.value
                and not (same and (disjoint or statically_known_equal(distance, 0)))
            ):
                raise ValueError(
                    f"rows {first} + {step} * k of a result may overlap"
                    " another window of it in some iterations"
                )
        self._windows.append(window)
        return window

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
    """Append a loop that runs `body` for `trips` iterations, one after the other.

    Args:
        b: The builder.
        trips: Number of iterations, at least 1.
        bases: Initial values of the results; `LinalgBuilder.empty` if all rows will be written.
        body: Builds the computation of one iteration; called once.

    Returns:
        The results, in the shapes of `bases`.
    """
    dense = [x if x.base.splat is not None or b.tensor(x).is_whole else b.copy(x) for x in bases]
    results = [StridedValue(function.Value(x.base.dtype, x.shape), x.dtype) for x in dense]
    outside, copies = b.function, b.copies
    iteration = LoopIteration(b, outside, results)
    b.function, b.copies = function.LinalgFunction(), dict(copies)
    body(iteration)
    loop = function.SequentialLoop(
        trips, b.function, iteration.stores, [r.base for r in results], [x.base for x in dense]
    )
    b.function, b.copies = outside, copies
    for result in results:
        result.base.producer = loop
    b.function.body.append(loop)
    return tuple(results)
