"""Making nodes of bodies, and what is known of reductions.

Index arithmetic is folded while it is made: sums and constant multiples of loop counters become one
``index`` node with an ``Affine``, so that address-like values (positions of random numbers, causal
masks) take part in the choice of tiles exactly as an operand's address does.
"""

from __future__ import annotations

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import FunctionResult, Node, walk
from ftm_backend.symbolic import seen_equal

__all__ = ["combined", "constant", "gather_place", "identity", "operation", "recognise_reduction"]

_REDUCTIONS = {
    "arith.addf": "sum",
    "arith.addi": "sum",
    "arith.mulf": "prod",
    "arith.muli": "prod",
    "arith.maximumf": "max",
    "arith.maxsi": "max",
    "arith.minimumf": "min",
    "arith.minsi": "min",
    "arith.andi": "and",
    "arith.ori": "or",
}
"""Operations that reduce, with the name of the reduction in maps."""

_COMBINE = {
    "sum": ("arith.addf", "arith.addi"),
    "prod": ("arith.mulf", "arith.muli"),
    "max": ("arith.maximumf", "arith.maxsi"),
    "min": ("arith.minimumf", "arith.minsi"),
    "and": ("arith.andi", "arith.andi"),
    "or": ("arith.ori", "arith.ori"),
}

_INDEX_BITS = 32
"""No dimension of a tensor is longer than these bits say."""

_INDEX_ARITHMETIC = frozenset({"arith.addi", "arith.subi", "arith.muli"})


def constant(value: int | float, dtype: str) -> Node:
    """A number; booleans are 0 and 1."""
    return Node("constant", dtype, payload=int(bool(value)) if dtype == "i1" else value)


def operation(name: str, dtype: str, operands: tuple[Node, ...], payload: object = None) -> Node:
    """One operation of ``arith``, ``math`` or ``ftm``, folded where it is arithmetic on
    positions."""
    if dtype == "i64" and name in _INDEX_ARITHMETIC:
        folded = _affine(name, operands)
        if folded is not None:
            return folded
    return Node(name, dtype, operands, payload)


def _affine(name: str, operands: tuple[Node, ...]) -> Node | None:
    """Sums, differences and constant multiples of index nodes as one index node."""
    left, right = operands
    if left.op == "index":
        if right.op not in ("index", "constant"):
            return None
    elif right.op != "index" or left.op != "constant":
        return None
    if name == "arith.muli":
        if left.op == right.op:
            return None
        index, factor = (left, right) if left.op == "index" else (right, left)
        return Node("index", "i64", payload=index.payload.scaled(factor.payload))
    rank = len((left if left.op == "index" else right).payload.coeffs)
    a, b = (n.payload if n.op == "index" else Affine.constant(n.payload, rank) for n in operands)
    return Node("index", "i64", payload=a + (b if name == "arith.addi" else b.scaled(-1)))


def gather_place(
    places: list[Node], extents: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Node:
    """The flat element at ``places`` of a view, one for each dimension; a place outside of its
    extent must fault."""
    flat = constant(offset, "i64")
    for place, extent, stride in zip(places, extents, strides, strict=True):
        if place.op == "index" or (place.op == "constant" and 0 <= place.payload < extent):
            flat = _add(flat, _scale(place, stride)) if not seen_equal(extent, 1) else flat
        elif extent == 1:
            flat = _add(flat, place)  # 0, unless it is a place outside, which has to fault
        else:
            flat = _add(flat, _scale(place, stride) if stride else _outside(place))
    return flat


def _outside(place: Node) -> Node:
    """0 for a place inside a dimension without extent in memory; else so large that it faults."""
    bits = constant(_INDEX_BITS, "i64")
    return Node("arith.shli", "i64", (Node("arith.shrsi", "i64", (place, bits)), bits))


def _scale(node: Node, factor: int) -> Node:
    if seen_equal(factor, 1):
        return node
    if node.op == "constant":
        return constant(node.payload * factor, "i64")
    return operation("arith.muli", "i64", (node, constant(factor, "i64")))


def _add(left: Node, right: Node) -> Node:
    if left.op == "constant" and left.payload == 0:
        return right
    if left.op == right.op == "constant":
        return constant(left.payload + right.payload, "i64")
    return operation("arith.addi", "i64", (left, right))


# --- reductions
# ---------------------------------------------------------------------------------------------


def recognise_reduction(result: FunctionResult, number: int) -> None:
    """Sets ``combine`` of a reduction's result, and ``yields`` to the element that is combined."""
    top = result.yields
    name = _REDUCTIONS.get(top.op)
    if name in ("and", "or") and result.value.dtype != "i1":
        name = None
    if name is not None:
        carry = [k for k, n in enumerate(top.operands) if n.op == "carry" and n.payload == number]
        if len(carry) == 1:
            element = top.operands[1 - carry[0]]
            if all(n.op != "carry" for n in walk([element])):
                result.combine, result.yields = name, element
                return
    result.combine = "general"


def combined(word: str, left: Node, right: Node) -> Node:
    """``left`` and ``right`` reduced by ``sum prod max min and or``."""
    return Node(_COMBINE[word]["f" not in left.dtype], left.dtype, (left, right))


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
