"""Record: a dynamic-shape program, and its serialization for the disk cache."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ftm_backend.assembler.image_template import ImageTemplate
from ftm_backend.symbolic.fit_size_polynomials import LEAST_EXTENT, ShapeRelation
from ftm_lazy.dynamic_shapes.size_hints import ANY_SIZE, SMALL_SIZE

__all__ = ["DynamicProgram", "packed", "unpacked"]

_NEAR = 8  # a size is near if it differs from the hint by at most this factor
_MOST_BYTES = 1 << 30  # of an image


@dataclass(eq=False)
class DynamicProgram:
    """A dynamic-shape program of a trace family.

    Attributes:
        relation: How the numbers of a trace follow from the symbols.
        template: The positions in the image that depend on the symbols, and the guards.
        image: The image for the first specialization.
        made_for: The symbols' values in the trace that it was first compiled for.
        chosen_for: The size hints that its schedule was chosen for.
        varies: For each result a bit mask of the dimensions that are symbols.
    """

    relation: ShapeRelation
    template: ImageTemplate
    image: bytes
    made_for: tuple[int, ...]
    chosen_for: tuple[int, ...]
    varies: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Approximate size in memory."""
        return len(self.image) + self.template.nbytes

    def is_near(self, values: Sequence[int]) -> bool:
        """Return whether its schedule was chosen for similar sizes."""
        return all(
            least < LEAST_EXTENT or _is_near(value, chosen)
            for value, chosen, (_, _, least) in zip(
                values, self.chosen_for, self.relation.symbols, strict=True
            )
        )


def _is_near(value: int, chosen: int) -> bool:
    return chosen == ANY_SIZE or (
        value <= _NEAR * chosen and chosen <= max(_NEAR * value, 2 * SMALL_SIZE)
    )


def packed(programs: Iterable[DynamicProgram]) -> bytes:
    """Serialize programs: a line of JSON, then each program's template and compressed image."""
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
    """Deserialize the result of `packed`.

    Raises:
        ValueError: The bytes are damaged.
    """
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
                    raise ValueError("the sizes that a program was compiled for are missing")
            if not all(isinstance(n, int) and 0 <= n < 1 << 64 for n in varies):
                raise ValueError("the varying dimensions of a program's results are missing")
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
                raise ValueError("an image is truncated")
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
