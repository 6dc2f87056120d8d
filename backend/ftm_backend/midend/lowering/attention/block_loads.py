"""Blocks of attention's operands, and maps over blocks of scores; loads are one step ahead."""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.ir.linalg.function import Node, Operand
from ftm_backend.ir.tile.builder import Index, Mapped
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.lowering.gemm.block_transfers import (
    BlockTransfers,
    Slices,
    broadcast_mode,
    nodes_above,
)
from ftm_backend.midend.lowering.map_bodies import mapped
from ftm_backend.midend.schedule.attention.forward_tiling import nodes_in

__all__ = ["BlockOperand", "BlockTensors", "ComputedBlock"]


class BlockTensors:
    """Tensors that expressions over blocks of two axes read. Each is loaded once per block.

    Tensors that are contiguous along the rows are transposed after they were loaded.
    """

    def __init__(
        self,
        blocks: BlockTransfers,
        axes: tuple[int, int],
        max_extents: tuple[int, int],
        depth: int = 2,
    ) -> None:
        """Start without tensors.

        Args:
            blocks: Transfers of the kernel.
            axes: Axes of a tile's rows and columns.
            max_extents: Extents of the largest block.
            depth: Slots of the loaded tiles.
        """
        self.blocks, self.axes, self.max_extents, self.depth = blocks, axes, max_extents, depth
        self.reads: dict[Operand, tuple[str, TileDecl, TileDecl | None]] = {}

    def add(self, operand: Operand) -> None:
        """Declare the tiles of a tensor."""
        if operand in self.reads:
            return
        b, dtype = self.blocks.b, operand.value.dtype
        steps = [operand.index.coeffs[axis] for axis in self.axes]
        broadcast = broadcast_mode(steps[0] != 0, steps[1] != 0)
        rows, columns = (
            size if step else 1 for size, step in zip(self.max_extents, steps, strict=True)
        )
        is_transposed = broadcast == "full" and steps[0] == 1 != steps[1]
        transposed = b.tile(dtype, rows, columns) if is_transposed else None
        sides = (rows, columns) if transposed is None else (columns, rows)
        self.reads[operand] = broadcast, b.tile(dtype, *sides, depth=self.depth), transposed

    def fetch(self, slices: Slices, slot: Index) -> None:
        """Start the loads of the block at ``slices`` into slot ``slot``."""
        for operand, (broadcast, tile, transposed) in self.reads.items():
            sides = (
                self.axes[:1] if broadcast in ("full", "col") else (),
                self.axes[1:] if broadcast in ("full", "row") else (),
            )
            self.blocks.load(
                operand.value,
                operand.index,
                tile,
                slot,
                slices,
                *(sides if transposed is None else sides[::-1]),
            )

    def transpose(self, slot: Index) -> None:
        """Transpose what slot ``slot`` holds as columns; must precede maps of the block."""
        for _, tile, transposed in self.reads.values():
            if transposed is not None:
                self.blocks.b.transpose(tile, slot, transposed, 0)

    def at(self, operand: Operand, slot: Index) -> Mapped:
        """Return a tensor as an input of a map."""
        broadcast, tile, transposed = self.reads[operand]
        return (tile, slot, broadcast) if transposed is None else (transposed, 0, broadcast)


