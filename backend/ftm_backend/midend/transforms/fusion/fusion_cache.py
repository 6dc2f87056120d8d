"""Cache of fusion decisions, shared by statements of equal structure.

Example: twelve equal layers of a transformer. Whether ``x + b`` fits into the kernel of ``x @ w``
is computed for the first layer and looked up for the others.

A key has nothing of the program that it comes from. It is the *state* of the kernel so far (a
number for its history), the structure of the next statement (`statement_key`), and which values of
the statement the kernel already has. Equal keys have equal results and lead to the same state.
Results live as long as the process, so later programs use them too.

A program with symbolic sizes does not use the cache: decisions about sizes are guards of that
program.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, NamedTuple, TypeVar

from ftm_backend import symbolic
from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.lru import KEPT_PROGRAMS, LRUCache
from ftm_backend.midend.analysis.structural_key import statement_key
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.schedule.loop_nest.capacity_check import Stored
from ftm_backend.target.presets import MachineParameters

__all__ = ["FusionCache", "Links", "StructuralName", "ValueNumbers", "forget"]

_T = TypeVar("_T")

Links = tuple[int | None, ...]
"""For each value of a statement its number in a kernel, None if the kernel does not have it."""


class StructuralName(NamedTuple):
    """The structure of a statement.

    Attributes:
        number: Equal for statements that differ only in their values.
        values: The values of the statement, in order.
    """

    number: int
    values: tuple[Value, ...]


class ValueNumbers:
    """The values of a kernel's statements, numbered in order of first use."""

    def __init__(self, others: ValueNumbers | None = None) -> None:
        """Start empty, or with the numbers of ``others``."""
        self._number: dict[Value, int] = dict(others._number) if others else {}

    def links(self, named: StructuralName) -> Links:
        """Return the number of each of a statement's values, None if it is new."""
        return tuple(map(self._number.get, named.values))

    def take(self, named: StructuralName) -> None:
        """Number the values of a statement."""
        for value in named.values:
            self.number(value)

    def number(self, value: Value) -> int:
        """Return the number of a value; the next one if it is new."""
        return self._number.setdefault(value, len(self._number))


_MOST = 1 << 16
_NUMBERS: LRUCache[int] = LRUCache(_MOST, kept_programs=KEPT_PROGRAMS)
_RESULTS: LRUCache[tuple[Any, int]] = LRUCache(_MOST, kept_programs=KEPT_PROGRAMS)
_FRESH = itertools.count(1)  # never reused, also not after `forget`


def forget() -> None:
    """Clear all results."""
    _NUMBERS.clear()
    _RESULTS.clear()


class FusionCache:
    """Fusion decisions during the fusion of one program."""

    def __init__(self, machine: MachineParameters, stored: Stored) -> None:
        """Create the view of one program on the cache.

        Args:
            machine: The machine to fuse for.
            stored: ``stored(value, statements)``: whether a kernel of these statements stores the
                value.
        """
        self.machine, self.stored = machine, stored
        self._named: dict[Statement, StructuralName] = {}
        self._enabled = symbolic.current_env() is None

    def named(self, statement: Statement) -> StructuralName:
        """Return the structure of a statement; its own stores must be set."""
        if not self._enabled:
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
        """Return for each result whether a kernel of ``statements`` stores it."""
        if not self._enabled:
            return b""
        return bytes(
            [
                self.stored(result.value, statements)
                for statement in statements
                for result in statement.results
            ]
        )

    def kernel_key(self, kernel: Kernel) -> Hashable:
        """Return the structure of a kernel whose stores are set; None if the cache is off."""
        if not self._enabled:
            return None
        numbers, words = ValueNumbers(), []
        for statement in kernel.statements:
            words += self._words(statement, numbers)
        for value in (*kernel.inputs, *kernel.outputs):
            words += (numbers.number(value), value.dtype, value.shape)
        made = tuple(
            None if result is None else numbers.number(result.value) for result in kernel.made
        )
        return tuple(words), len(kernel.inputs), tuple(kernel.ties), made

    def statements_key(self, statements: Iterable[Statement]) -> Hashable:
        """Return the structure of statements together; None if the cache is off."""
        if not self._enabled:
            return None
        numbers = ValueNumbers()
        return tuple(word for statement in statements for word in self._words(statement, numbers))

    def _words(self, statement: Statement, numbers: ValueNumbers) -> list[Hashable]:
        named = self.named(statement)
        words: list[Hashable] = [named.number, numbers.links(named)]
        numbers.take(named)
        for result in statement.results:
            words += (numbers.number(store.target) for store in result.stores)
            words.append(tuple(store.index for store in result.stores))
        return words

    def get_or_compute(self, key: Hashable, compute: Callable[[], _T]) -> tuple[_T, int]:
        """Return a decision and the state that follows from it.

        Args:
            key: The structure that decides, such as state, statement and links.
            compute: Computes the decision on a miss.
        """
        if not self._enabled:
            return compute(), 0
        full_key = self.machine, key
        result = _RESULTS.get(full_key)
        if result is None:
            result = compute(), next(_FRESH)
            _RESULTS.put(full_key, result, 1)
        return result
