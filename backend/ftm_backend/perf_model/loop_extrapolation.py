"""Skips the steady part of a loop, so that the time to walk a loop hardly depends on its length.

If the last iterations had the same events, the same decisions (comparisons, minima, maxima,
predicates) and the same register increments, the walk jumps half of the remaining distance and
executes one period there. If that period is the same again, the jump is kept; otherwise the walk
returns and tries a shorter jump.

This is exact: as long as decisions stay the same, all registers are linear in the iteration, and a
comparison of linear numbers that has the same outcome at both ends has it in between. Loops for
which that argument fails are walked in full: those with division, equality, products of two
changing registers, integers loaded from DDR, collectives, calls or barriers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ftm_backend.assembler.image_layout import NONE
from ftm_backend.perf_model.events import Event, RepeatEvent, Slot
from ftm_backend.target.instruction_table import INSTRUCTIONS, OPCODES

if TYPE_CHECKING:
    from ftm_backend.perf_model.control_flow_walk import ControlFlowWalk

PERIODS = (1, 2, 3, 4, 6)
"""Periods that are tried, in iterations: depths of rings, and common multiples of two of them."""

UNSTEADY = {
    OPCODES[n] for n in ("SREM", "SDIV", "SEQ", "SNE", "SLDI", "@call", "BARRIER", "@ret")
} | {OPCODES[row.name] for row in INSTRUCTIONS if row.family == "collective"}
"""Instructions that prevent extrapolation."""


def is_steady(body: Sequence[tuple[int, ...]]) -> bool:
    """Whether a loop with this body (instruction records) may be extrapolated."""
    written = {item[6] for item in body}
    for item in body:
        if item[0] in UNSTEADY:
            return False
        if (
            item[0] == OPCODES["SMUL"]
            and item[16] in written
            and item[19] in written
            and NONE not in (item[16], item[19])
        ):
            return False
    return True


@dataclass(slots=True)
class _Loop:
    """A loop being walked.

    Attributes:
        iterations: Iterations so far.
        arrivals: Number of events, number of decisions, and registers at the end of recent ones.
    """

    iterations: int = 0
    arrivals: list[tuple[int, int, list[int]]] = field(default_factory=list)


@dataclass(slots=True)
class _Attempt:
    """A tentative jump: the state to return to, and what the next period must repeat."""

    loop: int
    registers: list[int]
    extents: dict[Slot, tuple[int, int]]
    shared: dict[Slot, tuple[int, int]]
    position: int
    decided: int
    expected: list[Event]
    decisions: list[int]
    delta: list[int]
    period: int
    count: int
    arrivals: int = 0


class LoopExtrapolator:
    """Observes the backward branches of one walk."""

    def __init__(self, walk: ControlFlowWalk) -> None:
        self._walk = walk
        self._loops: dict[int, _Loop] = {}
        self._attempt: _Attempt | None = None

    @property
    def pending(self) -> bool:
        """Whether a jump is not confirmed yet."""
        return self._attempt is not None

    def leave(self) -> None:
        """Forget all loops, because another function or phase starts."""
        self._loops.clear()

    def branch(self, position: int, target: int, taken: bool) -> int:
        """Return the instruction after the branch at ``position``."""
        attempt = self._attempt
        if attempt is not None and attempt.loop == position:
            if not taken:
                return self.give_up()
            self._walk.flush()
            attempt.arrivals += 1
            if attempt.arrivals == attempt.period and not self._confirm(attempt):
                return self.give_up()
            return target
        if not taken:
            self._loops.pop(position, None)
            return position + 1
        if target <= position and attempt is None and self._walk.decoded.steady(target, position):
            self._arrive(position, target)
        return target

    def _arrive(self, branch: int, target: int) -> None:
        """Record the end of an iteration; jump ahead if the last ones repeat."""
        walk = self._walk
        walk.flush()
        loop = self._loops.setdefault(branch, _Loop())
        loop.iterations += 1
        loop.arrivals.append((len(walk.events), len(walk.decisions), walk.registers.copy()))
        del loop.arrivals[: -2 * PERIODS[-1] - 1]
        arrivals = loop.arrivals
        for period in PERIODS:
            if len(arrivals) <= 2 * period:
                return
            (end, end_d, a), (middle, middle_d, b), (start, start_d, c) = arrivals[
                -1 : -2 * period - 2 : -period
            ]
            delta = [x - y for x, y in zip(a, b, strict=True)]
            if delta != [x - y for x, y in zip(b, c, strict=True)]:
                continue
            expected, decisions = walk.events[middle:end], walk.decisions[middle_d:end_d]
            if (
                expected != walk.events[start:middle]
                or decisions != walk.decisions[start_d:middle_d]
            ):
                continue
            bound = walk.decoded.bounds.get(target, NONE)
            count = (bound - loop.iterations) // period // 2 if bound > 0 else 1 << 20
            self._jump(branch, expected, decisions, delta, period, count)
            return

    def _jump(
        self,
        loop: int,
        expected: list[Event],
        decisions: list[int],
        delta: list[int],
        period: int,
        count: int,
    ) -> None:
        if count < 2:
            return
        walk = self._walk
        self._attempt = _Attempt(
            loop,
            walk.registers.copy(),
            walk.extents.copy(),
            walk.shared.copy(),
            len(walk.events),
            len(walk.decisions),
            expected,
            decisions,
            delta,
            period,
            count,
        )
        for number, step in enumerate(delta):
            walk.registers[number] += step * count

    def _confirm(self, attempt: _Attempt) -> bool:
        """Keep the jump if the period after it had the same events and register increments."""
        walk = self._walk
        steps = [
            now - before - step * (attempt.count + 1)
            for now, before, step in zip(
                walk.registers, attempt.registers, attempt.delta, strict=True
            )
        ]
        if any(steps) or walk.decisions[attempt.decided :] != attempt.decisions:
            return False
        if walk.events[attempt.position :] != attempt.expected:
            return False
        walk.events[attempt.position :] = [RepeatEvent(tuple(attempt.expected), attempt.count + 1)]
        self._attempt = None
        loop = self._loops[attempt.loop]
        loop.iterations += (attempt.count + 1) * attempt.period
        loop.arrivals.clear()
        return True

    def give_up(self) -> int:
        """Undo the pending jump and try a shorter one; return the loop's head."""
        attempt = self._attempt
        assert attempt is not None
        self._attempt = None
        self._walk.restore(
            attempt.registers, attempt.extents, attempt.shared, attempt.position, attempt.decided
        )
        self._jump(
            attempt.loop,
            attempt.expected,
            attempt.decisions,
            attempt.delta,
            attempt.period,
            attempt.count // 2,
        )
        stale = [
            key
            for key, loop in self._loops.items()
            if loop.arrivals and loop.arrivals[-1][0] > attempt.position
        ]
        for key in stale:
            del self._loops[key]
        if self._attempt is None:
            self._loops[attempt.loop].arrivals.clear()
        return self._walk.decoded.code[attempt.loop][5]
