"""Bodies of linalg operations as DAGs of ``Node``, and back into the region of an ``ftm.map``.

Index arithmetic is folded while reading: ``linalg.index`` and sums of constant multiples of it become one
``index`` node with an ``Affine``, so that address-like values (positions of random numbers, causal masks)
take part in the choice of tiles exactly as an operand's address does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ftm_backend.midend.affine import Affine
from ftm_backend.midend.kernel import Node, Result, Value, walk
from ftm_backend.mlir import arith, ir

REDUCTIONS = {
    "arith.addf": "sum", "arith.addi": "sum", "arith.mulf": "prod", "arith.muli": "prod",
    "arith.maximumf": "max", "arith.maxsi": "max", "arith.minimumf": "min", "arith.minsi": "min",
    "arith.andi": "and", "arith.ori": "or",
}
"""Operations that reduce, with the name of the reduction in ``ftm.map``."""

_INDEX_BITS = 32
"""No dimension of a tensor is longer than these bits say."""

_LOGICAL = ("arith.andi", "arith.ori")
_RESIZING = ("arith.index_cast", "arith.index_castui")


def constant_node(attribute: Any, dtype: str) -> Node:
    """A constant from an integer or float attribute (or a Python number)."""
    number = attribute if isinstance(attribute, (bool, int, float)) else attribute.value
    if dtype == "i1":
        number = int(bool(number))
    return Node("constant", dtype, payload=number)


def constant(op: ir.Operation) -> Node:
    """The node of a scalar ``arith.constant``."""
    return constant_node(op.attributes["value"], _token(op.results[0].type))


_TOKENS: dict[str, str] = {"index": "i64"}


def _token(kind: ir.Type) -> str:
    text = str(kind)
    return _TOKENS.get(text, text)


def read_operation(
    op: ir.Operation, known: Mapping[ir.Value, Node], index: Callable[[ir.Operation], Node]
) -> Node:
    """The node of one element operation whose operands are ``known``.

    Raises:
        ValueError: the operation is not one that a map body can hold.
    """
    name = op.operation.name
    if name == "arith.constant":
        return constant(op)
    if name == "linalg.index":
        return index(op)
    operands = tuple(known[o] for o in op.operands)
    result = op.results[0].type
    if name in _RESIZING:
        return _resize(operands[0], str(op.operands[0].type), str(result))
    if not name.startswith(("arith.", "math.")) and name != "ftm.philox":
        raise ValueError(f"{name} in the body of a linalg operation: only arith, math, linalg.index, tensor.extract "
                         "and ftm.philox can be lowered")
    folded = _fold_affine(name, operands)
    if folded is not None:
        return folded
    attributes = {a: op.attributes[a] for a in op.attributes}
    return Node(name, _token(result), operands, attributes)


def _resize(node: Node, source: str, target: str) -> Node:
    """``index_cast``: nothing between index and i64, else a change of width."""
    from_, to = _token_of(source), _token_of(target)
    if from_ == to:
        return node
    name = "arith.extsi" if int(to[1:]) > int(from_[1:]) else "arith.trunci"
    return Node(name, to, (node,), {})


def _token_of(text: str) -> str:
    return _TOKENS.get(text, text)


def _fold_affine(name: str, operands: tuple[Node, ...]) -> Node | None:
    """Sums, differences and constant multiples of index nodes as one index node."""
    if name not in ("arith.addi", "arith.subi", "arith.muli") or operands[0].dtype != "i64":
        return None
    left, right = operands
    if "index" not in (left.op, right.op):
        return None
    if not {left.op, right.op} <= {"index", "constant"}:
        return None
    if name == "arith.muli":
        if left.op == "index" and right.op == "index":
            return None
        index, factor = (left, right) if left.op == "index" else (right, left)
        return Node("index", "i64", payload=index.payload.scaled(factor.payload))
    rank = len((left if left.op == "index" else right).payload.coeffs)
    a, b = (n.payload if n.op == "index" else Affine.constant(n.payload, rank) for n in operands)
    return Node("index", "i64", payload=a + (b if name == "arith.addi" else b.scaled(-1)))


class BodyReader:
    """Reads the block of one structured operation.

    Args:
        scalars: nodes of the scalars defined outside.
        tensors: what the tensors outside are, for ``tensor.extract``.
        rank: number of loops.
        gathers: receives the values that are read at computed places.
    """

    def __init__(self, scalars: Mapping[ir.Value, Node], tensors: Mapping[ir.Value, Any], rank: int, gathers: list[Value]):
        self._scalars, self._tensors, self._rank, self._gathers = scalars, tensors, rank, gathers

    def read(self, block: ir.Block, arguments: Sequence[Node]) -> list[Node]:
        """The yielded nodes, in terms of ``arguments`` for the block's arguments."""
        known = _Scope(self._scalars)
        for ssa, node in zip(block.arguments, arguments, strict=True):
            known[ssa] = node
        for op in block.operations:
            name = op.operation.name
            if name == "linalg.yield":
                return [known[o] for o in op.operands]
            if name == "tensor.extract":
                known[op.results[0]] = self._extract(op, known)
            else:
                known[op.results[0]] = read_operation(op, known, self._index)
        raise ValueError("a linalg body without linalg.yield")

    def _index(self, op: ir.Operation) -> Node:
        dim = op.attributes["dim"].value
        return Node("index", "i64", payload=Affine(0, tuple(int(k == dim) for k in range(self._rank))))

    def _extract(self, op: ir.Operation, known: Mapping[ir.Value, Node]) -> Node:
        tensor = self._tensors[op.operands[0]]
        if tensor.splat is not None:
            return tensor.splat
        flat = Node("constant", "i64", payload=tensor.view.offset)
        for k, stride in enumerate(tensor.view.strides):
            place, extent = known[op.operands[k + 1]], tensor.view.shape[k]
            if place.op in ("index", "constant"):
                flat = _add(flat, _scale(place, stride)) if extent != 1 else flat
            elif extent == 1:
                flat = _add(flat, place)  # 0, unless it is a place outside, which has to fault
            else:
                flat = _add(flat, _scale(place, stride) if stride else _outside(place))
        self._gathers.append(tensor.value)
        return Node("gather", tensor.value.dtype, (flat,), tensor.value)


