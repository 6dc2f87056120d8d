"""What grouping has found out of statements, kept for others that are alike: equal layers are
thought about once.

A question about a kernel that grows, such as whether it can take one more statement, is asked in
words in which nothing is left of the program that it is in: the *state* that the kernel's history
has led to, what the statement is (`signature.words_of`), and which of the statement's values are
which of the kernel's. Questions of equal words have one answer, and lead to one state. Answers live
as long as the process, so they serve programs that begin like earlier ones, too: the second step of
an optimizer, a deeper network.

A program with sizes that vary asks everything anew: answers about sizes are guards of that program.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import NamedTuple

from ftm_backend import symbolic
from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.lru import KEPT_PROGRAMS, LRUCache
from ftm_backend.midend.analysis.structural_key import statement_key
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.schedule.loop_nest.capacity_check import Stored
from ftm_backend.target.presets import MachineParameters

__all__ = ["FusionCache", "Links", "ShapeNumbers", "StructuralName", "forget"]

Links = tuple[int | None, ...]
"""For each value of a statement its number in a kernel; None for those that the kernel has nothing
to do with."""


class StructuralName(NamedTuple):
    """A number that statements have in common if they are equal but for which values they are
    about, and these values in order."""

    number: int
    values: tuple[Value, ...]


class ShapeNumbers:
    """The values of a kernel's statements, numbered in the order in which they came."""

    def __init__(self, others: ShapeNumbers | None = None) -> None:
        self._number: dict[Value, int] = dict(others._number) if others else {}

    def links(self, named: StructuralName) -> Links:
        """Those of a statement that were there before."""
        return tuple(map(self._number.get, named.values))

    def take(self, named: StructuralName) -> None:
        """A statement's values are the kernel's from now on."""
        for value in named.values:
            self.number(value)

    def number(self, value: Value) -> int:
        """A value's number; the next one if it is new."""
        return self._number.setdefault(value, len(self._number))


_MOST = 1 << 16
_NUMBERS: LRUCache[int] = LRUCache(_MOST, kept_programs=KEPT_PROGRAMS)
_ANSWERS: LRUCache[tuple[bool, int]] = LRUCache(_MOST, kept_programs=KEPT_PROGRAMS)
_FRESH = itertools.count(1)  # never again: what was forgotten is not taken for something else


def forget() -> None:
    """Forgets all answers."""
    _NUMBERS.clear()
    _ANSWERS.clear()


class FusionCache:
    """What is asked while one program is grouped.

    Args:
        machine: what it is grouped for.
        stored: whether a kernel of some statements writes a value to memory.
    """

    def __init__(self, machine: MachineParameters, stored: Stored) -> None:
        self.machine, self.stored = machine, stored
        self._named: dict[Statement, StructuralName] = {}
        self._remembers = symbolic.current_env() is None

    def named(self, statement: Statement) -> StructuralName:
        """A statement's name, found once: what it stores by itself must be known."""
        if not self._remembers:
            return StructuralName(0, ())
        named = self._named.get(statement)
        if named is None:
            words, values = statement_key(statement)
            number = _NUMBERS.get(words)
            if number is None:
                number = next(_FRESH)
                _NUMBERS.put(words, number, 1)
            self._named[statement] = named = StructuralName(number, tuple(values))
        return named

    def stores(self, statements: Collection[Statement]) -> bytes:
        """Which results a kernel of these statements writes to memory."""
        if not self._remembers:
            return b""
        return bytes(
            [
                self.stored(result.value, statements)
                for statement in statements
                for result in statement.results
            ]
        )

    def kernel(self, kernel: Kernel) -> Hashable:
        """What a whole kernel is, when it is known what it stores; None where nothing is
        remembered."""
        if not self._remembers:
            return None
        numbers, words = ShapeNumbers(), []
        for statement in kernel.statements:
            words += self._words(statement, numbers)
        for value in (*kernel.inputs, *kernel.outputs):
            words += (numbers.number(value), value.dtype, value.shape)
        made = tuple(
            None if result is None else numbers.number(result.value) for result in kernel.made
        )
        return tuple(words), len(kernel.inputs), tuple(kernel.ties), made

    def statements(self, statements: Iterable[Statement]) -> Hashable:
        """What statements are together, and what they store as things stand."""
        if not self._remembers:
            return None
        numbers = ShapeNumbers()
        return tuple(word for statement in statements for word in self._words(statement, numbers))

    def _words(self, statement: Statement, numbers: ShapeNumbers) -> list[Hashable]:
        named = self.named(statement)
        words: list[Hashable] = [named.number, numbers.links(named)]
        numbers.take(named)
        for result in statement.results:
            words += (numbers.number(store.target) for store in result.stores)
            words.append(tuple(store.index for store in result.stores))
        return words

    def ask(self, question: Hashable, find: Callable[[], bool]) -> tuple[bool, int]:
        """The answer, and the state that it leads to; ``find`` is called where nobody knows it."""
        if not self._remembers:
            return find(), 0
        key = self.machine, question
        answer = _ANSWERS.get(key)
        if answer is None:
            answer = find(), next(_FRESH)
            _ANSWERS.put(key, answer, 1)
        return answer
