"""Size hints: the sizes for which a dynamic-shape program's schedule is chosen.

Hints affect only speed, e.g. tile sizes. They are larger than the sizes seen so far, because tiles
for large sizes also work well for small ones, and sizes often grow. Sizes depend on each other (a
view must fit its memory), so hints are only increased as far as the trace stays valid.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.ir.trace.trace import Trace
from ftm_backend.ir.trace.verifier import verify
from ftm_backend.symbolic import compile_expressions

__all__ = ["ANY_SIZE", "SMALL_SIZE", "larger_sizes"]

_AHEAD = 2  # the hint is this factor times the largest size seen,
_FAR_AHEAD = 16  # or this factor, up to SMALL_SIZE
_ROUNDS = 40  # twice as many as double 1 to ANY_SIZE
SMALL_SIZE = 128
"""Tiles for sizes up to this one do not slow down smaller sizes."""
ANY_SIZE = 1 << 20
"""Hint if all sizes are equally likely: more elements than any scratchpad holds."""


def larger_sizes(
    general: Trace, values: Sequence[int], largest: Sequence[int], any_size: bool = False
) -> tuple[int, ...]:
    """Choose a hint for each symbol of a trace.

    The hints are increased in turns while the trace's constraints hold. Example: the diagonal of an
    n x n matrix is a view of its n * n elements, so n can grow only after their number has.

    Args:
        general: The trace with symbols. Its symbols collect the constraints.
        values: The symbols' values in a static trace, for which the constraints hold.
        largest: For each symbol the largest value seen; 0 for symbols that are not sizes, whose
            values stay.
        any_size: All sizes are equally likely.
    """
    symbols = general.symbols
    if symbols is None:
        return tuple(values)
    with symbols:
        verify(general)
    guards = list(symbols.guards.values())
    numbers = compile_expressions([guard.size for guard in guards], tuple(symbols.values))

    def holds(chosen: Sequence[int]) -> bool:
        try:
            found = numbers(*chosen)
        except ZeroDivisionError:
            return False
        return all(
            _HOLDS[guard.relation](number) for guard, number in zip(guards, found, strict=True)
        )

    least = ANY_SIZE if any_size else 0
    chosen = list(values)
    goals = [
        max(_AHEAD * size, min(_FAR_AHEAD * size, SMALL_SIZE), least) if size else 0
        for size in largest
    ]
    for _ in range(_ROUNDS):  # one may grow only after another that bounds it has
        has_grown = False
        for k, goal in enumerate(goals):
            before = chosen[k]
            step = min(before, goal - before)  # at most double in one turn
            while step > 0:
                chosen[k] = before + step
                if holds(chosen):
                    has_grown = True
                    break
                chosen[k] = before
                step //= 2
        if not has_grown:
            break
    return tuple(chosen)


_HOLDS = {"==": (0).__eq__, "!=": (0).__ne__, ">=": (0).__le__}
