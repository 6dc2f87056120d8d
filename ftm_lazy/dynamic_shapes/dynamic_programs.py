"""Dynamic-shape programs: one program for a family of traces that differ only in numbers.

1. If the recorder chose symbols (``csrc/partition/choose_symbols.h``), the first trace of a family
   gets a dynamic-shape program at once.
2. Otherwise the first trace is compiled statically. The second one shows which numbers vary and how
   they are related, and one program is compiled for all numbers with these relations
   (`ftm_backend.symbolic`, `ftm_backend.symbolic.fit_size_polynomials`).
3. A later trace is served by a specialization of the program, made in less than 1 ms. If the
   program's guards reject its sizes, another program is compiled for the family.

A family's programs are one entry of the disk cache, so other processes find them.

Tile sizes and other choices that affect only speed are made for sizes larger than those seen: tiles
for large sizes also work well for small ones, and sizes often grow. Traces with sizes far from
these hints are still served, but when several have come, a program is compiled for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import NamedTuple

from ftm_backend.assembler.image_template import TemplateError
from ftm_backend.executable import Executable
from ftm_backend.ir.trace.shape_family import (
    NumberPlaces,
    numbers_of,
    structure_of,
    symbolic_trace,
    varying_results,
)
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.lru import LRUCache
from ftm_backend.symbolic import free_symbols
from ftm_backend.symbolic.fit_size_polynomials import LEAST_EXTENT, ShapeRelation
from ftm_lazy.dynamic_shapes.canonicalize import canonicalize, window_orders
from ftm_lazy.dynamic_shapes.dynamic_program_record import (
    DynamicProgram,
    packed,
    unpacked,
)
from ftm_lazy.dynamic_shapes.size_hints import larger_sizes
from ftm_lazy.dynamic_shapes.size_one_matching import (
    SizeOneRelatives,
    TraceToMatch,
    values_with_ones,
)
from ftm_lazy.dynamic_shapes.trace_family import MAX_PROGRAMS, SizeGuess, TraceFamily

__all__ = ["DynamicCandidate", "Specialization", "TraceFamilies"]

_KEPT_BYTES = 1 << 28  # images and texts in memory
_FOREVER = 64  # failures; the family then stays static for more traces than will come
_FAR_MEMBERS = 8  # traces far from all programs, until one is compiled for them


Store = tuple[
    Callable[[str], bytes | None], Callable[[str, bytes], object], Callable[[str, str], object]
]
"""Functions that read, write and remove (with a reason) an entry of the disk cache by its text."""


class Specialization(NamedTuple):
    """The image for one trace, and for each result a bit mask of the dimensions that vary."""

    image: bytes
    varies: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class DynamicCandidate:
    """A trace with symbols, to be compiled instead of a static trace.

    Attributes:
        trace: The trace with symbols.
        relation: How the numbers of a trace follow from the symbols.
        family: The family of the static trace.
        values: The symbols' values in the static trace.
        chosen_for: The size hints in `trace`.
        first_sight: It was derived from one trace only.
    """

    trace: Trace
    relation: ShapeRelation
    family: TraceFamily
    values: tuple[int, ...]
    chosen_for: tuple[int, ...]
    first_sight: bool = False

    @property
    def sizes(self) -> str:
        """The symbols and their values, e.g. "s0 = 128", for messages."""
        return ", ".join(
            f"{name} = {value}"
            for (name, _, _), value in zip(self.relation.symbols, self.values, strict=True)
        )


def _is_special(guard: tuple[str, str, str]) -> bool:
    """Return whether a guard fixes a symbol's value: an equality with one symbol."""
    text, relation, _ = guard
    return relation == "==" and len(free_symbols(text)) == 1


