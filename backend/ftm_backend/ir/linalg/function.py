"""The records of a program on tensors: values, statements, their accesses and their bodies.

A *statement* is one loop nest in the manner of ``linalg.generic``, whose accesses are affine
functions of its loops; a *value* is a dense, row-major tensor. Views are no operations: they are
part of the accesses that read through them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ftm_backend.dtypes import DTYPES
from ftm_backend.ir.linalg.affine import Affine, row_major, volume
from ftm_backend.ir.linalg.strided_layout import Strided

Number = int | float


@dataclass(eq=False, slots=True)
class Value:
    """A dense tensor.

    dtype: builtin token, in which i8 and u8 are one. producer: what computes it; None for inputs
    and constants. splat: the one number that every element has, for tensors that need no memory.
    data: little-endian bytes of a constant. border: what it is with zeros around, for tensors that
    are nowhere in memory as a whole. symbol: the buffer that holds it, once it has one. window:
    where it lies, for a value of one iteration of a `SequentialLoop`.
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
        """What kernels that read it fetch: what is inside its border, or itself."""
        return self if self.border is None else self.border.inside


@dataclass(frozen=True, slots=True, eq=False)
class Border:
    """The tensor ``inside``, in the shape ``sizes``, with zeros around it: ``low`` of them before
    it in each dimension."""

    inside: Value
    sizes: tuple[int, ...]
    low: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a tensor that moves: iteration k's is dense, from element ``start + k * step`` of
    the flat ``value`` on."""

    value: Value
    start: int
    step: int


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """A value seen through a view: element i... is at ``view`` of the flat value."""

    value: Value
    view: Strided

    @staticmethod
    def whole(value: Value) -> Tensor:
        """All of a value, in its own shape."""
        return Tensor(value, Strided.whole(value.shape))

    @property
    def is_whole(self) -> bool:
        """Whether it is the value's elements in their order, each once, in whatever shape."""
        return self.view.is_dense and self.view.numel == volume(self.value.shape)


@dataclass(frozen=True, eq=False, slots=True)
class Operand:
    """One tensor read: element ``index(loops)`` of the flat ``value``."""

    value: Value
    index: Affine


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One value of a body.  ``dtype`` is a builtin token such as ``"f32"``.

    op operands payload ``in`` - the ``Operand`` that is read ``carry`` - number of the result whose
    running value it is ``constant`` - Python number ``scalar`` - symbol of a runtime scalar
    (``"s0"``) ``index`` - ``Affine`` of the statement's loops ``gather`` index (i64) the ``Value``
    that is read at that flat element ``ftm.philox``, ``arith.*``, ``math.*``: as in MLIR; the
    payload is the number of a comparison's predicate
    """

    op: str
    dtype: str
    operands: tuple[Node, ...] = field(default=(), repr=False)
    payload: Any = None
    below: tuple[Node, ...] | None = field(default=None, init=False, repr=False)


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """Where a result goes: element ``index(loops)`` of the flat ``target``."""

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

    index: the flat element of ``value`` that the loops' point writes; indices: the same for each
    dimension. combine: None when no loop is reduced; ``"sum" "prod" "min" "max" "and" "or"`` when
    ``yields`` is the element to be reduced by it; ``"general"`` when ``yields`` computes the new
    running value from ``carry`` nodes. init: where a reduction starts: a constant or scalar
    ``Node`` or an ``Operand``. stores: set when kernels have been formed.
    """

    value: Value
    index: Affine
    indices: tuple[Affine, ...]
    yields: Node
    combine: str | None = None
    init: Node | Operand | None = None
    stores: list[Store] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Statement:
    """One operation: ``loops`` are extents, ``reduced`` marks those that are reductions.

    op: the operation's name. operands: tensors read element by element; gathers: values read at
    computed places. An operation that is not a loop nest (``ftm.scatter``) has no loops and reads
    its ``tensors`` whole; one of linalg's named operations has its operands there too, as the name
    orders them.
    """

    op: str
    loops: tuple[int, ...]
    reduced: tuple[bool, ...]
    operands: list[Operand]
    results: list[FunctionResult]
    gathers: list[Value] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    tensors: tuple[Tensor, ...] = ()

    @property
    def volume(self) -> int:
        """Points of the iteration domain."""
        return volume(self.loops)

    @property
    def is_reduction(self) -> bool:
        """Whether any loop is reduced."""
        return any(self.reduced)

    def moved(self) -> Tensor | None:
        """What its result is a view of, if it only moves elements."""
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
        """Every value that it reads, some of them repeatedly; of one with a border what is
        inside."""
        found = [o.value.in_memory for o in self.operands]
        found += self.gathers
        found += [r.init.value for r in self.results if isinstance(r.init, Operand)]
        return found

    def writes(self) -> list[Value]:
        """The values that it computes."""
        return [r.value for r in self.results]


