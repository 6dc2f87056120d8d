"""The sizes that a general program is chosen for: what only decides how well it runs, such as its
tiles.

Tiles for large sizes serve small ones well, and sizes often grow, so these are larger than those
that came so far; but sizes are bound to one another, as a view is to its memory, and where all grew
alike some traces would be none.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.ir.trace.trace import Trace
from ftm_backend.ir.trace.verifier import verify
from ftm_backend.symbolic import declared, evaluator

__all__ = ["ANY_SIZE", "SMALL_SIZE", "larger_sizes"]

_AHEAD = 2  # times the largest size that came
_FAR_AHEAD = 16  # or so many times, up to a small size
SMALL_SIZE = 128
"""Tiles for sizes up to this one cost smaller sizes nothing."""
ANY_SIZE = 1 << 20
"""What programs are chosen for where any size is as likely as others: no scratchpad holds so many
elements."""


def larger_sizes(
    general: str, values: Sequence[int], largest: Sequence[int], any_size: bool = False
) -> tuple[int, ...]:
    """For each symbol of a general trace a number to choose its program for.

    All grow by turns, as far as what the trace itself asks of them allows.

    Args:
        general: the trace; the symbols' numbers at hand are ``values``. values: those of a member,
        for which the trace is one. largest: of each symbol the largest number that came; 0 of those
        that are no sizes, which stay. any_size: those that will come are not near to these.
    """
    symbols = declared(general)
    if symbols is None:
        return tuple(values)
    with symbols:
        verify(Trace.parse(general))
    guards = list(symbols.guards.values())
    numbers = evaluator([guard.size for guard in guards], tuple(symbols.values))

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
    steps = [goal - value for goal, value in zip(goals, chosen, strict=True)]
    while any(step > 0 for step in steps):
        for k, goal in enumerate(goals):
            before = chosen[k]
            step = min(steps[k], before, goal - before)  # at most twice as large by turns
            if step <= 0:
                steps[k] = 0
                continue
            chosen[k] = before + step
            if not holds(chosen):
                chosen[k] = before
                steps[k] = step // 2
    return tuple(chosen)


_HOLDS = {"==": (0).__eq__, "!=": (0).__ne__, ">=": (0).__le__}
