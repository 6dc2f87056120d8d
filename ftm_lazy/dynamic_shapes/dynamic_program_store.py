"""A general program, and how those of a family lie on disk."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ftm_backend.assembler.image_template import ImageTemplate
from ftm_backend.symbolic.shape_relations import ShapeRelation
from ftm_lazy.dynamic_shapes.size_hints import ANY_SIZE, SMALL_SIZE

__all__ = ["LEAST_SIZE", "DynamicProgram", "packed", "unpacked"]

LEAST_SIZE = 1
"""The least value of a symbol that is a size; others are places."""
_NEAR = 8  # times larger or smaller than what a program was chosen for, a size is near
_MOST_BYTES = 1 << 30


@dataclass(eq=False)
class DynamicProgram:
    """A program of a family.

    made_for: the symbols' values in the member that it was first compiled for. chosen_for: those
    that decided how it runs. varies: of each result the dimensions that are symbols, as bits.
    """

    relation: ShapeRelation
    template: ImageTemplate
    image: bytes
    made_for: tuple[int, ...]
    chosen_for: tuple[int, ...]
    varies: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about."""
        return len(self.image) + self.template.nbytes

    def is_near(self, values: Sequence[int]) -> bool:
        """Return whether it was chosen for sizes like these."""
        return all(
            least < LEAST_SIZE or _is_near(value, chosen)
            for value, chosen, (_, _, least) in zip(
                values, self.chosen_for, self.relation.symbols, strict=True
            )
        )


def _is_near(value: int, chosen: int) -> bool:
    return chosen == ANY_SIZE or (
        value <= _NEAR * chosen and chosen <= max(_NEAR * value, 2 * SMALL_SIZE)
    )


def packed(programs: Iterable[DynamicProgram]) -> bytes:
    """Return a line of JSON that says what follows, then for each program its template and its image."""
    facts, parts = [], []
    for program in programs:
        template, image = program.template.to_bytes(), zlib.compress(program.image, 1)
        relation = program.relation
        facts.append(
            [
                relation.fixed,
                relation.texts,
                relation.symbols,
                program.made_for,
                program.chosen_for,
                program.varies,
                len(template),
                len(image),
                len(program.image),
            ]
        )
        parts += [template, image]
    return json.dumps(facts).encode() + b"\n" + b"".join(parts)


def unpacked(data: bytes) -> list[DynamicProgram]:
    """Return the reverse; raises ValueError for bytes that are not a family's."""
    line, _, body = data.partition(b"\n")
    programs, at = [], 0
    try:
        for (
            fixed,
            texts,
            symbols,
            made_for,
            chosen_for,
            varies,
            template_bytes,
            packed_bytes,
            image_bytes,
        ) in json.loads(line):
            for values in (made_for, chosen_for):
                if len(values) != len(symbols) or not all(isinstance(n, int) for n in values):
                    raise ValueError("a program does not say what it was made and chosen for")
            if not all(isinstance(n, int) and 0 <= n < 1 << 64 for n in varies):
                raise ValueError("a program does not say which of its results' sizes vary")
            if not 0 <= image_bytes <= _MOST_BYTES:
                raise ValueError(f"an image of {image_bytes} bytes")
            relation = ShapeRelation.of(
                [(p, n) for p, n in fixed],
                [(p, t) for p, t in texts],
                [(s, p, n) for s, p, n in symbols],
            )
            middle, end = at + template_bytes, at + template_bytes + packed_bytes
            image = zlib.decompressobj().decompress(body[middle:end], image_bytes + 1)
            if len(image) != image_bytes:
                raise ValueError("an image is cut off")
            template = ImageTemplate.from_bytes(body[at:middle], image_bytes)
            programs.append(
                DynamicProgram(
                    relation, template, image, tuple(made_for), tuple(chosen_for), tuple(varies)
                )
            )
            at = end
    except (ValueError, TypeError, RecursionError, zlib.error) as error:
        raise ValueError(f"the general programs are damaged: {error}") from None
    return programs
