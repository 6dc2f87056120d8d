"""From the recorder's trace to the compiler's data type.

The recorder hands over calls as (key, operands). Equal keys mean equal specifications, so the data
of a specification is read once, and its node costs little in later traces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ftm_backend.ir.trace.shape_family import NumberPlaces, numbers_of, with_numbers
from ftm_backend.ir.trace.trace import CallSpec, DType, Node, Operand, TensorType, Trace
from ftm_backend.symbolic import ShapeEnv, parse_size
from ftm_lazy import _C

__all__ = ["RecordedSymbols", "trace_of", "with_symbols"]

RecordedSymbols: TypeAlias = tuple[Sequence[tuple[int, int]], Sequence[tuple[int, str, int, str]]]
"""The symbols that the recorder chose (``csrc/graph/symbolic_sizes.h``).

Hint and least value of each symbol; then for each number that they determine the index of the
parameter or call, the argument ("": a parameter's extents), the element, and the polynomial.
"""

_SPECS: dict[bytes, CallSpec] = {}
"""Specifications by the recorder's key."""
_CAPACITY = 4_000
"""Some 6 MB. A large model has a thousand specifications; each new size makes others."""


def trace_of(recorded: Trace | _C._RecordedTrace) -> Trace:
    """Convert a recorded trace; a `Trace` is returned unchanged."""
    if isinstance(recorded, Trace):
        return recorded
    if len(_SPECS) >= _CAPACITY:
        _SPECS.clear()
    nodes = []
    for position, (key, operands) in enumerate(recorded.calls()):
        spec = _SPECS.get(key)
        if spec is None:
            spec = _SPECS[key] = _spec(*recorded.spec(position))
        nodes.append(Node(spec, operands))
    params = [TensorType(*data) for data in recorded.params()]
    return Trace(params, recorded.scalars(), nodes, recorded.results())


def with_symbols(trace: Trace, recorded: RecordedSymbols) -> Trace:
    """Replace numbers of a trace by the polynomials that the recorder chose."""
    declared, chosen = recorded
    symbols = ShapeEnv({f"s{number}": facts for number, facts in enumerate(declared)})
    places, numbers = NumberPlaces(trace), list(numbers_of(trace))
    with symbols:
        for index, argument, element, polynomial in chosen:
            of = places.argument(index, argument) if argument else places.params[index]
            numbers[of[element]] = parse_size("{" + polynomial + "}")
    return with_numbers(trace, numbers, symbols)


def _spec(
    op: str,
    arguments: list[tuple[str, str, object]],
    results: list[tuple[str, tuple[int, ...]] | None],
) -> CallSpec:
    args = tuple((name, _READ[kind](value)) for name, kind, value in arguments)
    return CallSpec(op, args, tuple(TensorType(*data) if data else None for data in results))


def _operands(marks: object) -> object:
    if isinstance(marks, tuple):
        return tuple(map(_operands, marks))
    return None if marks is None else Operand(marks)


_READ: dict[str, Callable[..., object]] = {
    "attribute": lambda value: value,
    "dtype": DType,
    "operands": _operands,
}
"""By the kind of an argument (csrc/program/recorded_trace.cpp): reads its data."""
