"""Bodies of statements as bodies of maps: their leaves become elements of tiles, positions and
runtime scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import Node, Value
from ftm_backend.ir.tile.builder import TileBuilder

__all__ = ["Leaf", "mapped"]

Leaf = Callable[[Node], Node | None]
"""What a node of a statement's body is in the map; None when it has to be computed there."""


def mapped(b: TileBuilder, nodes: Sequence[Node], leaf: Leaf) -> list[Node]:
    """``nodes`` in terms of what a map knows.

    leaf: must know ``in``, ``carry`` and ``index`` nodes; constants, runtime scalars and gathers
        are known here.
    """
    made: dict[int, Node] = {}
    stack = [(n, False) for n in reversed(nodes)]
    while stack:
        node, ready = stack.pop()
        if id(node) in made:
            continue
        if ready:
            made[id(node)] = _computed(b, node, tuple(made[id(n)] for n in node.operands))
            continue
        known = leaf(node)
        if known is not None:
            made[id(node)] = known
        elif node.op in ("constant", "scalar"):
            made[id(node)] = node
        else:
            stack.append((node, True))
            stack.extend((n, False) for n in reversed(node.operands))
    return [made[id(n)] for n in nodes]


def _computed(b: TileBuilder, node: Node, operands: tuple[Node, ...]) -> Node:
    if node.op == "gather":
        table: Value = node.payload
        return b.gather(b.buffer(str(table.symbol), table.dtype, volume(table.shape)), operands[0])
    if not node.op.startswith(("arith.", "math.", "ftm.")):
        raise ValueError(f"body node {node.op} has no value here")
    return Node(node.op, node.dtype, operands, node.payload)
