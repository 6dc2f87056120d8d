"""Cache of fusion decisions, shared by statements of equal structure.

Example: twelve equal layers of a transformer. Whether ``x + b`` fits into the kernel of ``x @ w``
is computed for the first layer and looked up for the others.

A key has nothing of the program that it comes from. It is the *state* of the kernel so far (a
number for its history), the structure of the next statement (`statement_key`), and which values of
the statement the kernel already has. Equal keys have equal results and lead to the same state.
Results live as long as the process, so later programs use them too. Those of a program with
symbolic sizes end with it, because decisions about its sizes are its guards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, NamedTuple, TypeVar

from ftm_backend import symbolic
from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.lru import KEPT_PROGRAMS, LRUCache
from ftm_backend.midend.analysis.structural_key import statement_key
from ftm_backend.midend.schedule.loop_nest.capacity_check import Stored
from ftm_backend.target.presets import MachineParameters

__all__ = ["FusionCache", "Links", "StructuralName", "ValueNumbers", "forget"]

_T = TypeVar("_T")

Links = tuple[int | None, ...]
"""For each value of a statement its number in a kernel, None if the kernel does not have it."""


class StructuralName(NamedTuple):
    """The structure of a statement.

    Attributes:
        key: Equal for statements that differ only in their values.
        values: The values of the statement, in order.
    """

    key: str
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
_Result = tuple[Any, int]
"""A decision, and the state that follows from it."""

_RESULTS: LRUCache[_Result] = LRUCache(_MOST, kept_programs=KEPT_PROGRAMS)
_FRESH = itertools.count(1)  # never reused, also not after `forget`


def forget() -> None:
    """Clear all results."""
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
        is_symbolic = symbolic.current_env() is not None
        self._results = LRUCache[_Result](_MOST) if is_symbolic else _RESULTS

    def named(self, statement: Statement) -> StructuralName:
        """Return the structure of a statement whose stores are not set."""
        named = self._named.get(statement)
        if named is None:
            self._named[statement] = named = StructuralName(*statement_key(statement))
        return named

    def stores(self, statements: Collection[Statement]) -> bytes:
        """Return for each result whether a kernel of ``statements`` stores it."""
        return bytes(
            [
                self.stored(result.value, statements)
                for statement in statements
                for result in statement.results
            ]
        )

    def statements_key(self, statements: Iterable[Statement]) -> Hashable:
        """Return the structure of statements together, with their stores."""
        numbers = ValueNumbers()
        words: list[Hashable] = []
        for statement in statements:
            named = self.named(statement)
            words += (named.key, numbers.links(named))
            numbers.take(named)
            for result in statement.results:
                words += (numbers.number(store.target) for store in result.stores)
                words.append(tuple(store.index for store in result.stores))
        return tuple(words)

    def get_or_compute(self, key: Hashable, compute: Callable[[], _T]) -> tuple[_T, int]:
        """Return a decision and the state that follows from it.

        Args:
            key: The structure that decides, such as state, statement and links.
            compute: Computes the decision on a miss.
        """
        full_key = self.machine, key
        result = self._results.get(full_key)
        if result is None:
            result = compute(), next(_FRESH)
            self._results.put(full_key, result, 1)
        return result
