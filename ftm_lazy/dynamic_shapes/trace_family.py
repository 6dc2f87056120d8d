"""Record: a trace family, i.e. traces that differ only in numbers, and their programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from ftm_backend.ir.trace.shape_family import NumberPlaces, relation_of
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.symbolic.fit_size_polynomials import LEAST_EXTENT, ShapeRelation, relate
from ftm_lazy.dynamic_shapes.dynamic_program_record import DynamicProgram
from ftm_lazy.dynamic_shapes.observed_sizes import with_observed_symbols

__all__ = ["MAX_PROGRAMS", "SizeGuess", "TraceFamily"]

_MEMBERS = 3  # traces from which relations are derived
MAX_PROGRAMS = 16  # dynamic-shape programs of one family
_ROUNDS = 5  # of inferring which numbers follow from others
_ATTEMPTS = 4  # weighted failures after which the family is compiled statically for a while
_NOTHING = 2  # weight of a candidate that does not compile; one with a fixed size weighs 1
_OWN_BYTES = 1 << 12  # of a family without programs and text


@dataclass(frozen=True)
class SizeGuess:
    """The recorder's guess about the sizes of later traces of the same structure.

    Attributes:
        trace: The trace with symbols for the sizes that will probably vary.
        trains: It is a training step, where equal sizes of two parameters are chance: two experts
            may get equally many tokens.
        infer: Maps a trace with symbols for these sizes to one in which all dependent numbers are
            expressions of the symbols; None if it cannot
            (`ftm_backend.frontend.symbolic_shape_inference`).
        any_size: All sizes, including 1, are equally likely.
    """

    trace: Trace
    trains: bool
    infer: Callable[[Trace], Trace | None]
    any_size: bool = False


@dataclass(eq=False)
class TraceFamily:
    """Traces that differ only in numbers; a *member* is the tuple of a trace's numbers.

    A compile thread may iterate over an attribute while another changes it. So a change makes
    another tuple.

    Attributes:
        key: The structure, and the orders of the windows.
        text: Its text in the disk cache's key.
        example: A trace of the family.
        members: The last members.
        specialized: The last members that were compiled statically.
        programs: Dynamic-shape programs, the newest first.
        failures: Weighted failures of candidates.
        waited: Members compiled statically since the last attempt.
        far: Members served by a program whose hints are far from them.
        expectations: Relations of earlier `expected` calls.
    """

    key: tuple[Hashable, Hashable]
    text: str
    example: Trace
    members: tuple[tuple[int, ...], ...] = ()
    specialized: tuple[tuple[int, ...], ...] = ()
    programs: tuple[DynamicProgram, ...] = ()
    failures: int = 0
    waited: int = 0
    far: set[tuple[int, ...]] = field(default_factory=set)
    expectations: tuple[tuple[object, ...], ...] = ()

    @property
    def bytes(self) -> int:
        """Approximate size in memory."""
        return _OWN_BYTES + len(self.text) + sum(program.nbytes for program in self.programs)

    def put_first(self, program: DynamicProgram) -> None:
        """Put a program before the others; the last of too many is dropped."""
        others = (other for other in self.programs if other is not program)
        self.programs = (program, *others)[:MAX_PROGRAMS]

    def relation(
        self, others: Sequence[tuple[int, ...]], numbers: tuple[int, ...], extents: set[int]
    ) -> ShapeRelation | None:
        """Derive how the numbers of a family vary from a member and others; None without others.

        If a size of the member is 1, only members with the same size are used.
        """
        if not others:
            return None
        relation = relate([*others, numbers], extents)
        small = _ones(relation, numbers)
        if not small:
            return relation
        same_small = [
            member
            for member in self.specialized
            if member != numbers and all(member[place] == numbers[place] for place in small)
        ]
        return relate([*same_small, numbers], extents) if same_small else None

    def telling(self, members: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Return members of earlier programs that differ in numbers in which `members` agree.

        The last members may all have one batch size, for example. Members with sizes of 1 are
        ignored, since traces with size 1 often differ in structure.
        """
        known, found = list(members), []
        for program in self.programs:
            member = program.relation.numbers(program.made_for)
            if _ones(program.relation, member):
                continue
            if any(
                len(set(column)) == 1 and column[0] != number
                for *column, number in zip(*known, member, strict=True)
            ):
                known.append(member)
                found.append(member)
        return found

    def expected(
        self,
        trace: Trace,
        numbers: tuple[int, ...],
        others: Sequence[tuple[int, ...]],
        likely: SizeGuess,
    ) -> ShapeRelation | None:
        """Derive how a member's numbers follow from the sizes that will probably vary.

        Of members that have other sizes where this one has 1, only numbers count that do not follow
        from these sizes. Example: after boxes (11, 3) and (8, 5), the 7 of (1, 7) is not fixed.

        Args:
            trace: The trace.
            numbers: Its numbers.
            others: Other members.
            likely: The recorder's guess.

        Returns:
            The relation; None if no size varies or the same relation was returned before.
        """
        ones = [p for p in NumberPlaces(trace).extents() if numbers[p] <= LEAST_EXTENT]
        same_ones = [
            other for other in others if all(other[place] == numbers[place] for place in ones)
        ]
        others = [_without_ones(other, numbers, ones) for other in others]
        relation = _guessed_relation(trace, numbers, others, same_ones, likely)
        if relation is None:
            return None
        known = relation.fixed, relation.texts
        if (
            not relation.symbols
            or known in self.expectations
            or any(not _may_be(relation, other) for other in same_ones)
        ):
            return None
        self.expectations = (*self.expectations, known)[-MAX_PROGRAMS:]
        return relation

    def admits(self, numbers: tuple[int, ...]) -> bool:
        """Return whether a program's guards hold for a member."""
        found = ((program, program.relation.values(numbers)) for program in self.programs)
        return any(
            values is not None and program.template.admits(values) for program, values in found
        )

    @property
    def is_promising(self) -> bool:
        """Whether few candidates have failed so far."""
        return self.failures < _ATTEMPTS

    def fail(self) -> None:
        """Count a trace none of whose candidates compiled."""
        self.failures += _NOTHING

    def rests(self) -> bool:
        """Return whether to compile the next member statically.

        After failures, candidates are skipped for a number of members that doubles each time.
        """
        if self.is_promising or self.waited >= 1 << self.failures // _NOTHING:
            self.waited = 0
            return False
        self.waited += 1
        return True

    def note(self, numbers: tuple[int, ...]) -> None:
        """Make a member the most recent one."""
        others = (other for other in self.members if other != numbers)
        self.members = (*others, numbers)[-_MEMBERS:]

    def note_specialized(self, numbers: tuple[int, ...]) -> None:
        """Note that a member was compiled statically."""
        self.specialized = (*self.specialized, numbers)[-_MEMBERS:]