def _outside(place: Node) -> Node:
    """0 for a place inside a dimension without extent in memory; else so large that it faults."""
    bits = Node("constant", "i64", payload=_INDEX_BITS)
    return Node("arith.shli", "i64", (Node("arith.shrsi", "i64", (place, bits), {}), bits), {})


def _scale(node: Node, factor: int) -> Node:
    if factor == 1:
        return node
    by = Node("constant", "i64", payload=factor)
    if node.op == "constant":
        return Node("constant", "i64", payload=node.payload * factor)
    return _fold_affine("arith.muli", (node, by)) or Node("arith.muli", "i64", (node, by), {})


def _add(left: Node, right: Node) -> Node:
    if left.op == "constant" and left.payload == 0:
        return right
    if left.op == right.op == "constant":
        return Node("constant", "i64", payload=left.payload + right.payload)
    return _fold_affine("arith.addi", (left, right)) or Node("arith.addi", "i64", (left, right), {})


class _Scope(dict):
    """Body values over the scalars outside."""

    def __init__(self, outer: Mapping[ir.Value, Node]):
        super().__init__()
        self._outer = outer

    def __missing__(self, ssa: ir.Value) -> Node:
        return self._outer[ssa]


def nodes_of(results: Iterable[Result]) -> list[Node]:
    """Every node of the bodies of ``results``, operands first."""
    return walk(r.yields for r in results)


def recognise_reduction(result: Result, number: int, count: int) -> None:
    """Sets ``combine`` of a reduction's result, and ``yields`` to the element that is combined."""
    top = result.yields
    name = REDUCTIONS.get(top.op)
    if name in ("and", "or") and result.value.dtype != "i1":
        name = None
    if name is not None and count >= 1:
        carry = [k for k, n in enumerate(top.operands) if n.op == "carry" and n.payload == number]
        if len(carry) == 1:
            element = top.operands[1 - carry[0]]
            if all(n.op != "carry" for n in walk([element])):
                result.combine, result.yields = name, element
                return
    result.combine = "general"


