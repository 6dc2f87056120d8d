"""Records of linalg IR: values, statements, their accesses and their bodies.

A *statement* is one loop nest in the manner of ``linalg.generic`` whose accesses are affine
functions of its loops. A *value* is a dense, row-major tensor. A view is no operation: it is part
of each access that reads through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ftm_backend.dtypes import DTYPES
from ftm_backend.ir.linalg.affine import Affine, row_major, volume
from ftm_backend.ir.linalg.origin import Origin
from ftm_backend.ir.linalg.strided_view import Strided

Number = int | float

COLLECTIVE_START = "ftm.collective_start"
"""Starts a collective, communication with other processes. It runs until its wait."""

COLLECTIVE_WAIT = "ftm.collective_wait"
"""Waits for a collective: its result is that of the collective, complete."""

COLLECTIVES = (COLLECTIVE_START, COLLECTIVE_WAIT)

IN_PLACE = ("ftm.scatter", COLLECTIVE_WAIT)
"""Operations that are no loop nests, and write over their first tensor."""


@dataclass(eq=False, slots=True)
class Value:
    """A dense, row-major tensor.

    Attributes:
        dtype: Builtin token such as ``f32``. Integers carry no sign: i8 and u8 are both ``i8``.
        shape: Extents; an extent may be a `SymInt`.
        producer: The operation that computes the value; None for inputs and constants.
        splat: The one number that every element has. Such a value needs no memory.
        data: Little-endian bytes of a constant.
        symbol: Name of the buffer that holds the value, once one is assigned.
        window: For an input of the body of a `SequentialLoop`: the part of a tensor that one
            iteration reads.
        border: For a zero-padded tensor that is never stored: the tensor inside and its padding.
    """

    dtype: str
    shape: tuple[int, ...]
    producer: Statement | Update | SequentialLoop | None = field(default=None, repr=False)
    splat: Node | None = None
    data: bytes | None = field(default=None, repr=False)
    symbol: str | None = None
    window: Window | None = None
    border: Border | None = None

    @property
    def in_memory(self) -> Value:
        """The value that kernels load: the inside of a border, or the value itself."""
        return self if self.border is None else self.border.inside


@dataclass(frozen=True, slots=True, eq=False)
class Border:
    """Zero padding: ``inside``, seen in the shape ``sizes``, with ``low[k]`` zeros before it.

    The number of zeros after it follows from the shape of the padded value.
    """

    inside: Value
    sizes: tuple[int, ...]
    low: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a tensor that one iteration of a loop accesses.

    Iteration k accesses a dense run of the flat ``value`` from element ``start + k * step``.
    """

    value: Value
    start: int
    step: int


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """A value seen through a strided view of its flat elements."""

    value: Value
    view: Strided

    @staticmethod
    def whole(value: Value) -> Tensor:
        """Return all of a value, in its own shape."""
        return Tensor(value, Strided.whole(value.shape))

    @property
    def is_whole(self) -> bool:
        """Whether it has all elements of the value in their order, in any shape."""
        return self.view.is_dense and self.view.numel == volume(self.value.shape)


@dataclass(frozen=True, eq=False, slots=True)
class Operand:
    """One tensor read: element ``index(loops)`` of the flat ``value``."""

    value: Value
    index: Affine


@dataclass(eq=False, slots=True)
class Node:
    """One scalar operation of a body. Immutable: bodies share nodes.

    ``payload`` and ``operands`` depend on ``op``:

    - ``in``: the payload is the `Operand` that is read.
    - ``carry``: number of the result whose running value it is.
    - ``constant``: a Python number.
    - ``scalar``: symbol of a runtime scalar, such as ``"s0"``.
    - ``index``: an `Affine` of the statement's loops.
    - ``gather``: the payload is the `Value` that is read; the one operand (i64) is the flat index.
    - ``arith.*``, ``math.*``, ``ftm.philox``: as in MLIR; the payload of a comparison is MLIR's
      number of its predicate.

    Attributes:
        dtype: Builtin token such as ``"f32"``.
        ancestors: Cache of `walk`: the nodes that it is computed from. Never set it elsewhere.
    """

    op: str
    dtype: str
    operands: tuple[Node, ...] = field(default=(), repr=False)
    payload: Any = None
    ancestors: tuple[Node, ...] | None = field(default=None, init=False, repr=False)


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """Where a result is stored: element ``index(loops)`` of the flat ``target``."""

    target: Value
    index: Affine

    @property
    def symbol(self) -> str:
        """The target's buffer."""
        assert self.target.symbol is not None, "a result is stored to a value without a buffer"
        return self.target.symbol

    @property
    def elements(self) -> int:
        """Elements of the target."""
        return volume(self.target.shape)


