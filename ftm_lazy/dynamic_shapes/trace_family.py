"""A family: traces that differ in numbers alone, the programs that serve them, and what is guessed
of those to come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ftm_backend.symbolic.shape_relations import Places, ShapeRelation, relate
from ftm_lazy.dynamic_shapes.dynamic_program_store import LEAST_SIZE, DynamicProgram
from ftm_lazy.dynamic_shapes.mark_dynamic_dims import relation_of, seeded

__all__ = ["SizeGuess", "TraceFamily"]

_MEMBERS = 3  # that relations are found from
_PROGRAMS = 16  # general programs of one family
_ROUNDS = 5  # of asking which numbers of a member follow from others
# that may come to something for few members, until a family is left alone for a while
_ATTEMPTS = 4
_NOTHING = 2  # such attempts is one that comes to nothing
_OWN_BYTES = 1 << 12  # that a family without programs needs beside its texts


@dataclass(frozen=True)
class SizeGuess:
    """What is known of the sizes of a trace before another one like it has come.

    varies: of each parameter the dimensions that are likely to vary, one bit each. trains: no
    others are. any_size: one is as likely as others. infer: from the trace with symbols for such
    sizes to one all of whose numbers that follow from these are symbols, see
    `ftm_backend.frontend.symbolic_shape_inference`; "" where nothing does.
    """

    varies: Sequence[int]
    trains: bool
    infer: Callable[[str], str]
    any_size: bool = False


@dataclass(eq=False)
class TraceFamily:
    """text: on disk. shared: by its members. members: that came last. specialized: that were last
    compiled as they are."""

    key: bytes
    text: str
    shared: str
    members: deque[tuple[int, ...]] = field(default_factory=lambda: deque(maxlen=_MEMBERS))
    specialized: deque[tuple[int, ...]] = field(default_factory=lambda: deque(maxlen=_MEMBERS))
    programs: deque[DynamicProgram] = field(default_factory=lambda: deque(maxlen=_PROGRAMS))
    failures: int = 0
    waited: int = 0
    far: set[tuple[int, ...]] = field(default_factory=set)
    expectations: deque[tuple[Any, ...]] = field(default_factory=lambda: deque(maxlen=_PROGRAMS))

    @property
    def bytes(self) -> int:
        """What it needs in memory, about."""
        return (
            _OWN_BYTES
            + len(self.text)
            + len(self.shared)
            + sum(program.nbytes for program in self.programs)
        )

    def relation(
        self, others: Sequence[tuple[int, ...]], numbers: tuple[int, ...], places: Places
    ) -> ShapeRelation | None:
        """Return how the numbers of a member are related to those of others; None without any.

        Where one of its sizes is less than programs are general for, which is 1 as a rule, it is
        like those of the same size alone.
        """
        if not others:
            return None
        relation = relate([*others, numbers], places)
        small = [place for _, place, least in relation.symbols if numbers[place] < least]
        if not small:
            return relation
        alike = [
            member
            for member in self.specialized
            if member != numbers and all(member[place] == numbers[place] for place in small)
        ]
        return relate([*alike, numbers], places) if alike else None

    def telling(self, members: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Members of the family's programs that vary where some members do not: those that came
        last may be of one batch.

        Sizes of 1 say nothing of others, since what is done there is often something else.
        """
        known, found = list(members), []
        for program in self.programs:
            member = program.relation.numbers(program.made_for)
            if any(
                member[place] <= LEAST_SIZE
                for _, place, least in program.relation.symbols
                if least >= LEAST_SIZE
            ):
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
        text: str,
        numbers: tuple[int, ...],
        others: Sequence[tuple[int, ...]],
        places: Places,
        likely: SizeGuess,
    ) -> ShapeRelation | None:
        """Return how the numbers of a member follow from the sizes that are likely to vary; None if none
        is, or that was expected before.

        What is done with sizes of 1 is often something else, so members of other sizes there say
        nothing.
        """
        ones = [
            place
            for place, (_, _, is_extent) in enumerate(places)
            if is_extent and numbers[place] <= LEAST_SIZE
        ]
        others = [
            other for other in others if all(other[place] == numbers[place] for place in ones)
        ]
        asked: set[int] = set()
        for _ in range(_ROUNDS):
            seeds = seeded(
                text,
                likely.varies,
                places,
                others,
                asked,
                trains=likely.trains,
                any_size=likely.any_size,
            )
            general = likely.infer(seeds) if seeds else ""
            if not general:
                return None
            try:
                relation = relation_of(general, text, places)
            except ValueError:  # a floating number that the compiler spells in another way
                return None
            wrong = {place for other in others for place in relation.wrong(other)} - asked
            if not wrong:
                break
            asked |= _varying_least(wrong, [*others, numbers])
        known = relation.fixed, relation.texts
        if (
            not relation.symbols
            or known in self.expectations
            or any(not _may_be(relation, other) for other in others)
        ):
            return None
        self.expectations.append(known)
        return relation

    def admits(self, numbers: tuple[int, ...]) -> bool:
        """Return whether a program serves a member, near or far."""
        found = ((program, program.relation.values(numbers)) for program in self.programs)
        return any(
            values is not None and program.template.admits(values) for program, values in found
        )

    @property
    def is_promising(self) -> bool:
        """Whether attempts to make a program for many members have come to something, all in
        all."""
        return self.failures < _ATTEMPTS

    def fail(self) -> None:
        """An attempt came to nothing."""
        self.failures += _NOTHING

    def rests(self) -> bool:
        """Return whether the next member is compiled as it is: attempts have come to nothing, each time
        for twice as many members."""
        if self.is_promising or self.waited >= 1 << self.failures // _NOTHING:
            self.waited = 0
            return False
        self.waited += 1
        return True

    def note(self, numbers: tuple[int, ...]) -> None:
        """A member came now."""
        if numbers in self.members:
            self.members.remove(numbers)
        self.members.append(numbers)


def _may_be(relation: ShapeRelation, member: Sequence[int]) -> bool:
    """Return whether a relation is that of a member, or would be if the member's sizes of 1 were
    larger."""
    if relation.values(member) is not None:
        return True
    return any(member[place] < least for _, place, least in relation.symbols)


def _varying_least(places: Iterable[int], members: Sequence[Sequence[int]]) -> set[int]:
    """Those of some places whose numbers vary least: what else varies may follow from these."""
    columns = {place: tuple(member[place] for member in members) for place in places}
    chosen = min(columns.values(), key=lambda column: max(column) - min(column))
    return {place for place, column in columns.items() if column == chosen}
