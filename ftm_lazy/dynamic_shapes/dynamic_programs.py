"""General programs: what serves all members of a family of traces that differ in numbers alone.

Where a trace tells which of its sizes are likely to vary
(`ftm_lazy.dynamic_shapes.mark_dynamic_dims`), it gets a general program at once. Else the first
member of a family is compiled as it is. When a second one comes whose numbers differ, how they are
related is known, and one program is compiled for all numbers that are related so
(`ftm_backend.symbolic.shape_relations`, `ftm_backend.symbolic`). A later member is an instance of
it, made in less than a millisecond; where the program's guards do not hold for it, another one is
compiled beside the first. A family's programs are one entry of the disk cache, so that other
processes have them as well.

What only decides how well a program runs, such as its tiles, is chosen for numbers larger than
those that came so far: tiles for large sizes serve small ones well, and sizes often grow. Members
that are far from these numbers are instances as well, but if several different ones come, they get
a program that was chosen for them.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from ftm_backend.assembler.image_template import TemplateError
from ftm_backend.executable import Executable
from ftm_backend.lru import LRUCache
from ftm_backend.symbolic import symbols_of
from ftm_backend.symbolic.shape_relations import ShapeRelation
from ftm_lazy import _C
from ftm_lazy.dynamic_shapes.canonicalize import normal_form, normal_varies, window_orders
from ftm_lazy.dynamic_shapes.dynamic_program_store import (
    LEAST_SIZE,
    DynamicProgram,
    packed,
    unpacked,
)
from ftm_lazy.dynamic_shapes.mark_dynamic_dims import varying_results
from ftm_lazy.dynamic_shapes.size_hints import larger_sizes
from ftm_lazy.dynamic_shapes.size_one import SizeOneRelatives, values_with_ones
from ftm_lazy.dynamic_shapes.trace_family import SizeGuess, TraceFamily

__all__ = ["DynamicCandidate", "Specialization", "TraceFamilies"]

_KEPT_BYTES = 1 << 28  # of images and texts in memory
_FOREVER = 64  # of these, a family is left alone for more members than will come
_FAR_MEMBERS = 8  # that are far from all programs, until there is one for them


Store = tuple[
    Callable[[str], bytes | None], Callable[[str, bytes], object], Callable[[str, str], object]
]
"""What reads, writes and removes (with the reason) an entry of the disk cache by a text."""


class Specialization(NamedTuple):
    """The image of a member, and of each result the dimensions that are symbols of its program, one
    bit each."""

    image: bytes
    varies: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class DynamicCandidate:
    """A general trace to be compiled in place of one member's.

    values: of the member's symbols. chosen_for: those that the text has at hand. first_sight: no
        other member was needed.
    """

    text: str
    relation: ShapeRelation
    family: TraceFamily
    values: tuple[int, ...]
    chosen_for: tuple[int, ...]
    first_sight: bool = False

    @property
    def sizes(self) -> str:
        """The symbols and their values, for people."""
        return ", ".join(
            f"{name} = {value}"
            for (name, _, _), value in zip(self.relation.symbols, self.values, strict=True)
        )


def _is_special(guard: tuple[str, str, str]) -> bool:
    """Return whether a guard leaves a symbol one value: an equality of one symbol; those of several are
    relations."""
    text, relation, _ = guard
    return relation == "==" and len(symbols_of(text)) == 1


class TraceFamilies:
    """The families of this process, the least recently used of which are forgotten.

    Args:
        store: the disk cache, from which a forgotten family is read when it is needed again.
        most: families in memory.
    """

    def __init__(self, store: Store, most: int = 256) -> None:
        self._families: LRUCache[TraceFamily] = LRUCache(_KEPT_BYTES, most_entries=most)
        self._relatives = SizeOneRelatives()
        self._get, self._put, self._remove = store

    def clear(self) -> None:
        """Forget everything."""
        self._families.clear()
        self._relatives.clear()

    def instance(self, text: str) -> Specialization | None:
        """Return the image for a trace, made from a general program; None if there is none that admits
        it."""
        normal = normal_form(text, one_row=True)
        found = self._instance(normal)
        if found is None and normal != text:
            found = self._instance(text)
        return found or self._of_relative(text)

    def _of_relative(self, text: str) -> Specialization | None:
        """Return the same from a program of another family, or for other strides, which this trace is a
        member of because sizes are 1."""
        shared, numbers = _C._family(text)
        families = filter(None, map(self._families.get, self._relatives.of(shared)))
        for family in families:
            for program in family.programs:
                if family.shared == shared and program.relation.values(numbers) is not None:
                    continue  # was asked, and is far from what it was chosen for
                values = values_with_ones(
                    text, family.shared, program.relation, program.template.admits
                )
                if values is not None:
                    with contextlib.suppress(TemplateError):  # larger than any program
                        return Specialization(
                            program.template.image(program.image, values), program.varies
                        )
        return None

    def _instance(self, text: str) -> Specialization | None:
        family, numbers = self._find(text)
        far = None
        for program in family.programs:
            values = program.relation.values(numbers)
            if values is None or not program.template.admits(values):
                continue
            if program.is_near(values):
                return self._made(family, numbers, program, values)
            far = far or (program, values)
        if far is None:
            return None
        if family.is_promising:
            family.far.add(numbers)
        if len(family.far) >= _FAR_MEMBERS:  # others like it will come
            family.far.clear()
            return None
        return self._made(family, numbers, *far)

    def _made(
        self,
        family: TraceFamily,
        numbers: tuple[int, ...],
        program: DynamicProgram,
        values: tuple[int, ...],
    ) -> Specialization | None:
        try:
            image = program.template.image(program.image, values)
        except TemplateError:  # larger than any program
            return None
        family.note(numbers)
        return Specialization(image, program.varies)

    def note(self, text: str) -> None:
        """A trace that has a program of its own is a member of its family like others."""
        family, numbers = self._find(normal_form(text))
        family.note(numbers)

    def propose(self, text: str, likely: SizeGuess | None = None) -> list[DynamicCandidate]:
        """What to compile instead of a trace that is no instance, the best first; nothing where the
        trace itself shall be.

        Args:
            text: the trace.
            likely: which of its sizes are likely to vary, if any are.
        """
        text = normal_form(text)
        family, numbers = self._find(text)
        if likely is not None:
            likely = replace(likely, varies=normal_varies(text, likely.varies))
        others = [member for member in family.members if member != numbers]
        family.note(numbers)
        if family.rests():
            family.specialized.append(numbers)
            return []
        places = _C._family_numbers(text)
        expected = (
            family.expected(text, numbers, others, places, likely) if likely is not None else None
        )
        relation = expected or family.relation(
            [*family.telling([*others, numbers]), *others], numbers, places
        )
        values = relation.values(numbers) if relation is not None else None
        if relation is None or values is None:
            family.specialized.append(numbers)
            return []
        # Its own program where one for others serves it as well.
        like = (
            [numbers]
            if family.admits(numbers)
            else [member for member in family.members if relation.values(member) is not None]
        )
        largest = [
            max(member[place] for member in like) if least >= LEAST_SIZE else 0
            for _, place, least in relation.symbols
        ]
        any_size = likely is not None and likely.any_size
        ahead = larger_sizes(relation.general(text, places, values), values, largest, any_size)
        return [
            DynamicCandidate(
                relation.general(text, places, chosen),
                relation,
                family,
                values,
                chosen,
                first_sight=expected is not None,
            )
            for chosen in dict.fromkeys((ahead, values))
        ]

    def refusal(self, text: str) -> str:
        """Why the newest general program does not serve a trace, for people; empty where there is
        none."""
        text = normal_form(text)
        family, numbers = self._find(text)
        if not family.programs:
            return ""
        program = family.programs[0]
        values = program.relation.values(numbers)
        if values is not None:
            return program.template.refusal(values)
        places = _C._family_numbers(text)
        wrong = (places[place] for place in program.relation.wrong(numbers))
        shown = [
            text[text.rfind("\n", 0, begin) + 1 : text.find("\n", begin)].strip()
            for begin, _, _ in wrong
        ]
        return (
            "its numbers are related otherwise"
            + ": " * bool(shown)
            + "; ".join(f"`{line}`" for line in list(dict.fromkeys(shown))[:2])
        )

    def keep(self, proposal: DynamicCandidate, made: Executable) -> Specialization:
        """Keep the program of a proposal: the image for the member that it was proposed for.

        Raises:
            TemplateError: it serves others alone.
        """
        family, template = proposal.family, made.template
        refusal = template.refusal(proposal.values) if template is not None else "it has no sizes"
        if template is None or refusal:
            raise TemplateError(refusal)
        special = any(map(_is_special, template.guards))
        family.failures = family.failures + 1 if special else 0
        varies = tuple(varying_results(proposal.text))
        program = DynamicProgram(
            proposal.relation, template, made.image, proposal.values, proposal.chosen_for, varies
        )
        image = template.image(made.image, proposal.values)
        family.programs.appendleft(program)
        self._keep(family)
        self._relatives.add(family.key, family.shared)
        self._put(family.text, packed(family.programs))
        return Specialization(image, program.varies)

    def fail(self, proposal: DynamicCandidate) -> None:
        """Nothing came of all proposals for a member."""
        proposal.family.fail()

    def refuse(self, text: str) -> bool:
        """Return the machine does not take the image of a trace: whether it may have been an instance;
        there will be none again."""
        families = [self._find(spelled)[0] for spelled in dict.fromkeys((text, normal_form(text)))]
        had = [family for family in families if family.programs]
        for family in families:
            family.programs.clear()
            family.failures = _FOREVER
        for family in had:
            self._remove(family.text, "the machine does not take a program of it")
        return bool(had)

    def _find(self, text: str) -> tuple[TraceFamily, tuple[int, ...]]:
        shared, numbers = _C._family(text)
        told = shared + window_orders(text)
        key = hashlib.blake2b(told.encode(), digest_size=16).digest()
        family = self._families.get(key)
        if family is None:
            family = self._load(key, f"family\n{told}", shared)
            self._keep(family)
        return family, numbers

    def _keep(self, family: TraceFamily) -> None:
        for forgotten in self._families.put(family.key, family, family.bytes):
            self._relatives.remove(forgotten.key)

    def _load(self, key: bytes, text: str, shared: str) -> TraceFamily:
        """Return a family with the programs that other processes have left."""
        family = TraceFamily(key, text, shared)
        stored = self._get(text)
        if stored is not None:
            try:
                family.programs.extend(unpacked(stored))
            except ValueError as error:
                self._remove(text, str(error))
        if family.programs:
            self._relatives.add(key, shared)
        return family
