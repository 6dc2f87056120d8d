"""General programs: what serves all members of a family of traces that differ in numbers alone.

The first member of a family is compiled as it is.  When a second one comes whose numbers differ, how they are related is
known, and one program is compiled for all numbers that are related so (`ftm_backend.families`, `ftm_backend.sizes`).  A later
member is an instance of it, made in less than a millisecond; where the program's guards do not hold for it, another one is
compiled beside the first.  A family's programs are one entry of the disk cache, so that other processes have them as well.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ftm_backend.executable import Executable
from ftm_backend.families import Relation, relate, split
from ftm_backend.isa.template import Template, TemplateError
from ftm_backend.recent import Recent

__all__ = ["Families", "Proposal"]

_SYMBOL = re.compile(r"\bs\d+\b")
_KEPT_BYTES = 1 << 28  # of images and texts in memory
_MEMBERS = 3  # that relations are found from
_PROGRAMS = 16  # general programs of one family
_MOST_BYTES = 1 << 30
_ATTEMPTS = 2  # that may come to nothing before a family is left alone


Store = tuple[Callable[[str], bytes | None], Callable[[str, bytes], object], Callable[[str, str], object]]
"""What reads, writes and removes (with the reason) an entry of the disk cache by a text."""


@dataclass(eq=False)
class _Program:
    relation: Relation
    template: Template
    image: bytes


@dataclass(eq=False)
class _Family:
    key: bytes
    text: str
    members: deque[tuple[int, ...]] = field(default_factory=lambda: deque(maxlen=_MEMBERS))
    programs: deque[_Program] = field(default_factory=lambda: deque(maxlen=_PROGRAMS))
    failures: int = 0

    @property
    def bytes(self) -> int:
        """What it needs in memory, about."""
        return len(self.text) + sum(len(program.image) for program in self.programs)

    def note(self, numbers: tuple[int, ...]) -> None:
        """A member came now."""
        if numbers in self.members:
            self.members.remove(numbers)
        self.members.append(numbers)


@dataclass(frozen=True, eq=False)
class Proposal:
    """A general trace to be compiled in place of one member's: its text, and how its symbols are found in members."""

    text: str
    relation: Relation
    family: _Family


def _is_special(guard: tuple[str, str]) -> bool:
    """Whether a guard leaves a symbol one value: an equality of one symbol; those of several are relations."""
    text, relation = guard
    return relation == "==" and len(set(_SYMBOL.findall(text))) == 1


class Families:
    """The families of this process, of which the longest unused are forgotten."""

    def __init__(self, store: Store) -> None:
        self._families: Recent[_Family] = Recent(_KEPT_BYTES)
        self._get, self._put, self._remove = store

    def clear(self) -> None:
        """Forgets everything."""
        self._families.clear()

    def instance(self, text: str) -> bytes | None:
        """The image for a trace, made from a general program; None if there is none that admits it."""
        family, numbers = self._find(text)
        for program in family.programs:
            values = program.relation.values(numbers)
            if values is not None and program.template.admits(values):
                try:
                    image = program.template.image(program.image, values)
                except TemplateError:  # larger than any program
                    continue
                family.note(numbers)
                return image
        return None

    def note(self, text: str) -> None:
        """A trace that has a program of its own is a member of its family like others."""
        family, numbers = self._find(text)
        family.note(numbers)

    def propose(self, text: str) -> Proposal | None:
        """What to compile instead of a trace that is no instance; None where the trace itself shall be."""
        family, numbers = self._find(text)
        others = [member for member in family.members if member != numbers]
        family.note(numbers)
        if not others or family.failures >= _ATTEMPTS:
            return None
        relation = relate([*others, numbers], text)
        values = relation.values(numbers)
        return None if values is None else Proposal(relation.general(text, values), relation, family)

    def keep(self, proposal: Proposal, made: Executable | None) -> None:
        """What became of a proposal: its program, or None where it cannot be compiled."""
        family = proposal.family
        special = made is None or made.template is None or any(map(_is_special, made.template.guards))
        family.failures = family.failures + 1 if special else 0
        if made is not None and made.template is not None:
            family.programs.appendleft(_Program(proposal.relation, made.template, made.image))
            self._families.put(family.key, family, family.bytes)
            self._put(family.text, _pack(family.programs))

    def refuse(self, text: str) -> bool:
        """The machine does not take the image of a trace: whether it may have been an instance; there will be none again."""
        family, _ = self._find(text)
        had = bool(family.programs)
        family.programs.clear()
        family.failures = _ATTEMPTS
        if had:
            self._remove(family.text, "the machine does not take a program of it")
        return had

    def _find(self, text: str) -> tuple[_Family, tuple[int, ...]]:
        shared, numbers = split(text)
        key = hashlib.blake2b(shared.encode(), digest_size=16).digest()
        family = self._families.get(key)
        if family is None:
            family = self._load(key, f"family\n{shared}")
            self._families.put(key, family, family.bytes)
        return family, numbers

    def _load(self, key: bytes, text: str) -> _Family:
        """A family with the programs that other processes have left."""
        family = _Family(key, text)
        stored = self._get(text)
        if stored is not None:
            try:
                family.programs.extend(_unpack(stored))
            except ValueError as error:
                self._remove(text, str(error))
        return family


def _pack(programs: Iterable[_Program]) -> bytes:
    """A line of JSON that says what follows, then for each program its template and its image."""
    facts, parts = [], []
    for program in programs:
        template, image = program.template.to_bytes(), zlib.compress(program.image, 1)
        relation = program.relation
        facts.append([relation.fixed, relation.texts, relation.symbols, len(template), len(image), len(program.image)])
        parts += [template, image]
    return json.dumps(facts).encode() + b"\n" + b"".join(parts)


def _unpack(data: bytes) -> list[_Program]:
    """The reverse; raises ValueError for bytes that are not a family's."""
    line, _, body = data.partition(b"\n")
    programs, at = [], 0
    try:
        for fixed, texts, symbols, template_bytes, packed_bytes, image_bytes in json.loads(line):
            if not 0 <= image_bytes <= _MOST_BYTES:
                raise ValueError(f"an image of {image_bytes} bytes")
            relation = Relation.of([(p, n) for p, n in fixed], [(p, t) for p, t in texts], [(s, p, n) for s, p, n in symbols])
            middle, end = at + template_bytes, at + template_bytes + packed_bytes
            image = zlib.decompressobj().decompress(body[middle:end], image_bytes + 1)
            if len(image) != image_bytes:
                raise ValueError("an image is cut off")
            programs.append(_Program(relation, Template.from_bytes(body[at:middle], image_bytes), image))
            at = end
    except (ValueError, TypeError, RecursionError, zlib.error) as error:
        raise ValueError(f"the general programs are damaged: {error}") from None
    return programs
