"""In which order kernels run, so that results may take over inputs although the program can fault.

A program that faults must leave its inputs as they were: a result may be written over an input only after the last
kernel that can fault.  Kernels with such results wait for that, where waiting costs no memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ftm_backend.machine.presets import ELEMENT_BYTES
from ftm_backend.midend.affine import volume
from ftm_backend.midend.kernel import KernelView
from ftm_backend.midend.reader import token
from ftm_backend.mlir import ir


@dataclass(eq=False)
class _Item:
    """A kernel, those that it needs, and the operands that no later one reads."""

    op: ir.Operation
    view: KernelView
    faults: bool
    needs: set[_Item] = field(default_factory=set)
    last_read: list[ir.Value] = field(default_factory=list)


class Kernels:
    """The kernels of a function, added in an order in which they could run.

    Args:
        block: the function's block; its arguments are the program's inputs.
    """

    def __init__(self, block: ir.Block):
        self._block = block
        self._items: list[_Item] = []
        self._maker: dict[ir.Value, _Item] = {}

    def add(self, op: ir.Operation, view: KernelView, faults: bool) -> None:
        """Adds the next kernel and whether it can fault."""
        item = _Item(op, view, faults)
        item.needs = {self._maker[ssa] for ssa in op.operands if ssa in self._maker}
        self._maker.update((ssa, item) for ssa in op.results)
        self._items.append(item)

    def arrange(self) -> list[tuple[ir.Operation, KernelView, bool]]:
        """Moves the kernels in the block; gives them in their new order."""
        last = max((k for k, item in enumerate(self._items) if item.faults), default=-1)
        waiting = self._waiting(last) if last > 0 else set()
        early = [item for item in self._items[: last + 1] if item not in waiting]
        late = [item for item in self._items[: last + 1] if item in waiting]
        place = early[-1].op if waiting else None
        for item in reversed(late):
            item.op.move_after(place)
        return [(item.op, item.view, item.faults) for item in (*early, *late, *self._items[last + 1 :])]

    def _waiting(self, last: int) -> set[_Item]:
        """Kernels before the last fault that can wait for it: it does not need them."""
        needed: set[_Item] = set()
        for item in reversed(self._items[: last + 1]):
            if item.faults or item in needed:
                needed |= item.needs
        free = [item for item in self._items[: last + 1] if not item.faults and item not in needed]
        if not free:
            return set()
        returned = self._returned()
        for ssa, reader in {ssa: item for item in self._items for ssa in item.op.operands}.items():
            reader.last_read.append(ssa)
        waiting: set[_Item] = set()
        for item in free:
            held = [ssa for ssa in item.last_read if ssa in self._maker and ssa not in returned]
            gained = _bytes(self._replacing(item, returned))
            if not waiting.isdisjoint(item.needs) or 0 < gained >= _bytes(held):
                waiting.add(item)
        return waiting

    def _returned(self) -> set[ir.Value]:
        """Results of kernels that end up in the program's outputs, those that others are written over included."""
        ends = list(self._block.operations)[-1].operands
        returned = {ssa if ssa in self._maker or isinstance(ssa.owner, ir.Block) else ssa.owner.operands[0] for ssa in ends}
        for item in reversed(self._items):
            for ssa, tie in zip(item.op.results, item.view.ties, strict=True):
                if ssa in returned and tie is not None:
                    returned.add(item.op.operands[tie])
        return returned

    def _replacing(self, item: _Item, returned: set[ir.Value]) -> list[ir.Value]:
        """Results that the program returns and that may replace an input of the kernel, by their types."""
        inputs = {ssa.type for ssa in item.op.operands if isinstance(ssa.owner, ir.Block)}
        return [ssa for ssa in item.op.results if ssa in returned and ssa.type in inputs]


def _bytes(values: Iterable[ir.Value]) -> int:
    kinds = [ir.RankedTensorType(ssa.type) for ssa in values]
    return sum(volume(kind.shape) * ELEMENT_BYTES[token(kind.element_type)] for kind in kinds)
