"""Values that one map of a nest kernel computes and a later one would compute again.

Example: softmax sums ``exp(x - max)``, and then divides it by the sum. The map of the sum keeps the
exponentials in a tile, and the map of the quotient reads them.

On machines whose DMA overlaps compute, tiles are sized to fill the scratchpad, so nothing is kept.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from ftm_backend.ir.linalg.function import Node, Statement, walk
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.schedule.loop_nest.map_stages import MapStage
from ftm_backend.midend.schedule.loop_nest.tiling import element_bytes
from ftm_backend.target.presets import ELEMENT_BYTES

if TYPE_CHECKING:
    from ftm_backend.midend.lowering.loop_nest.emit_loops import NestEmitter

__all__ = ["SharedValues"]

_SLOW = frozenset(
    f"math.{name}"
    for name in ("exp", "exp2", "expm1", "log", "log1p", "tanh", "erf", "sin", "cos", "powf")
)
"""Operations that take longer than storing and loading a value in the cache."""


class SharedValues:
    """The values that stages of a kernel keep for later ones."""

    def __init__(self, nest: NestEmitter) -> None:
        """Compare the bodies of the stages."""
        self._nest = nest
        self._tiles: dict[int, TileDecl] = {}
        self._reads: dict[MapStage, dict[Node, int]] = {}
        self._writes: dict[MapStage, dict[Node, int]] = {}
        if nest.kernel.machine.dma_overlaps or len(nest.stages) < 2 or not nest.axes.shape.resident:
            return
        everything = frozenset(nest.axes.axes)
        numbers: dict[Hashable, int] = {}
        found: dict[int, tuple[MapStage, Node]] = {}
        for stage in nest.stages:
            computed: dict[int, tuple[MapStage, Node]] = {}
            for s in stage.statements:
                if not stage.narrow and nest.axes.spans[s] == everything:
                    keys = _Keys(nest, s, numbers)
                    for r in s.results:
                        self._compare(stage, r.yields, keys, found, computed)
            found = computed | found
        self._limit()

    def _compare(
        self,
        stage: MapStage,
        root: Node,
        keys: _Keys,
        found: dict[int, tuple[MapStage, Node]],
        computed: dict[int, tuple[MapStage, Node]],
    ) -> None:
        """Find the largest parts of a body that an earlier stage computes."""
        keys.add(walk([root]))
        stack, seen = [root], set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            key = keys.number[node]
            if key is not None and keys.is_slow[node]:
                if key in found:
                    writer, written = found[key]
                    self._writes.setdefault(writer, {})[written] = key
                    self._reads.setdefault(stage, {})[node] = key
                    continue
                computed[key] = (stage, node)
            stack.extend(node.operands)

    def _limit(self) -> None:
        """Keep nothing if the tiles would not fit the scratchpad with the others."""
        nest = self._nest
        kept = {key: node for nodes in self._writes.values() for node, key in nodes.items()}
        tiled = [*nest.plan.rows, *nest.plan.columns]
        rows, columns = nest.plan.row_count(), nest.plan.column_count()
        each = element_bytes(nest.axes, tiled) + sum(ELEMENT_BYTES[n.dtype] for n in kept.values())
        is_fixed = isinstance(rows, int) and isinstance(columns, int)
        if not is_fixed or 2 * each * rows * columns > nest.kernel.machine.am_bytes:
            self._reads.clear()
            self._writes.clear()

    def tile(self, stage: MapStage, node: Node) -> TileDecl | None:
        """Return the tile from which a stage reads a node of its body; None: it computes it."""
        key = self._reads.get(stage, {}).get(node)
        return None if key is None else self._tiles[key]

    def kept(self, stage: MapStage, root: Node) -> list[tuple[Node, TileDecl]]:
        """Return the nodes of a body that a stage keeps, and a tile for each."""
        found = []
        wanted = self._writes.get(stage, {})
        for node in self.walk(stage, root) if wanted else ():
            if node in wanted and wanted[node] not in self._tiles:
                tile = self._nest.tile(node.dtype, rows=True, columns=True)
                self._tiles[wanted[node]] = tile
                found.append((node, tile))
        return found

    def walk(self, stage: MapStage, root: Node) -> list[Node]:
        """Return the nodes that a stage computes or reads for a result, operands before users."""
        order: dict[Node, None] = {}
        stack = [(root, False)]
        reads = self._reads.get(stage, {})
        while stack:
            node, ready = stack.pop()
            if ready or node in reads or not node.operands:
                order[node] = None
            elif node not in order:
                stack.append((node, True))
                stack.extend((n, False) for n in reversed(node.operands))
        return list(order)


class _Keys:
    """Numbers of the nodes of one statement: equal numbers mean equal values.

    Attributes:
        number: The number; None for values that depend on positions or on running values.
        is_slow: Whether to compute a node takes longer than to load it.
    """

    def __init__(
        self, nest: NestEmitter, statement: Statement, numbers: dict[Hashable, int]
    ) -> None:
        self._nest, self._statement, self._numbers = nest, statement, numbers
        self.number: dict[Node, int | None] = {}
        self.is_slow: dict[Node, bool] = {}

    def add(self, nodes: list[Node]) -> None:
        """Number nodes, operands before users."""
        for node in nodes:
            key = self._key(node)
            self.number[node] = (
                None if key is None else self._numbers.setdefault(key, len(self._numbers))
            )
            self.is_slow[node] = node.op in _SLOW or any(self.is_slow[n] for n in node.operands)

    def _key(self, node: Node) -> Hashable:
        if node.op == "in":
            return ("in", self._nest.key(self._statement, node.payload)[0])
        operands = tuple(self.number[n] for n in node.operands)
        is_pure = node.op in ("constant", "scalar") or node.op.startswith(("arith.", "math."))
        if not is_pure or None in operands:
            return None
        return (node.op, node.dtype, repr(node.payload), operands)