@dataclass(eq=False, slots=True)
class FunctionResult:
    """One tensor that a statement computes.

    Attributes:
        value: The tensor.
        index: Flat element of ``value`` that a point of the loops writes.
        indices: The same, per dimension of ``value``.
        yields: The scalar that the body computes.
        combine: None if no loop is reduced. ``"sum" "prod" "min" "max" "and" "or"`` if ``yields``
            is the element to be reduced. ``"general"`` if ``yields`` computes the new running
            value from ``carry`` nodes.
        init: Where a reduction starts: a constant or scalar `Node`, or an `Operand`.
        stores: Filled in when kernels are formed.
    """

    value: Value
    index: Affine
    indices: tuple[Affine, ...]
    yields: Node
    combine: str | None = None
    init: Node | Operand | None = None
    stores: list[Store] = field(default_factory=list)

    @property
    def starts_at_zero(self) -> bool:
        """Whether a reduction starts at the constant 0."""
        return isinstance(self.init, Node) and self.init.op == "constant" and not self.init.payload

    def over(
        self, loops: Sequence[int], yields: Node, combine: str | None = None
    ) -> FunctionResult:
        """The result as it is over some of the loops, computed by another body."""
        return FunctionResult(
            self.value,
            self.index.over(loops),
            tuple(index.over(loops) for index in self.indices),
            yields,
            combine,
            None if combine is None else self.init,
            [Store(store.target, store.index.over(loops)) for store in self.stores],
        )


@dataclass(eq=False, slots=True)
class Statement:
    """One operation: a loop nest of extents ``loops``.

    Two kinds of operations are no plain loop nests. ``ftm.scatter`` and the `COLLECTIVES` have no
    loops and read their ``tensors`` as a whole. A named operation of linalg (``linalg.matmul``) has
    its operands both as ``operands`` and as ``tensors``, the latter in the order of the operation's
    signature.

    Attributes:
        op: Name of the operation.
        loops: Extents.
        reduced: Which of the loops are reductions.
        operands: Tensors that are read at affine indices.
        results: Tensors that are computed.
        gathers: Values that the body reads at computed indices.
        attributes: Attributes of the operation, by name.
        tensors: See above.
        origins: The recorded operations that it computes, its own first. For names only: no pass,
            key or hash may depend on it.
    """

    op: str
    loops: tuple[int, ...]
    reduced: tuple[bool, ...]
    operands: list[Operand]
    results: list[FunctionResult]
    gathers: list[Value] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    tensors: tuple[Tensor, ...] = ()
    origins: tuple[Origin, ...] = ()

    @property
    def volume(self) -> int:
        """Points of the iteration domain."""
        return volume(self.loops)

    @property
    def is_reduction(self) -> bool:
        """Whether any loop is reduced."""
        return any(self.reduced)

    def copied_view(self) -> Tensor | None:
        """Return the view that the result is a copy of, or None if the statement computes."""
        if len(self.results) != 1 or self.is_reduction:
            return None
        (result,) = self.results
        if result.yields.op != "in":
            return None
        loops = [
            i.coeffs.index(1)
            if not i.const and sum(map(abs, i.coeffs)) == 1 and 1 in i.coeffs
            else -1
            for i in result.indices
        ]
        if sorted(loops) != list(range(len(self.loops))):
            return None
        operand: Operand = result.yields.payload
        strides = tuple(
            0 if n == 1 else operand.index.coeffs[k]
            for k, n in zip(loops, result.value.shape, strict=True)
        )
        return Tensor(operand.value, Strided(result.value.shape, strides, operand.index.const))

    def reads(self) -> list[Value]:
        """Return every value that is read, possibly repeated; for a padded one its inside."""
        found = [o.value.in_memory for o in self.operands]
        found += self.gathers
        found += [r.init.value for r in self.results if isinstance(r.init, Operand)]
        return found

    def writes(self) -> list[Value]:
        """Return the values that the statement computes."""
        return [r.value for r in self.results]

    def result_of(self, value: Value) -> FunctionResult:
        """Return the result that computes a value."""
        return next(r for r in self.results if r.value is value)