@dataclass(frozen=True, eq=False, slots=True)
class WindowPart:
    """What an update writes, and over which elements of the flattening of its result."""

    value: Tensor
    place: Strided


@dataclass(eq=False, slots=True)
class Update:
    """``result`` is ``base`` with ``parts`` written over it; the places of several parts have no
    element in common.

    A base that nothing computes and that is no input has no elements: the parts write all.
    """

    result: Value
    base: Tensor
    parts: list[WindowPart]

    def reads(self) -> list[Value]:
        """Every value that it reads."""
        return [self.base.value, *(p.value.value for p in self.parts)]

    def writes(self) -> list[Value]:
        """The value that it makes."""
        return [self.result]


@dataclass(eq=False, slots=True)
class SequentialLoop:
    """``body``, ``trips`` times, one after the other; at least once.

    body: its ``inputs`` are windows, of tensors outside or of ``results``; it may read tensors
    outside as they are. Its results are stored at ``stores``, windows of ``results``. results:
    tensors that the repeat fills; bases: for each what it is before the first iteration, which for
    nothing is a value that nothing computes. Two windows of one result are the same in all
    iterations, or have no element in common in any.
    """

    trips: int
    body: LinalgFunction
    stores: list[Window]
    results: list[Value]
    bases: list[Value]

    def reads(self) -> list[Value]:
        """Every value from outside that it reads."""
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
        """The values that it makes."""
        return self.results


@dataclass(eq=False, slots=True)
class LinalgFunction:
    """A program on tensors.

    input_types, output_types: dtype tokens, which tell u8 from i8. scalars: nodes of the runtime
    numbers, f64 or i64. body: in an order in which everything comes after what it reads.
    """

    inputs: list[Value] = field(default_factory=list)
    input_types: list[str] = field(default_factory=list)
    scalars: list[Node] = field(default_factory=list)
    body: list[Statement | Update | SequentialLoop] = field(default_factory=list)
    results: list[Tensor] = field(default_factory=list)
    output_types: list[str] = field(default_factory=list)


def statements_of(function: LinalgFunction) -> Iterator[Statement]:
    """All statements of a function, those in repeats among them, in order."""
    for item in function.body:
        if isinstance(item, Statement):
            yield item
        elif isinstance(item, SequentialLoop):
            yield from statements_of(item.body)


def walk(nodes: Iterable[Node]) -> list[Node]:
    """Every node below ``nodes``, each once, operands before their users."""
    order: dict[Node, None] = {}
    for node in nodes:
        if node not in order:
            order |= dict.fromkeys(_below(node))
            order[node] = None
    return list(order)


def _below(root: Node) -> tuple[Node, ...]:
    """Every node below one, each once, operands before their users; nodes never change, so it is
    noted on them."""
    if root.below is not None or not root.operands:
        return root.below or ()
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
    order.pop()  # root: it holds no reference to itself
    object.__setattr__(root, "below", tuple(order))
    return root.below or ()


def nodes_of(results: Iterable[FunctionResult]) -> list[Node]:
    """Every node of the bodies of ``results``, operands first."""
    return walk(r.yields for r in results)


def copy_statement(tensor: Tensor) -> Statement:
    """A dense copy of a tensor, or a tensor full of its one number."""
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
    name: str, operands: Sequence[Tensor], result: Value, attributes: dict[str, Any]
) -> Statement:
    """An operation that reads tensors whole: a scatter has no loops, a scan or a sort those of its
    operand."""
    loops = () if name == "ftm.scatter" else operands[0].view.sizes
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


def constant(numbers: Sequence[Number], dtype: str) -> Value:
    """A one-dimensional constant tensor."""
    if dtype == "bf16":
        data = (np.array(numbers, np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    else:
        data = np.array(numbers, np.dtype(DTYPES[dtype].numpy).newbyteorder("<")).tobytes()
    return Value(dtype, (len(numbers),), data=data)
