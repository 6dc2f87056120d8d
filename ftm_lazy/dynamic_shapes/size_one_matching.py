"""Matching of traces with sizes of 1 to dynamic-shape programs of other families.

The recorder writes a view for an operand that is not contiguous. With a dimension of 1 a transposed
tensor is often contiguous: [1 token, heads] transposed has the same memory as before. So the trace
of one token has no view, and other nodes than that of two tokens, although it computes the same.

`without_views` writes each operand's strides in one form, whether the trace has a view or not. Two
traces that are equal in this form are served by one program. The sizes that a trace would have in
the other family are guessed from the nodes that both have; comparing the forms verifies the guess.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from ftm_backend.ir.trace.shape_family import NumberPlaces, numbers_of, with_numbers
from ftm_backend.ir.trace.trace import Node, Operand, TensorType, Trace
from ftm_backend.symbolic import compile_expressions, free_symbols
from ftm_backend.symbolic.fit_size_polynomials import ShapeRelation

__all__ = ["SizeOneRelatives", "TraceToMatch", "values_with_ones", "without_views"]


def without_views(trace: Trace) -> Hashable:
    """Return a trace as a key without views and without strides of dimensions of 1.

    Each use of a view is replaced by its base, sizes, strides and offset.
    """
    read: list[tuple[Hashable, ...]] = []  # what replaces each value
    # for contiguous values the base of the view, and the offset in elements
    begins: dict[int, tuple[int, int]] = {}
    dtypes: list[str] = []  # of the values without views
    nodes: list[Hashable] = [*trace.scalars]

    def define(type_: TensorType | None) -> None:
        name = len(dtypes)
        begins[len(read)] = name, 0
        dtypes.append(type_.dtype if type_ is not None else "none")
        read.append((name, type_.shape if type_ is not None else (), dtypes[-1]))

    for type_ in trace.params:
        # only the number of elements counts, since the uses have the shape
        nodes.append((type_.dtype, type_.numel))
        define(type_)
    for node in trace.nodes:
        base = begins.get(node.operands[0]) if node.op == "ftm.view" else None
        if base is not None:
            name, begin = base[0], base[1] + node.argument("offset")
            sizes, strides = node.argument("sizes"), _strides(node)
            dense = name, sizes, dtypes[name]
            is_contiguous = _is_contiguous(sizes, strides)
            if is_contiguous:
                begins[len(read)] = name, begin
            read.append(dense if is_contiguous and not begin else (*dense, strides, begin))
            continue
        operands = tuple(
            read[operand] if slot is Operand.VALUE else operand
            for slot, operand in zip(node.spec.slots, node.operands, strict=True)
        )
        nodes.append((_spelled(node), operands))
        for result in node.results:
            define(result)
    return tuple(nodes), tuple(read[value] for value in trace.results)


def _strides(node: Node) -> tuple[int, ...]:
    """Return the strides of a view or update; those of dimensions of 1 become 0."""
    extents, strides = node.argument("sizes"), node.argument("strides")
    return tuple(step if extent != 1 else 0 for extent, step in zip(extents, strides, strict=True))


def _is_contiguous(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    step = 1
    for extent, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if stride != (step if extent != 1 else 0):
            return False
        step *= extent
    return True


def _spelled(node: Node) -> str:
    """Return the text of a node without operands, and without strides of dimensions of 1."""
    spec = node.spec
    if node.op in ("ftm.view", "ftm.update"):
        strides = _strides(node)
        args = tuple((name, strides if name == "strides" else v) for name, v in node.args)
        spec = Node.of(node.op, args, node.results).spec
    return "%".join(spec.text_parts)


@dataclass(frozen=True)
class _SharedNodes:
    """The part of a family's structure that is equal in families of the same computation.

    Attributes:
        structure: The nodes without views, and the parameters without their shapes.
        numbers: Places of the numbers in these nodes.
        parameters: Places of each parameter's extents.
    """

    structure: Hashable
    numbers: tuple[int, ...]
    parameters: tuple[range, ...]

    @classmethod
    def of(cls, trace: Trace) -> _SharedNodes:
        """Extract the nodes of a member of the family."""
        places = NumberPlaces(trace)
        read = list(range(len(trace.params)))
        nodes: list[Hashable] = []
        numbers: list[int] = []
        count = len(read)
        for position, node in enumerate(trace.nodes):
            if node.op == "ftm.view":
                read.append(read[node.operands[0]])
                continue
            operands = tuple(
                read[operand] if slot is Operand.VALUE else operand
                for slot, operand in zip(node.spec.slots, node.operands, strict=True)
            )
            nodes.append((node.spec.structure, operands))
            numbers.extend(places.of_node(position))
            read += range(count, count + len(node.results))
            count += len(node.results)
        params = tuple(type_.dtype for type_ in trace.params)
        results = tuple(read[value] for value in trace.results)
        structure = params, tuple(trace.scalars), tuple(nodes), results
        return cls(structure, tuple(numbers), tuple(places.params))


class TraceToMatch:
    """A trace, with what is computed once for all programs that are tried."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.numbers = numbers_of(trace)

    @functools.cached_property
    def shared(self) -> _SharedNodes:
        """The nodes that families of the same computation share."""
        return _SharedNodes.of(self.trace)

    @functools.cached_property
    def without_views(self) -> Hashable:
        """See `without_views`."""
        return without_views(self.trace)