@dataclass(frozen=True, eq=False, slots=True)
class WindowPart:
    """The tensor ``value`` that an update writes over the elements ``place`` of its result."""

    value: Tensor
    place: Strided


@dataclass(eq=False, slots=True)
class Update:
    """``result`` is a copy of ``base`` with ``parts`` written over it.

    The parts write disjoint elements. If nothing computes ``base`` and it is no input, its elements
    are undefined and the parts write all of the result.
    """

    result: Value
    base: Tensor
    parts: list[WindowPart]

    def reads(self) -> list[Value]:
        """Return every value that is read."""
        return [self.base.value, *(p.value.value for p in self.parts)]

    def writes(self) -> list[Value]:
        """Return the value that is computed."""
        return [self.result]


@dataclass(eq=False, slots=True)
class SequentialLoop:
    """A loop that runs ``body`` ``trips`` times, one iteration after the other.

    Two windows of one result are either the same in all iterations or disjoint in all of them.

    Attributes:
        trips: Number of iterations, at least 1.
        body: Its ``inputs`` are windows of tensors from outside or of ``results``; it may also read
            whole tensors from outside.
        stores: For each result of the body, the window of one of ``results`` that it is stored to.
        results: Tensors that the loop fills.
        bases: Initial content of each result. A value without a producer means undefined content.
    """

    trips: int
    body: LinalgFunction
    stores: list[Window]
    results: list[Value]
    bases: list[Value]

    def reads(self) -> list[Value]:
        """Return every value from outside that is read."""
        inside = {
            *self.results,
            *self.body.inputs,
            *(v for item in self.body.body for v in item.writes()),
        }
        found = [v.window.value for v in self.body.inputs if v.window is not None]
        found += [v for item in self.body.body for v in item.reads()]
        found += [t.value for t in self.body.results]
        return [*(v for v in found if v not in inside), *self.bases]

    def writes(self) -> list[Value]:
        """Return the values that the loop fills."""
        return self.results


@dataclass(eq=False, slots=True)
class LinalgFunction:
    """A program on tensors.

    Attributes:
        inputs: Tensor arguments.
        input_types: Their dtype tokens; unlike `Value.dtype` they distinguish u8 from i8.
        scalars: Nodes of the runtime scalars, f64 or i64.
        body: Operations, each after those whose values it reads.
        results: Returned tensors.
        output_types: Their dtype tokens.
    """

    inputs: list[Value] = field(default_factory=list)
    input_types: list[str] = field(default_factory=list)
    scalars: list[Node] = field(default_factory=list)
    body: list[Statement | Update | SequentialLoop] = field(default_factory=list)
    results: list[Tensor] = field(default_factory=list)
    output_types: list[str] = field(default_factory=list)


def statements_of(function: LinalgFunction) -> Iterator[Statement]:
    """Yield all statements of a function in order, including those inside of loops."""
    for item in function.body:
        if isinstance(item, Statement):
            yield item
        elif isinstance(item, SequentialLoop):
            yield from statements_of(item.body)


def united_origins(*statements: Statement) -> tuple[Origin, ...]:
    """Return the origins of a statement that is made of others, those of the first one first."""
    return tuple(dict.fromkeys(origin for each in statements for origin in each.origins))


