"""Analysis: propagate symbolic sizes from a trace's declarations to all dependent numbers.

The shapes of parameters determine nearly all other numbers of a trace, because the lowerings
compute result shapes from operands. The exceptions are integer arguments: the user's Python
computed them, and their origin is lost. They are guessed, `view_arguments` from the layout of the
operand, others from sizes with the same hint.

Two sizes may have the same hint by chance. Each guess is therefore a new symbol while the
operations are lowered, whose guards determine what must be equal; only if they leave a symbol open
does it become the guessed size. A wrong guess is harmless: a program serves only traces whose
numbers satisfy its relations (`ftm_backend.symbolic.fit_size_polynomials`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ftm_backend.frontend.infer_view_strides import view_arguments
from ftm_backend.frontend.row_groups import groups_of_params
from ftm_backend.frontend.trace_to_linalg import LoweringError, TraceLowering
from ftm_backend.ir.trace.arguments import sizes_of_argument
from ftm_backend.ir.trace.shape_family import numbers_of, with_numbers
from ftm_backend.ir.trace.trace import SIZE_ARGUMENTS, Node, TensorType, Trace
from ftm_backend.symbolic import (
    ShapeEnv,
    SymInt,
    free_symbols,
    new_symbol,
    parse_size,
    size_hint,
    solve_equalities,
    substitute,
)

_COUNT_ARGUMENTS = SIZE_ARGUMENTS - {"k"}
"""Arguments that may be equal to a size for a reason; ``topk``'s k is the user's choice."""
_COPY_OPS = frozenset({"aten::index_copy", "aten::index_add"})
"""Ops whose source has the shape of the destination, except along one dimension."""
_PRODUCT_OPS = frozenset({"aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm"})


def infer_sizes(trace: Trace) -> Trace | None:
    """Replace each number of a trace that follows from the declared symbols by a symbolic size.

    Equalities that operations require merge symbols or make them constant: the width of a model is
    a constant, because its weights have it. A distinct symbol is merged only if an operation
    requires it.

    Args:
        trace: A trace in which some sizes are symbols. Its symbols collect guards.

    Returns:
        The trace with symbolic sizes, or None if no symbol remains.

    Raises:
        LoweringError: An operation has no lowering for these sizes.
    """
    from ftm_backend.frontend import ops  # noqa: F401  (registers the records)

    symbols = trace.symbols
    if symbols is None:
        return None
    declared = dict(symbols.declared)
    with symbols:
        inference = _Inference(trace, symbols)
        found = inference.run()
        inference.decide()
        equalities = solve_equalities(symbols)
    free = ShapeEnv({name: facts for name, facts in declared.items() if name not in equalities})
    if not free.declared:
        return None
    with free:
        sizes = [
            parse_size("{" + substitute(size.text, equalities) + "}")
            if isinstance(size, SymInt)
            else size
            for size in numbers_of(found)
        ]
    return with_numbers(found, sizes, free)


class _Inference(TraceLowering):
    """A lowering that replaces the trace's result types by those it computes."""

    def __init__(self, trace: Trace, symbols: ShapeEnv) -> None:
        super().__init__(trace)
        self._symbols, self._own = symbols, symbols.distinct
        self._declared = frozenset(symbols.values)
        # by hint, the sizes by text
        self._candidates: dict[int, dict[str, SymInt]] = {}
        self._guesses: dict[str, SymInt] = {}  # symbols introduced as guesses, by name
        self._preferred: dict[str, object] = {}  # the preferred value of some guesses
        self._update_offsets: dict[int, SymInt] = {}  # offsets of updates, by hint
        self._groups = groups_of_params(trace.params)
        for type_ in trace.params:
            self._learn(type_.shape)
        # symbols that first occur in windows
        self._learn(parse_size(f"{{{name}}}") for name in symbols.values)

    def run(self) -> Trace:  # type: ignore[override]
        """Return the trace with inferred sizes."""
        nodes = [self._inferred(node) for node in self.trace.nodes]
        return Trace(self.trace.params, self.trace.scalars, nodes, self.trace.results)

    def decide(self) -> None:
        """Resolve the guesses that operations left open, by recording equality guards.

        Each becomes the first symbolic size with its hint, else a constant.
        """
        decided = solve_equalities(self._symbols)
        for name, symbol in self._guesses.items():
            if name in decided:
                continue
            preferred = [size for size in (self._preferred.get(name),) if isinstance(size, SymInt)]
            sizes = (*preferred, *self._candidates.get(symbol.value, {}).values())
            matches = (
                size for size in sizes if self._is_free(substitute(size.text, decided), name)
            )
            size: object = next(matches, symbol if name in self._declared else symbol.value)
            if symbol != size:  # never: the comparison writes the guard
                raise LoweringError(f"{symbol} is not {size}")

    def _is_free(self, text: str, name: str) -> bool:
        """Whether a size depends only on declared symbols, and not on `name`."""
        names = free_symbols(text)
        return bool(names) and names <= self._declared - {name}

    def _inferred(self, node: Node) -> Node:
        operands = [self._type(index) for index in node.values]
        if node.op in ("ftm.view", "ftm.update"):
            node = self._view(node)
        else:
            args = tuple(
                (name, self._count(value) if name in _COUNT_ARGUMENTS else value)
                for name, value in node.args
            )
            node = Node.of(node.op, args, node.results)
        _guard_equal_extents(node, operands)
        if node.op == "aten::cat":
            same_rank = [
                operand.shape
                for operand in operands
                if len(operand.shape) == len(operands[-1].shape)
            ]
            self._groups.learn([shape[node.argument("dim")] for shape in same_rank])
        guessed = tuple(
            None if type_ is None else self._result(type_, operands, node) for type_ in node.results
        )
        lowered = self.lower_node(Node.of(node.op, node.args, guessed))
        results: list[TensorType | None] = []
        for value, expected in zip(lowered, node.results, strict=True):
            self.values.append(value if expected is not None else None)
            if expected is None or value is None:
                results.append(None)
                continue
            found = value.type
            if found.dtype != expected.dtype or tuple(map(size_hint, found.shape)) != tuple(
                map(size_hint, expected.shape)
            ):
                raise LoweringError(
                    f"{node.op}: the result is {expected} in the trace,"
                    f" but the lowering gives {found}"
                )
            self._learn(found.shape)
            results.append(found)
        return Node.of(node.op, node.args, results)

    def _type(self, index: int) -> TensorType:
        value = self.values[index]
        assert value is not None, "a trace does not use undefined tensors"
        return value.type

    def _view(self, node: Node) -> Node:
        base = self._type(node.argument("base").index)
        numbers = {name: node.argument(name) for name in ("sizes", "strides", "offset")}
        if node.op == "ftm.update":
            numbers["sizes"] = self._type(node.argument("value").index).shape
        group = self._groups.find(numbers["sizes"], numbers["strides"], numbers["offset"])
        if group is not None:
            extents = [*numbers["sizes"]]
            if type(extents[group.dimension]) is int:
                extents[group.dimension] = self._guess(extents[group.dimension], group.extent)
            numbers |= {"sizes": tuple(extents), "offset": group.offset}
        offset = numbers["offset"]
        if node.op == "ftm.update" and isinstance(offset, SymInt):
            self._update_offsets.setdefault(offset.value, offset)
        elif offset in self._update_offsets:  # an offset that an update wrote at
            numbers["offset"] = self._guessed(offset, self._update_offsets[offset], 0)
        sizes, strides, offset = view_arguments(
            base.shape, numbers["sizes"], numbers["strides"], numbers["offset"], self._guess
        )
        if node.op == "ftm.update":
            sizes = numbers["sizes"]
        inferred = {"sizes": sizes, "strides": strides, "offset": offset}
        result = base if node.op == "ftm.update" else TensorType(base.dtype, sizes)
        return Node.of(
            node.op,
            tuple((name, inferred.get(name, value)) for name, value in node.args),
            (result,),
        )

    def _learn(self, sizes: Iterable[object]) -> None:
        """Register symbolic sizes as candidates for guesses."""
        for size in sizes:
            if isinstance(size, SymInt):
                self._candidates.setdefault(size.value, {}).setdefault(size.text, size)

    def _count(self, value: object) -> object:
        """Convert an argument that counts elements to a size or a guess."""
        if isinstance(value, tuple):
            return tuple(map(self._count, value))
        if isinstance(value, SymInt):
            self._learn([value])
            if value.text in self._declared - self._own:
                self._guesses.setdefault(value.text, value)
            return value
        return self._guess(value) if type(value) is int else value

    def _guess(self, number: int, preferred_size: int = 0) -> int:
        """Return a new symbol for a number that may be a known size, else the number.

        Args:
            number: The number.
            preferred_size: The preferred size for the symbol.
        """
        if (
            type(number) is not int
            or number < 2
            or (number not in self._candidates and not isinstance(preferred_size, SymInt))
        ):
            return number
        return self._guessed(number, preferred_size, 2)

    def _guessed(self, number: int, preferred_size: object, least: int) -> Any:
        symbol = new_symbol(self._symbols, number, least)
        self._guesses[symbol.text] = symbol
        self._preferred[symbol.text] = preferred_size
        return symbol

    def _result(self, type_: TensorType, operands: Sequence[TensorType], node: Node) -> TensorType:
        """Guess a result's shape from its operands.

        Each extent is taken from operands at the same position, else from any dimension of an
        operand, else from the arguments.
        """
        shape: list[int] = []
        counts = [
            size
            for name, value in node.args
            if name in _COUNT_ARGUMENTS
            for size in sizes_of_argument(name, value)
        ]
        for back, extent in enumerate(reversed(type_.shape), 1):
            if isinstance(extent, SymInt):
                shape.append(extent)
                continue
            same_position = [
                operand.shape[-back] for operand in operands if len(operand.shape) >= back
            ]
            any_position = [*(size for operand in operands for size in operand.shape), *counts]
            symbolic = [size for size in same_position if isinstance(size, SymInt)]
            # an extent of 1 at another position is usually unrelated
            sizes = (*symbolic, *same_position, *any_position) if extent > 1 else symbolic
            matches = (size for size in sizes if size_hint(size) == extent)
            shape.append(next(matches, extent))
        return TensorType(type_.dtype, tuple(reversed(shape)))