class TraceFamilies:
    """The trace families of this process; the least recently used are evicted.

    Args:
        store: The disk cache, from which an evicted family is read when it is needed again.
        most: Number of families in memory.
    """

    def __init__(self, store: Store, most: int = 256) -> None:
        self._families: LRUCache[TraceFamily] = LRUCache(_KEPT_BYTES, most_entries=most)
        self._relatives = SizeOneRelatives()
        self._get, self._put, self._remove = store

    def clear(self) -> None:
        """Drop all families in memory."""
        self._families.clear()
        self._relatives.clear()

    def instance(self, trace: Trace) -> Specialization | None:
        """Specialize a dynamic-shape program for a trace; None if no program's guards hold."""
        canonical = canonicalize(trace, one_row=True)
        found = self._instance(canonical)
        if found is None and canonical is not trace:
            found = self._instance(trace)
        return found or self._of_relative(trace)

    def _of_relative(self, trace: Trace) -> Specialization | None:
        """Specialize a program for other strides, which match because some sizes are 1."""
        wanted = TraceToMatch(trace)
        for key, shared in self._relatives.of(wanted):
            family = self._families.get(key)
            if family is None:
                continue
            is_own = family.key[0] == structure_of(trace)
            for program in family.programs:
                if is_own and program.relation.values(wanted.numbers) is not None:
                    continue  # `_instance` has tried it
                values = values_with_ones(
                    wanted, family.example, shared, program.relation, program.template.admits
                )
                if values is None:
                    continue
                with contextlib.suppress(TemplateError):  # larger than any program
                    image = program.template.image(program.image, values)
                    family.put_first(program)  # to be tried first for traces like it
                    return Specialization(image, program.varies)
        return None

    def _instance(self, trace: Trace) -> Specialization | None:
        family, numbers = self._find(trace)
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
        if len(family.far) >= _FAR_MEMBERS:  # more will come, so compile a program for them
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

    def note(self, trace: Trace) -> None:
        """Add a trace with a static program to its family."""
        family, numbers = self._find(canonicalize(trace))
        family.note(numbers)

    def propose(self, trace: Trace, likely: SizeGuess | None = None) -> list[DynamicCandidate]:
        """Propose dynamic traces to compile instead of a static one.

        Args:
            trace: The trace, for which `instance` returned None.
            likely: The sizes that will probably vary; None if there are none.

        Returns:
            Candidates, the best first. Empty if the trace itself should be compiled.
        """
        trace = canonicalize(trace)
        family, numbers = self._find(trace)
        if likely is not None:
            likely = replace(likely, trace=canonicalize(likely.trace))
        others = [member for member in family.members if member != numbers]
        family.note(numbers)
        if family.rests():
            family.note_specialized(numbers)
            return []
        expected = family.expected(trace, numbers, others, likely) if likely is not None else None
        relation = expected or family.relation(
            [*family.telling([*others, numbers]), *others], numbers, NumberPlaces(trace).extents()
        )
        values = relation.values(numbers) if relation is not None else None
        if relation is None or values is None:
            family.note_specialized(numbers)
            return []
        # If a program of the family admits this trace, it needs one that is chosen for its sizes.
        like = (
            [numbers]
            if family.admits(numbers)
            else [member for member in family.members if relation.values(member) is not None]
        )
        largest = [
            max(member[place] for member in like) if least >= LEAST_EXTENT else 0
            for _, place, least in relation.symbols
        ]
        any_size = likely is not None and likely.any_size
        ahead = larger_sizes(symbolic_trace(trace, relation, values), values, largest, any_size)
        return [
            DynamicCandidate(
                symbolic_trace(trace, relation, chosen),
                relation,
                family,
                values,
                chosen,
                first_sight=expected is not None,
            )
            for chosen in dict.fromkeys((ahead, values))
        ]

    def refusal(self, trace: Trace) -> str:
        """Explain why the newest dynamic-shape program does not admit a trace; "" without one."""
        trace = canonicalize(trace)
        family, numbers = self._find(trace)
        if not family.programs:
            return ""
        program = family.programs[0]
        values = program.relation.values(numbers)
        if values is not None:
            return program.template.refusal(values)
        places = NumberPlaces(trace)
        shown = [places.line(place) for place in program.relation.violations(numbers)]
        return (
            "its numbers are related otherwise"
            + ": " * bool(shown)
            + "; ".join(f"`{line}`" for line in list(dict.fromkeys(shown))[:2])
        )

    def keep(self, proposal: DynamicCandidate, made: Executable) -> Specialization:
        """Store the compiled program of a candidate, and specialize it for its trace.

        Raises:
            TemplateError: Its guards do not hold for the trace.
        """
        family, template = proposal.family, made.template
        refusal = template.refusal(proposal.values) if template is not None else "it has no sizes"
        if template is None or refusal:
            raise TemplateError(refusal)
        special = any(map(_is_special, template.guards))
        family.failures = family.failures + 1 if special else 0
        varies = varying_results(proposal.trace)
        program = DynamicProgram(
            proposal.relation, template, made.image, proposal.values, proposal.chosen_for, varies
        )
        image = template.image(made.image, proposal.values)
        family.put_first(program)
        self._keep(family)
        self._relatives.add(family.key, family.example)
        self._put(family.text, packed(family.programs))
        return Specialization(image, program.varies)

    def fail(self, proposal: DynamicCandidate) -> None:
        """Note that no candidate for a trace compiled."""
        proposal.family.fail()

    def refuse(self, trace: Trace) -> bool:
        """Drop the programs of a trace's family for good, after the machine rejected the image.

        Returns:
            Whether the image may have been a specialization.
        """
        canonical = canonicalize(trace)
        forms = (trace,) if canonical is trace else (trace, canonical)
        families = [self._find(form)[0] for form in forms]
        had = [family for family in families if family.programs]
        for family in families:
            family.programs = ()
            family.failures = _FOREVER
        for family in had:
            self._remove(family.text, "the machine does not take a program of it")
        return bool(had)

    def _find(self, trace: Trace) -> tuple[TraceFamily, tuple[int, ...]]:
        key = structure_of(trace), window_orders(trace)
        family = self._families.get(key)
        if family is None:
            family = self._load(key, trace)
            self._keep(family)
        return family, numbers_of(trace)

    def _keep(self, family: TraceFamily) -> None:
        for forgotten in self._families.put(family.key, family, family.bytes):
            self._relatives.remove(forgotten.key)

    def _load(self, key: tuple[Hashable, Hashable], trace: Trace) -> TraceFamily:
        """Create a family with the programs in the disk cache."""
        text = f"family\n{key!r}"
        family = TraceFamily(key, text, trace)
        stored = self._get(text)
        if stored is not None:
            try:
                family.programs = tuple(unpacked(stored))[:MAX_PROGRAMS]
            except ValueError as error:
                self._remove(text, str(error))
        if family.programs:
            self._relatives.add(key, trace)
        return family
