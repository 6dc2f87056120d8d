"""Use-def analysis: which operations and kernels read a value, and which values share storage.

Example: ``y = x @ w``, then ``relu(y)`` and ``z[2:4] = y``. The readers of ``y`` are the statement
of ReLU and the update of ``z``. ``y`` *escapes*, because something other than a statement reads it,
so a kernel must store it. The result of the update shares the storage of ``z``, its *home*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from ftm_backend.ir.linalg.function import (
    IN_PLACE,
    LinalgFunction,
    SequentialLoop,
    Statement,
    Update,
    Value,
)
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule

__all__ = [
    "FunctionUses",
    "Item",
    "KernelUses",
    "escaping",
    "home_of",
    "homes",
    "makers_of",
    "overwritten",
    "written_over",
]

Item = Statement | Update | SequentialLoop
"""An operation of a function's body."""


class FunctionUses:
    """The readers of all values of a function.

    Attributes:
        results: The values that the function returns.
    """

    def __init__(self, function: LinalgFunction, nested: bool = False) -> None:
        """Analyse a function; with ``nested`` also the bodies of its loops."""
        self.results: set[Value] = set()
        self._readers: dict[Value, dict[Item, None]] = {}
        self._count: Counter[Value] = Counter()
        self._add(function, nested)

    def _add(self, function: LinalgFunction, nested: bool) -> None:
        returned = [tensor.value for tensor in function.results]
        self.results.update(returned)
        self._count.update(returned)
        for item in function.body:
            self.note(item, item.reads())
            if nested and isinstance(item, SequentialLoop):
                self._add(item.body, nested)

    def note(self, item: Item, values: Iterable[Value]) -> None:
        """Record that ``item`` reads ``values``, after a rewrite for example."""
        for value in values:
            self._readers.setdefault(value, {})[item] = None
            self._count[value] += 1

    def readers(self, value: Value) -> list[Item]:
        """Return the operations that read ``value``, in order, each once."""
        return list(self._readers.get(value, ()))

    def count(self, value: Value) -> int:
        """Return how often ``value`` is read, also twice by one operation, or returned."""
        return self._count[value]

    def is_used(self, value: Value) -> bool:
        """Return whether an operation reads ``value``, or the function returns it."""
        return value in self._count

    def is_read_only_by(self, value: Value, item: Item) -> bool:
        """Return whether ``item`` is the one operation that uses ``value``."""
        return self.readers(value) == [item] and value not in self.results


def escaping(function: LinalgFunction) -> set[Value]:
    """Return the values that something other than a statement reads: results, updates, loops."""
    found = {tensor.value for tensor in function.results}
    for item in function.body:
        if not isinstance(item, Statement):
            found.update(item.reads())
    return found


class KernelUses:
    """Which kernels store and load the values of a module. Create it anew when kernels change.

    Attributes:
        producer: For each stored value the last kernel that stores it.
        escapes: The values that something other than a kernel reads.
    """

    def __init__(self, module: KernelModule) -> None:
        """Analyse the kernels of ``module``."""
        self._module = module
        self.producer: dict[Value, Kernel] = {}
        self.escapes = escaping(module.function)
        self._readers: dict[Value, list[Kernel]] = {}
        self._computes: dict[Statement, Kernel] = {}
        self._position: dict[Kernel, int] = {}
        for number, kernel in enumerate(module.kernels):
            self._position[kernel] = number
            for value in kernel.outputs:
                self.producer[value] = kernel
            for value in kernel.inputs:
                self._readers.setdefault(value, []).append(kernel)
            for statement in kernel.statements:
                self._computes.setdefault(statement, kernel)

    def __contains__(self, kernel: Kernel) -> bool:
        """Whether the module has this kernel."""
        return kernel in self._position

    def readers(self, value: Value) -> list[Kernel]:
        """Return the kernels that load ``value``, in order."""
        return self._readers.get(value, [])

    def computing(self, value: Value) -> Kernel | None:
        """Return the first kernel that computes ``value``; None for inputs and updates."""
        maker = value.producer
        return self._computes.get(maker) if isinstance(maker, Statement) else None

    def is_private(self, kernel: Kernel, members: Collection[Kernel]) -> bool:
        """Return whether only ``members`` read what a kernel stores."""
        return all(
            value not in self.escapes and set(self.readers(value)) <= set(members)
            for value in kernel.outputs
        )

    def between(self, first: Kernel, last: Kernel) -> list[Kernel]:
        """Return the kernels from ``first`` to ``last``, both included."""
        return self._module.kernels[self._position[first] : self._position[last] + 1]

    def are_intact(self, values: Iterable[Value], first: Kernel, last: Kernel) -> bool:
        """Return whether no kernel from ``first`` to ``last`` overwrites the storage of values."""
        return overwritten(self.between(first, last)).isdisjoint(homes(values))


# --- storage


def home_of(value: Value) -> Value:
    """Return the value whose storage ``value`` shares.

    Updates, scatters, waits for collectives and loops write over their base, so their results
    share its storage.
    """
    while value.producer is not None:
        over = written_over(value.producer, value)
        if over is None:
            break
        value = over
    return value


def homes(values: Iterable[Value]) -> set[Value]:
    """Return the values whose storage ``values`` share.

    Compare reads and writes by these: a result of an update differs from its base as a value.
    """
    return set(map(home_of, values))


def overwritten(kernels: Iterable[Kernel]) -> set[Value]:
    """Return the values whose storage ``kernels`` write over."""
    return homes(_tied(kernels))


def _tied(kernels: Iterable[Kernel]) -> Iterator[Value]:
    for kernel in kernels:
        for tie in kernel.ties:
            if tie is not None:
                yield kernel.inputs[tie]


def written_over(maker: Item, value: Value) -> Value | None:
    """Return the computed base of a result.

    Args:
        maker: An update, scatter, wait for a collective or loop, or another operation.
        value: One of its results.

    Returns:
        The value over which it is written; None if that is an input or new storage.
    """
    if isinstance(maker, SequentialLoop):
        base = maker.bases[maker.results.index(value)]
        return base if base.producer is not None else None
    if isinstance(maker, Update):
        return maker.base.value if maker.base.value.producer is not None else None
    return maker.tensors[0].value if maker.op in IN_PLACE else None


def makers_of(value: Value) -> set[Statement]:
    """Return the statements that write the elements of ``value`` into memory."""
    maker = value.producer
    if isinstance(maker, Statement):
        return {maker}
    if maker is None or isinstance(maker, SequentialLoop):
        return set()
    return makers_of(maker.base.value).union(*(makers_of(p.value.value) for p in maker.parts))