def _guessed_relation(
    trace: Trace,
    numbers: tuple[int, ...],
    others: Sequence[tuple[int, ...]],
    same_ones: Sequence[tuple[int, ...]],
    likely: SizeGuess,
) -> ShapeRelation | None:
    """Vary likely sizes, and then more until no number is fixed that varies in other members."""
    varying = {
        place
        for place, column in enumerate(zip(*others, strict=True))
        if any(number != numbers[place] for number in column)
    }
    asked: set[int] = set()
    relation = None
    for _ in range(_ROUNDS):
        marked = with_observed_symbols(likely.trace, others, asked, likely.trains)
        general = likely.infer(marked) if marked is not None else None
        if general is None:
            return None
        try:
            relation = relation_of(general, trace)
        except ValueError:  # the compiler formats a floating-point number differently
            return None
        wrong = {place for other in same_ones for place in relation.violations(other)} - asked
        if not wrong:
            wrong = varying.intersection(place for place, _ in relation.fixed) - asked
        if not wrong:
            break
        asked |= _varying_least(wrong, [*others, numbers])
    return relation


def _without_ones(
    other: Sequence[int], numbers: Sequence[int], ones: Iterable[int]
) -> tuple[int, ...]:
    """Replace those numbers of another member that may differ only because its `ones` do.

    A polynomial of sizes changes by a multiple of the greatest common divisor of their changes.
    """
    step = math.gcd(*(other[place] - numbers[place] for place in ones))
    return tuple(
        own if step and (number - own) % step == 0 else number
        for number, own in zip(other, numbers, strict=True)
    )


def _may_be(relation: ShapeRelation, member: Sequence[int]) -> bool:
    """Return whether a relation holds for a member, or may fail only because a size is 1."""
    return relation.values(member) is not None or bool(_ones(relation, member))


def _ones(relation: ShapeRelation, numbers: Sequence[int]) -> list[int]:
    """Return the places of extents that are symbols of a relation, and at most 1 in a member."""
    return [
        place
        for _, place, least in relation.symbols
        if least >= LEAST_EXTENT and numbers[place] <= LEAST_EXTENT
    ]


def _varying_least(places: Iterable[int], members: Sequence[Sequence[int]]) -> set[int]:
    """Return the places whose numbers vary least; the other numbers may follow from these."""
    columns = {place: tuple(member[place] for member in members) for place in places}
    chosen = min(columns.values(), key=lambda column: max(column) - min(column))
    return {place for place, column in columns.items() if column == chosen}
