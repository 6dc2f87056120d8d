"""Analysis: uniform values, which depend on runtime scalars alone, and their map.

A kernel computes them once, in a map of one element. Example: ``lr * (1 - beta)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ftm_backend.ir.linalg.function import Node, Statement, walk
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.lowering.map_bodies import mapped


class UniformValues:
    """The uniform nodes of some statements; ``tiles`` has the 1x1 tile of each that is computed."""

    def __init__(self, statements: Sequence[Statement], b: TileBuilder):
        """Find the uniform nodes of ``statements``."""
        self._b = b
        self.tiles: dict[int, tuple[Node, TileDecl]] = {}
        results = [result for statement in statements for result in statement.results]
        roots = [result.yields for result in results]
        roots += (result.init for result in results if isinstance(result.init, Node))
        order = walk(roots)
        uniform = _uniform(order)
        wanted = {id(n) for n in roots}
        for node in order:
            if id(node) not in uniform:
                wanted.update(map(id, node.operands))
        chosen = wanted & uniform
        self._nodes = [n for n in order if id(n) in chosen and not _is_operand(n)]

    def compute(self) -> None:
        """Emit the map at the insertion point."""
        if not self._nodes:
            return
        b = self._b
        computed_tiles = [(node, b.tile(node.dtype, 1, 1)) for node in self._nodes]
        b.map(
            1,
            1,
            [],
            [(tile, 0, "full") for _, tile in computed_tiles],
            lambda _: mapped(b, self._nodes, lambda _: None),
        )
        self.tiles = {id(node): (node, tile) for node, tile in computed_tiles}


def _uniform(order: Iterable[Node]) -> set[int]:
    """Return the ids of the uniform nodes; operands come before users."""
    uniform: set[int] = set()
    for node in order:
        is_leaf = node.op in ("constant", "scalar")
        is_computed = bool(node.operands) and node.op != "gather"
        if is_leaf or (is_computed and uniform.issuperset(map(id, node.operands))):
            uniform.add(id(node))
    return uniform


def _is_operand(node: Node) -> bool:
    """Whether instructions accept the node as an operand, so that it needs no map."""
    if node.op in ("constant", "scalar"):
        return True
    return node.op == "arith.truncf" and node.operands[0].op == "scalar"