# --- emission -----------------------------------------------------------------------------------------


def element_type(dtype: str) -> ir.Type:
    """The MLIR type of a dtype token."""
    return _ELEMENT_TYPES[dtype]()


_ELEMENT_TYPES: dict[str, Callable[[], ir.Type]] = {
    "f64": lambda: ir.F64Type.get(), "f32": lambda: ir.F32Type.get(),
    "f16": lambda: ir.F16Type.get(), "bf16": lambda: ir.BF16Type.get(),
    "i64": lambda: ir.IntegerType.get_signless(64), "i32": lambda: ir.IntegerType.get_signless(32),
    "i16": lambda: ir.IntegerType.get_signless(16), "i8": lambda: ir.IntegerType.get_signless(8),
    "i1": lambda: ir.IntegerType.get_signless(1),
}


def constant_value(number: int | float, dtype: str) -> ir.Value:
    """An ``arith.constant`` at the insertion point."""
    kind = element_type(dtype)
    attribute = ir.FloatAttr.get(kind, float(number)) if "f" in dtype else ir.IntegerAttr.get(kind, int(number))
    return arith.ConstantOp(kind, attribute).result


def emit(
    nodes: Sequence[Node],
    leaves: Callable[[Node], ir.Value | None],
    gather: Callable[[Node, ir.Value], ir.Value] | None = None,
) -> list[ir.Value]:
    """Builds ``nodes`` at the insertion point.

    Args:
        nodes: the values wanted.
        leaves: the value of a node that is available already (``in``, ``carry``, ``scalar`` and ``index``
            nodes must be), else None.
        gather: builds a ``gather`` node, given the value of its index.

    Returns:
        One value for each of ``nodes``.
    """
    built: dict[int, ir.Value] = {}
    for node in walk_until(nodes, leaves, built):
        if node.op == "constant":
            built[id(node)] = constant_value(node.payload, node.dtype)
        elif node.op == "gather" and gather is not None:
            built[id(node)] = gather(node, built[id(node.operands[0])])
        elif node.op.startswith(("arith.", "math.", "ftm.")):
            built[id(node)] = ir.Operation.create(
                node.op, results=[element_type(node.dtype)], operands=[built[id(n)] for n in node.operands],
                attributes=node.payload).results[0]
        else:
            raise ValueError(f"body node {node.op} has no value here")
    return [built[id(n)] for n in nodes]


def walk_until(
    nodes: Sequence[Node], leaves: Callable[[Node], ir.Value | None], built: dict[int, ir.Value]
) -> Iterable[Node]:
    """Nodes that have to be built, operands first; those that ``leaves`` gives are put into ``built``."""
    stack = [(n, False) for n in reversed(nodes)]
    while stack:
        node, ready = stack.pop()
        if id(node) in built:
            continue
        if ready:
            yield node
            continue
        value = leaves(node)
        if value is not None:
            built[id(node)] = value
            continue
        stack.append((node, True))
        stack.extend((n, False) for n in reversed(node.operands))


_COMBINE = {
    "sum": ("arith.addf", "arith.addi"), "prod": ("arith.mulf", "arith.muli"),
    "max": ("arith.maximumf", "arith.maxsi"), "min": ("arith.minimumf", "arith.minsi"),
    "and": ("arith.andi", "arith.andi"), "or": ("arith.ori", "arith.ori"),
}


def combined(word: str, left: Node, right: Node) -> Node:
    """``left`` and ``right`` reduced by ``sum prod max min and or``."""
    name = _COMBINE[word]["f" not in left.dtype]
    # The element type is that of both operands; no attribute (fast-math) is given.
    return Node(name, left.dtype, (left, right), {})


def identity(word: str, dtype: str) -> int | float:
    """What a reduction of nothing gives."""
    if word in ("sum", "or"):
        return 0
    if word in ("prod", "and"):
        return 1
    if "f" in dtype:
        return float("-inf") if word == "max" else float("inf")
    bits = int(dtype[1:])
    if bits == 1:
        return int(word == "min")
    return -(1 << (bits - 1)) if word == "max" else (1 << (bits - 1)) - 1
