"""Shape families: traces that differ only in sizes.

A trace consists of its *structure* and the vector of its *numbers*: the extents of parameters, then
each node's sizes (`CallSpec.numbers`). Example: ``f32[8,6] -> relu -> f32[8,6]`` has the numbers
(8, 6, 8, 6), and all traces of its family have four. A number's *place* is its index in the vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain

from ftm_backend.ir.trace.arguments import sizes_of_argument
from ftm_backend.ir.trace.trace import Node, TensorType, Trace
from ftm_backend.symbolic import ShapeEnv, SymInt, parse_size
from ftm_backend.symbolic.fit_size_polynomials import ShapeRelation


def numbers_of(trace: Trace) -> tuple[int, ...]:
    """Return the numbers of a trace."""
    params = [type_.shape for type_ in trace.params]
    return tuple(chain.from_iterable([*params, *(node.spec.numbers for node in trace.nodes)]))


def structure_of(trace: Trace) -> tuple[object, ...]:
    """Return everything but the numbers of a trace, as a key of dictionaries."""
    params = tuple((type_.dtype, len(type_.shape)) for type_ in trace.params)
    nodes = tuple(chain.from_iterable([(n.spec.structure, n.operands) for n in trace.nodes]))
    return params, tuple(trace.scalars), nodes, tuple(trace.results)


def with_numbers(trace: Trace, numbers: Sequence[object], symbols: ShapeEnv | None = None) -> Trace:
    """Return the trace of the same structure with these numbers.

    Args:
        trace: A trace of the family.
        numbers: As many as it has; integers, or polynomials of ``symbols``.
        symbols: What the result declares.
    """
    given = iter(numbers)
    params = [type_.with_shape(given) for type_ in trace.params]
    nodes: list[Node] = []
    for node in trace.nodes:
        own = [next(given) for _ in node.spec.numbers]
        is_same = all(new is old for new, old in zip(own, node.spec.numbers, strict=True))
        spec = node.spec if is_same else node.spec.with_numbers(own)
        nodes.append(Node(spec, node.operands))
    return Trace(params, list(trace.scalars), nodes, list(trace.results), symbols)


class NumberPlaces:
    """Where the numbers of a trace occur.

    Attributes:
        params: Places of each parameter's extents.
    """

    def __init__(self, trace: Trace) -> None:
        """Locate the numbers of ``trace``."""
        self._trace = trace
        ends = list(accumulate(len(type_.shape) for type_ in trace.params))
        self.params = [
            range(end - len(type_.shape), end)
            for end, type_ in zip(ends, trace.params, strict=True)
        ]
        begin = ends[-1] if ends else 0
        counts = (len(node.spec.numbers) for node in trace.nodes)
        self._begins = list(accumulate(counts, initial=begin))

    def of_node(self, node: int) -> range:
        """Return the places of all numbers of a node."""
        return range(self._begins[node], self._begins[node + 1])

    def argument(self, node: int, name: str) -> range:
        """Return the places of an argument's sizes; empty if it has none."""
        begin = self._begins[node]
        for key, value in self._trace.nodes[node].spec.args:
            count = len(sizes_of_argument(key, value))
            if key == name:
                return range(begin, begin + count)
            begin += count
        return range(begin, begin)

    def extents(self) -> set[int]:
        """Return the places of extents in types; the other numbers are arguments."""
        found = {place for places in self.params for place in places}
        for end, node in zip(self._begins[1:], self._trace.nodes, strict=True):
            count = sum(len(type_.shape) for type_ in node.spec.results if type_ is not None)
            found.update(range(end - count, end))
        return found

    def line(self, place: int) -> str:
        """Return the line of the trace's text that has a number."""
        for number, places in enumerate(self.params):
            if place in places:
                return f"%{number} = param {self._trace.params[number]}"
        number = len(self.params)
        for end, node in zip(self._begins[1:], self._trace.nodes, strict=True):
            if place < end:
                return node.text(number)
            number += len(node.spec.results)
        raise IndexError(place)


def symbolic_trace(trace: Trace, relation: ShapeRelation, hints: Sequence[int]) -> Trace:
    """Replace the numbers of a trace that vary by polynomials of symbols.

    Args:
        trace: A trace of the family.
        relation: The polynomials.
        hints: The symbols' hints.
    """
    symbols = ShapeEnv(
        {
            name: (hint, least)
            for (name, _, least), hint in zip(relation.symbols, hints, strict=True)
        }
    )
    numbers: list[object] = list(numbers_of(trace))
    with symbols:
        for place, text in relation.texts:
            numbers[place] = parse_size("{" + text + "}")
    return with_numbers(trace, numbers, symbols)


def relation_of(general: Trace, trace: Trace) -> ShapeRelation:
    """Return how the numbers of a trace follow from the symbols of its symbolic trace.

    Args:
        general: The trace with symbols.
        trace: The trace that it was derived from.

    Raises:
        ValueError: The traces have other structures, or literals that differ.
    """
    if structure_of(general) != structure_of(trace):
        raise ValueError("the general trace is another")
    fixed: list[tuple[int, int]] = []
    texts: list[tuple[int, str]] = []
    numbers = zip(numbers_of(general), numbers_of(trace), strict=True)
    for place, (size, number) in enumerate(numbers):
        if isinstance(size, SymInt):
            texts.append((place, size.text))
        elif size != number:
            raise ValueError("the general trace has another number")
        else:
            fixed.append((place, number))
    first = {text: place for place, text in reversed(texts)}
    declared = general.symbols.declared if general.symbols is not None else {}
    symbols = [(name, first[name], least) for name, (_, least) in declared.items() if name in first]
    return ShapeRelation.of(fixed, texts, symbols)


def varying_results(general: Trace) -> tuple[int, ...]:
    """Return for each result of a trace with symbols a bit mask of its symbolic dimensions."""
    types = general.types()
    return tuple(_symbolic_dims(types[number]) for number in general.results)


def _symbolic_dims(type_: TensorType | None) -> int:
    shape = type_.shape if type_ is not None else ()
    return sum(1 << k for k, size in enumerate(shape[:64]) if isinstance(size, SymInt))