class ComputedBlock:
    """An elementwise expression over blocks of two axes, of given nodes and of tensors."""

    def __init__(
        self,
        tensors: BlockTensors,
        node: Node,
        given: Sequence[Node] = (),
        also: Sequence[Node] = (),
    ) -> None:
        """Declare the tiles of the tensors.

        Args:
            tensors: The tensors of the block.
            node: The expression.
            given: Nodes below it whose tiles are given to ``map``.
            also: Other expressions that ``map`` may compute.
        """
        self.tensors, self.node, self.given = tensors, node, given
        inside = nodes_above([node, *also], {id(x) for x in given})
        self.positions = list(dict.fromkeys(x.payload for x in inside if x.op == "index"))
        self.operands: list[Operand] = list(
            dict.fromkeys(x.payload for x in inside if x.op == "in")
        )
        for operand in self.operands:
            tensors.add(operand)

    def map(
        self,
        slices: Slices,
        slot: Index,
        given: Sequence[Mapped],
        outs: Sequence[Mapped],
        extra: Sequence[Node] = (),
    ) -> None:
        """Emit the map.

        Args:
            slices: The block.
            slot: Slot of the loaded tiles.
            given: Tiles of the given nodes.
            outs: Outputs: of the expression, then of each of ``extra``.
            extra: Further expressions to compute.
        """
        blocks, axes = self.tensors.blocks, self.tensors.axes
        b, ins = blocks.b, [*given, *(self.tensors.at(x, slot) for x in self.operands)]
        starts = {index: blocks.address(index, slices) for index in self.positions}

        def body(arguments: Sequence[Node]) -> list[Node]:
            held = {
                id(node): argument for node, argument in zip(self.given, arguments, strict=False)
            }
            read = {
                id(o): x for o, x in zip(self.operands, arguments[len(self.given) :], strict=True)
            }

            def leaf(node: Node) -> Node | None:
                if id(node) in held:
                    return held[id(node)]
                if node.op == "in":
                    return read[id(node.payload)]
                if node.op == "index":
                    return b.position(
                        starts[node.payload], *(node.payload.coeffs[axis] for axis in axes)
                    )
                return None

            return mapped(b, [self.node, *extra], leaf)

        b.map(slices[axes[0]][1], slices[axes[1]][1], ins, outs, body)


class BlockOperand:
    """Blocks of queries, keys or values in memory order: ``outer`` x ``inner``, or transposed.

    An operand that is not a plain tensor is computed from loaded tiles.
    """

    def __init__(
        self,
        blocks: BlockTransfers,
        node: Node,
        axes: tuple[int, int],
        max_extents: tuple[int, int],
        space: str,
    ) -> None:
        """Determine the layout; ``declare`` declares the tiles."""
        self.blocks, self.node, self.space = blocks, node, space
        whole = [
            x.payload.index for x in nodes_in(node) if all(x.payload.index.coeffs[a] for a in axes)
        ]
        self.transposed = bool(whole) and whole[0].coeffs[axes[0]] == 1 != whole[0].coeffs[axes[1]]
        self.axes, self.max_extents = (
            (axes[::-1], max_extents[::-1]) if self.transposed else (axes, max_extents)
        )
        self.computed = node.op != "in"

    def declare(self, load_slots: int, result_slots: int) -> None:
        """Declare the tiles, with slots for loaded and for computed blocks."""
        self.computation: ComputedBlock | None = None
        if self.computed:
            tensors = BlockTensors(self.blocks, self.axes, self.max_extents, load_slots)
            self.computation = ComputedBlock(tensors, self.node)
        self.tile = self.blocks.b.tile(
            self.node.dtype,
            *self.max_extents,
            *((self.space, load_slots) if self.computation is None else ("am", result_slots)),
        )

    def fetch(self, slices: Slices, slot: Index) -> None:
        """Start the loads of the block at ``slices``."""
        if self.computation is not None:
            self.computation.tensors.fetch(slices, slot)
            return
        operand: Operand = self.node.payload
        self.blocks.load(
            operand.value, operand.index, self.tile, slot, slices, self.axes[:1], self.axes[1:]
        )

    def build(self, slices: Slices, slot: Index, result_slots: Index) -> None:
        """Compute the block from slot ``slot`` if the operand is not a plain tensor."""
        if self.computation is not None:
            self.computation.tensors.transpose(slot)
            self.computation.map(slices, slot, [], [(self.tile, result_slots, "full")])

    def at(self, slot: Index, result_slots: Index) -> tuple[TileDecl, Index]:
        """Return the tile and slot of the operand."""
        return self.tile, slot if self.computation is None else result_slots