def _broadcast(node: Node, operands: Sequence[TensorType]) -> list[tuple[int, int]]:
    """Return pairs of extents at the same position that broadcasting requires to be equal.

    Empty unless all operands have the result's shape or broadcast to it.
    """
    result = node.results[0]
    if result is None or len(operands) < 2 or node.op in ("ftm.view", "ftm.update"):
        return []
    extents = tuple(map(size_hint, reversed(result.shape)))
    shapes = [tuple(reversed(operand.shape)) for operand in operands]
    if any(
        len(shape) > len(extents)
        or any(size_hint(a) not in (1, b) for a, b in zip(shape, extents, strict=False))
        for shape in shapes
    ):
        return []
    columns = (
        [shape[d] for shape in shapes if len(shape) > d and size_hint(shape[d]) == extents[d]]
        for d in range(len(extents))
    )
    return [(column[0], other) for column in columns for other in column[1:]]


def _guard_equal_extents(node: Node, operands: Sequence[TensorType]) -> None:
    """Compare extents that must be equal, to record equality guards.

    The recorder's shape functions check them, but lowerings need not.
    """
    if node.op in _PRODUCT_OPS:
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
    elif node.op in _COPY_OPS:
        into, source = operands[0].shape, operands[-1].shape
        same_rank = len(into) == len(source)
        pairs = [
            (into[d], source[d])
            for d in range(len(into))
            if same_rank and d != node.argument("dim") % len(into)
        ]
    else:
        pairs = _broadcast(node, operands)
    for one, other in pairs:
        # never: the comparison writes the guard
        if size_hint(one) == size_hint(other) and one != other:
            raise LoweringError(f"{node.op}: {one} is not {other}")
