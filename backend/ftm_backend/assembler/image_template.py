"""Images of dynamic-shape programs: where symbolic sizes are in an image, and their guards.

A dynamic-shape program is assembled like any other, from a text that has polynomials of symbols in
place of numbers (``{64*s0+1}``). The image that results is specialized to the sizes seen. Its
`ImageTemplate` has a relocation for each number that depends on symbols, and produces the image
for other sizes by applying them, which takes microseconds.
Such an image is as good as one compiled for its sizes: nothing is computed at run time.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ftm_backend import symbolic
from ftm_backend.assembler.image_writer import link
from ftm_backend.assembler.immediate_encoder import to_bits
from ftm_backend.ir.asm.program import AsmProgram
from ftm_backend.symbolic import SymbolicExpressionError, compile_expressions, round_to_dtype
from ftm_backend.target.element_types import BY_TOKEN

_HOLDS: dict[str, Callable[[int], bool]] = {
    "==": lambda n: n == 0,
    "!=": lambda n: n != 0,
    ">=": lambda n: n >= 0,
}
_MOST = 1 << 64
_MASK = (1 << 64) - 1
_TEXT_BYTES, _CHARACTER_BYTES, _RELOCATION_BYTES = 64, 12, 200
"""Measured with tracemalloc: a text is kept as a string and as compiled code, a relocation as a
tuple and in the arrays of `_writes`."""


class TemplateError(ValueError):
    """A program cannot have symbolic sizes, or the bytes of a template are damaged."""


@dataclass(frozen=True, eq=False)
class ImageTemplate:
    """The relocations of a dynamic-shape program's image, and its guards.

    Attributes:
        symbols: Names of the symbols, in the order of their values.
        texts: Distinct polynomials of the numbers that depend on symbols.
        relocations: For each such number in the image: first byte, number of bytes, index
            into ``texts``.
        guards: Polynomial, relation to 0 (``==``, ``!=`` or ``>=``), and the place in the compiler
            that added the guard.
    """

    symbols: tuple[str, ...]
    texts: tuple[str, ...]
    relocations: tuple[tuple[int, int, int], ...]
    guards: tuple[tuple[str, str, str], ...]

    @property
    def nbytes(self) -> int:
        """Estimated bytes in memory, including the functions that the texts are compiled to."""
        texts = [*self.texts, *(text for text, _, _ in self.guards)]
        return (
            _TEXT_BYTES * len(texts)
            + _CHARACTER_BYTES * sum(map(len, texts))
            + _RELOCATION_BYTES * len(self.relocations)
        )

    def admits(self, values: Sequence[int]) -> bool:
        """Whether the program is correct for these values of the symbols."""
        equal, unequal, at_least = self._guards_by_relation
        try:
            return (
                not any(equal(*values))
                and all(unequal(*values))
                and min(at_least(*values), default=0) >= 0
            )
        except ZeroDivisionError:  # a value below the least one that its symbol allows
            return False

    def refusal(self, values: Sequence[int]) -> str:
        """Describe the first guard that does not hold for these values; empty if all hold."""
        at = ", ".join(
            f"{symbol} = {value}" for symbol, value in zip(self.symbols, values, strict=True)
        )
        try:
            numbers = self._guard_values(*values)
        except ZeroDivisionError:
            return f"a guard divides by 0 where {at}"
        for (size, relation, place), number in zip(self.guards, numbers, strict=True):
            if not _HOLDS[relation](number):
                return f"{size} {relation} 0 does not hold where {at} ({place})"
        return ""

    @functools.cached_property
    def _guards_by_relation(self) -> list[Callable[..., tuple[int, ...]]]:
        """Evaluators of the guards of each relation, in the order of `_HOLDS`."""
        return [
            compile_expressions(
                [size for size, asked, _ in self.guards if asked == relation], self.symbols
            )
            for relation in _HOLDS
        ]

    def image(self, image: bytes, values: Sequence[int]) -> bytes:
        """Apply the relocations for other values.

        Args:
            image: The image for any values.
            values: Values of the symbols, for which `admits` is true.

        Raises:
            TemplateError: A number does not fit into its field.
        """
        try:
            numbers = self._bits(values)
        except (ArithmeticError, ValueError) as error:
            raise TemplateError(f"a number of the program cannot be computed: {error}") from None
        patched = np.frombuffer(image, np.uint8).copy()
        if numbers and not -_MOST < min(numbers) <= max(numbers) < _MOST:
            raise TemplateError("a size is too large for a program")
        wide = np.array([number & _MASK for number in numbers], np.uint64)
        for kind, where, which in self._writes:
            chosen = wide[which]
            if kind is np.uint32 and (chosen >> np.uint64(32)).any():
                raise TemplateError("a size is too large for a program")
            patched[where] = chosen.astype(kind).view(np.uint8)
        return patched.tobytes()

    @functools.cached_property
    def _guard_values(self) -> Callable[..., tuple[int, ...]]:
        return compile_expressions([text for text, _, _ in self.guards], self.symbols)

    def _bits(self, values: Sequence[int]) -> list[int]:
        """Return the bits to write for each text."""
        integers, ratios = self._numbers
        found = list(integers(*values))
        for place, token, number in zip(self._floating, self._tokens, ratios(*values), strict=True):
            found[place] = to_bits(round_to_dtype(float(number), token), BY_TOKEN[token])
        return found

    @functools.cached_property
    def _floating(self) -> list[int]:
        return [k for k, text in enumerate(self.texts) if ":" in text]

    @functools.cached_property
    def _tokens(self) -> list[str]:
        return [self.texts[k].partition(":")[0] for k in self._floating]

    @functools.cached_property
    def _numbers(self) -> tuple[Callable[..., tuple[Any, ...]], Callable[..., tuple[Any, ...]]]:
        texts = [text.rpartition(":")[2] for text in self.texts]
        return (
            compile_expressions(
                ["0" if ":" in text else text for text in self.texts], self.symbols
            ),
            compile_expressions([texts[k] for k in self._floating], self.symbols, real=True),
        )

    @functools.cached_property
    def _writes(self) -> list[tuple[type, np.ndarray, np.ndarray]]:
        """For each width: its type, all bytes to write, and the text of each relocation."""
        writes: list[tuple[type, np.ndarray, np.ndarray]] = []
        for size, kind in ((8, np.uint64), (4, np.uint32)):
            starts = np.array([at for at, n, _ in self.relocations if n == size], np.int64)
            which = np.array([k for _, n, k in self.relocations if n == size], np.int64)
            writes.append((kind, (starts[:, None] + np.arange(size)).reshape(-1), which))
        return writes

    def to_bytes(self) -> bytes:
        """Serialize as JSON."""
        return json.dumps([self.symbols, self.texts, self.relocations, self.guards]).encode()

    @classmethod
    def from_bytes(cls, data: bytes, image_bytes: int) -> ImageTemplate:
        """Deserialize; TemplateError unless ``data`` is a template for ``image_bytes`` bytes."""
        try:
            symbols, texts, relocations, guards = json.loads(data)
            template = cls(
                tuple(symbols),
                tuple(texts),
                tuple((at, n, k) for at, n, k in relocations),
                tuple((t, r, p) for t, r, p in guards),
            )
            good = all(
                n in (4, 8) and 0 <= at <= image_bytes - n and 0 <= k < len(template.texts)
                for at, n, k in template.relocations
            )
            good = good and all(relation in _HOLDS for _, relation, _ in template.guards)
            values = [1] * len(template.symbols)
            good = (
                good
                and all(map(str.isidentifier, template.symbols))
                and template._numbers is not None
                and template._guard_values is not None
            )
        except (
            ValueError,
            TypeError,
            RecursionError,
            AttributeError,
            SymbolicExpressionError,
        ) as error:
            raise TemplateError(f"the dynamic-shape program is damaged: {error}") from None
        if not good or len(values) != len(set(template.symbols)):
            raise TemplateError(
                "the dynamic-shape program is damaged: a relocation is not in its image"
            )
        return template


def assemble(program: AsmProgram | str) -> tuple[bytes, ImageTemplate | None]:
    """Assemble a program that may have symbolic sizes.

    Returns:
        The image for the sizes seen, and its template; None if no symbols are in scope.

    Raises:
        AsmError: The program is wrong.
    """
    linked = link(program)
    symbols = symbolic.current_env()
    if symbols is None:
        return linked.image, None
    number: dict[str, int] = {}
    relocations = tuple(
        (r.offset, r.width, number.setdefault(r.expression, len(number)))
        for r in linked.relocations
    )
    guards = tuple((guard.size, guard.relation, guard.place) for guard in symbols.guards.values())
    return linked.image, ImageTemplate(tuple(symbols.values), tuple(number), relocations, guards)
