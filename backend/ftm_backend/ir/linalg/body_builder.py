"""Constructors of body nodes, and the reductions that a body may hold.

`operation` folds index arithmetic: sums and constant multiples of loop counters become one
``index`` node with an `Affine`. So the scheduler sees values such as causal masks and indices of
random numbers as affine accesses, like the address of an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ftm_backend.ir.linalg.affine import Affine, dot, row_major
from ftm_backend.ir.linalg.function import (
    FunctionResult,
    Node,
    Operand,
    Statement,
    Value,
    united_origins,
    walk,
)
from ftm_backend.ir.linalg.origin import Origin
from ftm_backend.symbolic import guarded_equal

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
"""Operations that reduce, with the name of the reduction in ``@map``."""

_COMBINE = {
    "sum": ("arith.addf", "arith.addi"),
    "prod": ("arith.mulf", "arith.muli"),
    "max": ("arith.maximumf", "arith.maxsi"),
    "min": ("arith.minimumf", "arith.minsi"),
    "and": ("arith.andi", "arith.andi"),
    "or": ("arith.ori", "arith.ori"),
}

_INDEX_BITS = 32
"""Every extent is below ``2 ** 32``, so an index shifted right by 32 bits is 0 if in bounds."""

_INDEX_ARITHMETIC = frozenset({"arith.addi", "arith.subi", "arith.muli"})


def constant(value: int | float, dtype: str) -> Node:
    """Make a constant; booleans are 0 and 1."""
    return Node("constant", dtype, payload=int(bool(value)) if dtype == "i1" else value)


def operation(name: str, dtype: str, operands: tuple[Node, ...], payload: object = None) -> Node:
    """Make an operation of ``arith``, ``math`` or ``ftm``; arithmetic on loop counters folds."""
    if dtype == "i64" and name in _INDEX_ARITHMETIC:
        folded = _affine(name, operands)
        if folded is not None:
            return folded
    return Node(name, dtype, operands, payload)


def _affine(name: str, operands: tuple[Node, ...]) -> Node | None:
    """Fold a sum, difference or constant multiple of index nodes into one index node."""
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


def substitute(
    roots: Iterable[Node], replacement: Callable[[Node], Node | None]
) -> dict[Node, Node]:
    """Return what each node of some bodies becomes when others replace nodes of it.

    Args:
        roots: The bodies.
        replacement: Returns what replaces a node and all that it is computed from; None for a node
            that only gets new operands.
    """
    done: dict[Node, Node] = {}
    for node in walk(roots):
        new = replacement(node)
        if new is None:
            operands = tuple(done[each] for each in node.operands)
            is_same = operands == node.operands
            new = node if is_same else Node(node.op, node.dtype, operands, node.payload)
        done[node] = new
    return done


def operands_of(roots: Iterable[Node]) -> list[Operand]:
    """Return the operands that bodies read, each once."""
    return list(dict.fromkeys(node.payload for node in walk(roots) if node.op == "in"))


def elementwise(value: Value, element: Node, origins: tuple[Origin, ...] = ()) -> Statement:
    """Make the statement that computes each element of a tensor.

    Args:
        value: The tensor; its ``producer`` is set.
        element: The body of an element, over one loop for each dimension.
        origins: The operations that the statement computes.
    """
    return _nest(value, value.shape, range(len(value.shape)), element, None, origins)


def sums(
    value: Value,
    loops: tuple[int, ...],
    kept: Sequence[int],
    element: Node,
    origins: tuple[Origin, ...] = (),
) -> Statement:
    """Make the statement that sums elements over all loops but some.

    Args:
        value: The sums; its ``producer`` is set.
        loops: Extents of the loops.
        kept: The loop of each dimension of ``value``.
        element: The body of an element, over the loops.
        origins: The operations that the statement computes.
    """
    return _nest(value, loops, kept, element, "sum", origins)


def _nest(
    value: Value,
    loops: tuple[int, ...],
    kept: Sequence[int],
    element: Node,
    combine: str | None,
    origins: tuple[Origin, ...],
) -> Statement:
    """Make a statement with a loop for each dimension of its result; it reduces the others."""
    rank = len(loops)
    indices = tuple(Affine.loop(k, rank) for k in kept)
    index = dot(indices, row_major(value.shape), 0, rank)
    init = None if combine is None else constant(identity(combine, value.dtype), value.dtype)
    result = FunctionResult(value, index, indices, element, combine, init)
    value.producer = loop_nest(loops, tuple(k not in kept for k in range(rank)), [result], origins)
    return value.producer


def loop_nest(
    loops: tuple[int, ...],
    reduced: tuple[bool, ...],
    results: list[FunctionResult],
    origins: tuple[Origin, ...] = (),
) -> Statement:
    """Make a ``linalg.generic`` that reads what its bodies read."""
    operands = operands_of(result.yields for result in results)
    return Statement("linalg.generic", loops, reduced, operands, results, origins=origins)


def reading(statement: Statement, swap: Callable[[Operand], Operand]) -> Statement:
    """Return a statement that reads other operands, as a ``linalg.generic``.

    Args:
        statement: The statement.
        swap: Returns the operand that is read instead of another one, always the same.
    """

    def read(node: Node) -> Node | None:
        return Node("in", node.dtype, payload=swap(node.payload)) if node.op == "in" else None

    bodies = substitute((result.yields for result in statement.results), read)
    results = [
        replace(r, yields=bodies[r.yields], stores=list(r.stores)) for r in statement.results
    ]
    operands = [swap(operand) for operand in statement.operands]
    return replace(
        statement,
        op="linalg.generic",
        operands=operands,
        results=results,
        gathers=list(statement.gathers),
        attributes={},
        tensors=(),
    )


def inlined(
    statement: Statement,
    replacement: Callable[[Node], Node | None],
    makers: Iterable[Statement],
) -> Statement:
    """Return a statement whose bodies compute what it loaded, as a ``linalg.generic``.

    Args:
        statement: The statement; the producer of its results is set to the new one.
        replacement: As of `substitute`.
        makers: The statements whose bodies are inlined.
    """
    bodies = substitute((result.yields for result in statement.results), replacement)
    results = [
        replace(r, yields=bodies[r.yields], stores=list(r.stores)) for r in statement.results
    ]
    made = loop_nest(
        statement.loops, statement.reduced, results, united_origins(statement, *makers)
    )
    for result in results:
        result.value.producer = made
    return made


def gather_index(
    indices: list[Node], extents: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Node:
    """Return the flat index of the element at ``indices`` of a strided view.

    An index out of bounds must fault, so it still counts in dimensions without effect on the
    address: those of extent 1 or of stride 0.

    Args:
        indices: One i64 node per dimension.
        extents: Extents of the view.
        strides: Strides of the view, in elements.
        offset: First element of the view.
    """
    flat = constant(offset, "i64")
    for index, extent, stride in zip(indices, extents, strides, strict=True):
        if index.op == "index" or (index.op == "constant" and 0 <= index.payload < extent):
            flat = _add(flat, _scale(index, stride)) if not guarded_equal(extent, 1) else flat
        elif guarded_equal(extent, 1):
            flat = _add(flat, index)  # 0 if in bounds; else the address is out of bounds as well
        else:
            flat = _add(flat, _scale(index, stride) if stride else _fault_if_outside(index))
    return flat


def _fault_if_outside(index: Node) -> Node:
    """Return 0 for an index in bounds, else a number so large that the address faults."""
    bits = constant(_INDEX_BITS, "i64")
    return Node("arith.shli", "i64", (Node("arith.shrsi", "i64", (index, bits)), bits))


def _scale(node: Node, factor: int) -> Node:
    if guarded_equal(factor, 1):
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


def recognize_reduction(result: FunctionResult, number: int) -> None:
    """Set ``combine`` of a reduction's result; ``yields`` becomes the element that is combined.

    Args:
        result: Its ``yields`` computes the new running value.
        number: Position among the statement's results, which its ``carry`` nodes refer to.
    """
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
    """Combine ``left`` and ``right`` by the reduction ``sum``, ``prod``, ``min``, ..."""
    return Node(_COMBINE[word]["f" not in left.dtype], left.dtype, (left, right))


def identity(word: str, dtype: str) -> int | float:
    """Return the neutral element of a reduction."""
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