class SizeOneRelatives:
    """Index of trace families by the nodes that they share (`_SharedNodes.structure`)."""

    def __init__(self) -> None:
        # structure to the families with it, in insertion order
        self._families: dict[Hashable, dict[Hashable, _SharedNodes]] = {}
        self._structures: dict[Hashable, Hashable] = {}  # by the family's key

    def add(self, key: Hashable, member: Trace) -> None:
        """Add a family that has programs.

        Args:
            key: The family's key.
            member: A trace of the family.
        """
        shared = _SharedNodes.of(member)
        self._families.setdefault(shared.structure, {})[key] = shared
        self._structures[key] = shared.structure

    def remove(self, key: Hashable) -> None:
        """Remove a family if it is present."""
        structure = self._structures.pop(key, None)
        if structure is not None:
            del self._families[structure][key]
            if not self._families[structure]:
                del self._families[structure]

    def of(self, trace: TraceToMatch) -> list[tuple[Hashable, _SharedNodes]]:
        """Return the families whose programs may serve a trace: key, and nodes shared with it."""
        if not self._families:
            return []
        return list(self._families.get(trace.shared.structure, {}).items())

    def clear(self) -> None:
        """Remove all families."""
        self._families.clear()
        self._structures.clear()


def values_with_ones(
    trace: TraceToMatch,
    member: Trace,
    shared: _SharedNodes,
    relation: ShapeRelation,
    admits: Callable[[Sequence[int]], bool],
) -> tuple[int, ...] | None:
    """Return the symbols' values with which a program of another family serves a trace.

    Args:
        trace: The trace.
        member: A trace of the other family.
        shared: Its nodes that the trace has too.
        relation: How its numbers follow from the program's symbols.
        admits: Whether the program's guards hold for given values.

    Returns:
        The values; None if the trace computes something else or a guard fails.
    """
    try:
        values = _sizes(relation, shared, trace.shared, trace.numbers)
        same = (
            with_numbers(member, relation.numbers(values))
            if values is not None and admits(values)
            else None
        )
    except ZeroDivisionError:  # the other family has no trace with these sizes
        return None
    is_same = same is not None and without_views(same) == trace.without_views
    return values if is_same else None


def _sizes(
    relation: ShapeRelation, theirs: _SharedNodes, ours: _SharedNodes, numbers: Sequence[int]
) -> tuple[int, ...] | None:
    """Solve for the symbols of another family's relation, given a trace's numbers.

    Equations with one unknown symbol are solved in turn; None if some symbol stays unknown.
    """
    spelled = dict(relation.texts) | {place: str(number) for place, number in relation.fixed}
    asked = [
        (spelled[there], numbers[here])
        for there, here in zip(theirs.numbers, ours.numbers, strict=True)
    ]
    for there, here in zip(theirs.parameters, ours.parameters, strict=True):
        count = "*".join(f"({spelled[place]})" for place in there) or "1"
        asked.append((count, math.prod(numbers[place] for place in here)))
    equations = [(text, _free_symbols(text), number) for text, number in dict.fromkeys(asked)]
    known: dict[str, int] = {}
    names = [name for name, _, _ in relation.symbols]
    while len(known) < len(names):
        before = len(known)
        for text, symbols, number in equations:
            missing = symbols - known.keys()
            if len(missing) == 1:
                name = next(iter(missing))
                value = number if text == name else _solution(text, known, name, number)
                if value is not None:
                    known[name] = value
        if len(known) == before:
            return None
    return tuple(known[name] for name in names)


def _solution(text: str, known: dict[str, int], name: str, number: int) -> int | None:
    """Solve a linear expression in one symbol for a number; None if it does not depend on it."""
    names = (*known, name)
    nothing, each = (
        compile_expressions([text], names)(*known.values(), value)[0] for value in (0, 1)
    )
    return (number - nothing) // (each - nothing) if each != nothing else None


_free_symbols = functools.lru_cache(1 << 12)(free_symbols)