def walk(nodes: Iterable[Node]) -> list[Node]:
    """Return ``nodes`` and every node that they are computed from, operands before users."""
    order: dict[Node, None] = {}
    for node in nodes:
        if node not in order:
            order |= dict.fromkeys(_ancestors(node))
            order[node] = None
    return list(order)


def _ancestors(root: Node) -> tuple[Node, ...]:
    """Return every node that ``root`` is computed from, operands before users."""
    if root.ancestors is not None or not root.operands:
        return root.ancestors or ()
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
            continue
        if node in seen:
            continue
        seen.add(node)
        if not node.operands:
            order.append(node)
            continue
        stack.append((node, True))
        stack.extend((n, False) for n in reversed(node.operands) if n not in seen)
    order.pop()  # root itself: a reference to it would be a cycle
    root.ancestors = tuple(order)
    return root.ancestors


def nodes_of(results: Iterable[FunctionResult]) -> list[Node]:
    """Return every node of the bodies of ``results``, operands before users."""
    return walk(r.yields for r in results)


def copy_statement(tensor: Tensor) -> Statement:
    """Make a dense copy of a tensor; ``linalg.fill`` if all of its elements are one number."""
    shape = tensor.view.sizes
    value = Value(tensor.value.dtype, shape)
    operand = Operand(tensor.value, Affine(tensor.view.offset, tensor.view.strides))
    splat = tensor.value.splat
    indices = tuple(Affine.loop(k, len(shape)) for k in range(len(shape)))
    node = Node("in", value.dtype, payload=operand) if splat is None else splat
    result = FunctionResult(value, Affine(0, row_major(shape)), indices, node)
    value.producer = Statement(
        "linalg.copy" if splat is None else "linalg.fill",
        shape,
        (False,) * len(shape),
        [operand] if splat is None else [],
        [result],
    )
    return value.producer


def whole_statement(
    name: str, operands: Sequence[Tensor], result: Value, attributes: dict[str, object]
) -> Statement:
    """Make an operation that reads tensors as a whole.

    Args:
        name: ``ftm.scatter`` or one of `COLLECTIVES` (no loops), or ``ftm.scan``, ``ftm.sort``,
            ``ftm.conv_transpose`` (loops over the first operand).
        operands: The tensors.
        result: The value that the operation computes; its ``producer`` is set.
        attributes: The operation's attributes.
    """
    loops = () if name in (*IN_PLACE, *COLLECTIVES) else operands[0].view.sizes
    rank = len(loops)
    made = FunctionResult(
        result,
        Affine(0, row_major(result.shape) if rank else ()),
        tuple(Affine.loop(k, rank) for k in range(rank)),
        Node("constant", result.dtype, payload=0),
    )
    reads = [Operand(t.value, Affine(t.view.offset, t.view.strides)) for t in operands]
    statement = Statement(
        name, loops, (False,) * rank, reads, [made], attributes=attributes, tensors=tuple(operands)
    )
    result.producer = statement
    return statement


def collective(
    name: str, tensor: Tensor, shape: tuple[int, ...], call: Node, attributes: dict[str, object]
) -> tuple[Statement, Value]:
    """Make the start of a collective, or the wait for one, which works in place.

    Args:
        name: One of `COLLECTIVES`.
        tensor: What this process contributes; for a wait, the result of the start.
        shape: The result's shape.
        call: The runtime scalar with the number of the collective.
        attributes: The operation's attributes.

    Returns:
        The statement and its result.
    """
    result = Value(tensor.value.dtype, shape)
    statement = whole_statement(name, [tensor], result, attributes)
    statement.results[0].yields = call
    return statement, result


def has_effect(item: Statement | Update | SequentialLoop) -> bool:
    """Whether an operation does more than compute its results, so that it must not be removed."""
    return isinstance(item, Statement) and item.op in COLLECTIVES


def constant(numbers: Sequence[Number], dtype: str) -> Value:
    """Make a one-dimensional constant tensor."""
    if dtype == "bf16":
        data = (np.array(numbers, np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    else:
        data = np.array(numbers, np.dtype(DTYPES[dtype].numpy).newbyteorder("<")).tobytes()
    return Value(dtype, (len(numbers),), data=data)
