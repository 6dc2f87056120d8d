"""Bodies of statements as bodies of maps: leaves become tile elements, indices or scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import Node, Value
from ftm_backend.ir.tile.builder import TileBuilder

__all__ = ["Leaf", "mapped"]

Leaf = Callable[[Node], Node | None]
"""Returns the map's node for a leaf of a statement's body; None: compute it in the map."""


def mapped(b: TileBuilder, nodes: Sequence[Node], leaf: Leaf) -> list[Node]:
    """Rewrite the nodes of a statement's body for a map.

    Args:
        b: The builder.
        nodes: Roots of the body.
        leaf: Handles ``in``, ``carry`` and ``index`` nodes. Constants, runtime scalars and gathers
            are handled here.

    Returns:
        The rewritten roots.
    """
    rewritten: dict[int, Node] = {}
    stack = [(n, False) for n in reversed(nodes)]
    while stack:
        node, ready = stack.pop()
        if id(node) in rewritten:
            continue
        if ready:
            rewritten[id(node)] = _computed(b, node, tuple(rewritten[id(n)] for n in node.operands))
            continue
        replacement = leaf(node)
        if replacement is not None:
            rewritten[id(node)] = replacement
        elif node.op in ("constant", "scalar"):
            rewritten[id(node)] = node
        else:
            stack.append((node, True))
            stack.extend((n, False) for n in reversed(node.operands))
    return [rewritten[id(n)] for n in nodes]


def _computed(b: TileBuilder, node: Node, operands: tuple[Node, ...]) -> Node:
    if node.op == "gather":
        table: Value = node.payload
        return b.gather(b.buffer(str(table.symbol), table.dtype, volume(table.shape)), operands[0])
    if not node.op.startswith(("arith.", "math.", "ftm.")):
        raise ValueError(f"body node {node.op} cannot be lowered here")
    return Node(node.op, node.dtype, operands, node.payload)
