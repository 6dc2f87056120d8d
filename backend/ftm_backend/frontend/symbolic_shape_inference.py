"""A trace of which some sizes are symbols, and the same where all numbers that follow from these
are.

What a parameter's sizes are decides what nearly all other numbers of a trace are: the lowerings
know how results come from operands. Only integers among the arguments were computed by somebody's
Python and have lost where they come from. They are guessed, `view_arguments` from the operand's
memory, others by what is known to be of that size. Two sizes may be the same number by chance, so
each guess is a symbol of its own while the operations say what has to be equal; it is what was
guessed only where they leave that open. A wrong guess cannot do harm: a trace is served by a
program only where the trace's numbers are the program's (`ftm_backend.symbolic.shape_relations`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ftm_backend.frontend.infer_group_offsets import parts_of
from ftm_backend.frontend.infer_view_strides import view_arguments
from ftm_backend.frontend.trace_to_linalg import LoweringError, TraceLowering
from ftm_backend.ir.trace.trace import Node, Ref, TensorType, Trace, argument_refs
from ftm_backend.symbolic import (
    SPELLED,
    ShapeEnv,
    SymInt,
    at_hand,
    declared,
    new_symbol,
    read,
    solved,
    substituted,
    symbols_of,
)

__all__ = ["infer_sizes"]

_COUNTS = frozenset(
    "C HxW N diagonal end index input_size input_sizes length m n normalized_shape num_classes num_samples num_weights offset "
    "output_size pad repeats self_sizes shifts size sizes split_size split_sizes start steps storage_offset strides".split()
)
"""Arguments that count elements or say where they are, of those that the recorder lets vary
(``csrc/graph/shape_family.cpp``)."""
_COPIES = frozenset({"aten::index_copy", "aten::index_add"})
"""From a source that is as large as what they write into, but along one dimension."""
_PRODUCTS = frozenset({"aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm"})
_OWN = re.compile(r"^(  size (s\d+) = .*), own$", re.MULTILINE)
"""What `ftm_lazy.dynamic_shapes.mark_dynamic_dims` says of symbols that other traces have told from
all others: for this stage alone, no trace declares it."""


def infer_sizes(text: str) -> str | None:
    """A trace's text with a size for each number that follows from those it declares; None if none
    of them can vary.

    Equalities that the operations ask for make symbols one, or numbers: the width of a model is a
    number, since its weights have it. A symbol that is declared as its ``own`` is no other one,
    unless they ask for that.

    Raises:
        TraceError: the text is no trace.
        LoweringError: an operation has no lowering for these sizes.
    """
    from ftm_backend.frontend import ops  # noqa: F401  (registers the records)

    own = frozenset(name for _, name in _OWN.findall(text))
    text = _OWN.sub(r"\1", text)
    symbols = declared(text)
    if symbols is None:
        return None
    with symbols:
        inference = _Inference(Trace.parse(text), symbols, own)
        found = str(inference.run())
        inference.decide()
        equalities = solved(symbols)
        declarations = [
            line
            for line in text.splitlines()
            if line.startswith("  size ") and line.split()[1] not in equalities
        ]
        if not declarations:
            return None
        head, _, body = found.partition("\n")
        body = re.sub(SPELLED, lambda size: str(read(substituted(size[0], equalities))), body)
        return "\n".join([head, *declarations, body])


class _Inference(TraceLowering):
    """A lowering that takes its own results' types for those of the trace."""

    def __init__(self, trace: Trace, symbols: ShapeEnv, own: frozenset[str]) -> None:
        super().__init__(trace)
        self._symbols, self._own = symbols, own
        self._declared = frozenset(symbols.values)
        # by the number at hand, sizes by their texts
        self._known: dict[int, dict[str, SymInt]] = {}
        self._guesses: dict[str, SymInt] = {}  # symbols that may be one of these, by name
        self._likeliest: dict[str, Any] = {}  # of some of them what they are, if they may be
        self._places: dict[int, SymInt] = {}  # that were written, by the number at hand
        self._parts = parts_of(trace.params)
        for type_ in trace.params:
            self._learn(type_.shape)
        # which windows are the first to tell of
        self._learn(read(f"{{{name}}}") for name in symbols.values)

    def run(self) -> Trace:  # type: ignore[override]
        """The trace with the sizes that were found."""
        nodes = [self._inferred(node) for node in self.trace.nodes]
        return Trace(self.trace.params, self.trace.scalars, nodes, self.trace.results)

    def decide(self) -> None:
        """Writes down as equalities the guesses that the operations have left open: the first size
        that varies, else the number."""
        decided = solved(self._symbols)
        for name, symbol in self._guesses.items():
            if name in decided:
                continue
            likely = [size for size in (self._likeliest.get(name),) if isinstance(size, SymInt)]
            sizes = (*likely, *self._known.get(symbol.value, {}).values())
            same = (size for size in sizes if self._is_free(substituted(size.text, decided), name))
            size: Any = next(same, symbol if name in self._declared else symbol.value)
            if symbol != size:  # never: the comparison writes the guard
                raise LoweringError(f"{symbol} is not {size}")

    def _is_free(self, text: str, name: str) -> bool:
        """Whether a size comes from declared symbols alone, and from another one than this."""
        names = symbols_of(text)
        return bool(names) and names <= self._declared - {name}

    def _inferred(self, node: Node) -> Node:
        operands = [
            self._type(ref.index)
            for _, value in node.args
            for ref in argument_refs(value)
            if isinstance(ref, Ref)
        ]
        if node.op in ("ftm.view", "ftm.update"):
            node = self._view(node)
        else:
            args = tuple(
                (name, self._count(value) if name in _COUNTS else value)
                for name, value in node.args
            )
            node = Node(node.op, args, node.results)
        _ask(node, operands)
        if node.op == "aten::cat":
            alike = [
                operand.shape
                for operand in operands
                if len(operand.shape) == len(operands[-1].shape)
            ]
            self._parts.learn([shape[node.argument("dim")] for shape in alike])
        guessed = tuple(
            None if type_ is None else self._result(type_, operands, node) for type_ in node.results
        )
        made = self.lowered(Node(node.op, node.args, guessed))
        results: list[TensorType | None] = []
        for value, expected in zip(made, node.results, strict=True):
            self.values.append(value if expected is not None else None)
            if expected is None or value is None:
                results.append(None)
                continue
            found = value.type
            if found.dtype != expected.dtype or tuple(map(at_hand, found.shape)) != tuple(
                map(at_hand, expected.shape)
            ):
                raise LoweringError(
                    f"{node.op}: the trace says the result is {expected}, its lowering gives {found}"
                )
            self._learn(found.shape)
            results.append(found)
        return Node(node.op, node.args, tuple(results))

    def _type(self, index: int) -> TensorType:
        value = self.values[index]
        assert value is not None, "a trace does not use undefined tensors"
        return value.type

    def _view(self, node: Node) -> Node:
        base = self._type(node.argument("base").index)
        given = {name: node.argument(name) for name in ("sizes", "strides", "offset")}
        if node.op == "ftm.update":
            given["sizes"] = self._type(node.argument("value").index).shape
        part = self._parts.seen(given["sizes"], given["strides"], given["offset"])
        if part is not None:
            extents = [*given["sizes"]]
            if type(extents[part.dimension]) is int:
                extents[part.dimension] = self._guess(extents[part.dimension], part.extent)
            given |= {"sizes": tuple(extents), "offset": part.offset}
        offset = given["offset"]
        if node.op == "ftm.update" and isinstance(offset, SymInt):
            self._places.setdefault(offset.value, offset)
        elif offset in self._places:  # what was written there is read there
            given["offset"] = self._guessed(offset, self._places[offset], 0)
        sizes, strides, offset = view_arguments(
            base.shape, given["sizes"], given["strides"], given["offset"], self._guess
        )
        if node.op == "ftm.update":
            sizes = given["sizes"]
        made = {"sizes": sizes, "strides": strides, "offset": offset}
        result = base if node.op == "ftm.update" else TensorType(base.dtype, sizes)
        return Node(
            node.op, tuple((name, made.get(name, value)) for name, value in node.args), (result,)
        )

    def _learn(self, sizes: Iterable[object]) -> None:
        for size in sizes:
            if isinstance(size, SymInt):
                self._known.setdefault(size.value, {}).setdefault(size.text, size)

    def _count(self, value: Any) -> Any:
        """An argument that counts: a size, or what may be one."""
        if isinstance(value, tuple):
            return tuple(map(self._count, value))
        if isinstance(value, SymInt):
            self._learn([value])
            if value.text in self._declared - self._own:
                self._guesses.setdefault(value.text, value)
            return value
        return self._guess(value) if type(value) is int else value

    def _guess(self, number: int, likely: int = 0) -> int:
        """A symbol for a number that may be a size that is known, ``likely`` at first; itself where
        there is none."""
        if (
            type(number) is not int
            or number < 2
            or (number not in self._known and not isinstance(likely, SymInt))
        ):
            return number
        return self._guessed(number, likely, 2)

    def _guessed(self, number: int, likely: object, least: int) -> Any:
        symbol = new_symbol(self._symbols, number, least)
        self._guesses[symbol.text] = symbol
        self._likeliest[symbol.text] = likely
        return symbol

    def _result(self, type_: TensorType, operands: Sequence[TensorType], node: Node) -> TensorType:
        """A result's type as its operands suggest: their extents at the same place, else anywhere,
        else among the arguments."""
        shape: list[Any] = []
        counts = [
            size
            for name, value in node.args
            if name in _COUNTS
            for size in (value if isinstance(value, tuple) else (value,))
        ]
        for back, extent in enumerate(reversed(type_.shape), 1):
            if isinstance(extent, SymInt):
                shape.append(extent)
                continue
            there = [operand.shape[-back] for operand in operands if len(operand.shape) >= back]
            everywhere = [*(size for operand in operands for size in operand.shape), *counts]
            symbolic = [size for size in there if isinstance(size, SymInt)]
            # most of what is one elsewhere is another one
            sizes = (*symbolic, *there, *everywhere) if extent > 1 else symbolic
            alike = (size for size in sizes if at_hand(size) == extent)
            shape.append(next(alike, extent))
        return TensorType(type_.dtype, tuple(reversed(shape)))


def _broadcast(node: Node, operands: Sequence[TensorType]) -> list[tuple[int, int]]:
    """Extents that operands have at the same place, where all are of a result's shape or are
    broadcast to it."""
    result = node.results[0]
    if result is None or len(operands) < 2 or node.op in ("ftm.view", "ftm.update"):
        return []
    extents = tuple(map(at_hand, reversed(result.shape)))
    shapes = [tuple(reversed(operand.shape)) for operand in operands]
    if any(
        len(shape) > len(extents)
        or any(at_hand(a) not in (1, b) for a, b in zip(shape, extents, strict=False))
        for shape in shapes
    ):
        return []
    columns = (
        [shape[d] for shape in shapes if len(shape) > d and at_hand(shape[d]) == extents[d]]
        for d in range(len(extents))
    )
    return [(column[0], other) for column in columns for other in column[1:]]


def _ask(node: Node, operands: Sequence[TensorType]) -> None:
    """Compares what has to be equal, as the recorder's shape functions do and lowerings need not:
    the guards are equalities."""
    if node.op in _PRODUCTS:
        left, right = (operand.shape for operand in operands[-2:])
        pairs = [(left[-1], right[-2]), *zip(left[:-2], right[:-2], strict=True)]
    elif node.op == "aten::cat":
        first, dim = operands[0].shape, node.argument("dim")
        others = [operand.shape for operand in operands[1:] if len(operand.shape) == len(first)]
        pairs = [
            (first[d], shape[d])
            for shape in others
            for d in range(len(first))
            if d != dim % len(first)
        ]
    elif node.op in _COPIES:
        into, source = operands[0].shape, operands[-1].shape
        alike = len(into) == len(source)
        pairs = [
            (into[d], source[d])
            for d in range(len(into))
            if alike and d != node.argument("dim") % len(into)
        ]
    else:
        pairs = _broadcast(node, operands)
    for one, other in pairs:
        # never: the comparison writes the guard
        if at_hand(one) == at_hand(other) and one != other:
            raise LoweringError(f"{node.op}: {one} is not {other}")
