"""Pass ``defer-input-overwrites``: find the kernels that can fault, and order kernels around them.

A program that faults must not have changed its inputs. So a result may be written over an input
only after the last kernel that can fault. Kernels with such results move behind it, if that needs
no additional memory.

Changes kernels and their order in place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import Value
from ftm_backend.midend.analysis.may_fault import FaultAnalysis
from ftm_backend.midend.analysis.use_def import home_of
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["defer_input_overwrites"]


def defer_input_overwrites(module: KernelModule, machine: MachineParameters) -> KernelModule:
    """Mark the kernels that can fault, and sort the kernels."""
    del machine
    faults = FaultAnalysis()
    for kernel in module.kernels:
        kernel.faults = faults.visit(kernel)
    if any(kernel.repeat for kernel in module.kernels):
        return module  # iterations keep their place
    module.kernels = _Order(module).arrange()
    return module


@dataclass(eq=False)
class _Item:
    """A kernel in the schedule.

    Attributes:
        kernel: The kernel.
        needs: The kernels that it reads from.
        last_read: Values that no later kernel reads.
    """

    kernel: Kernel
    needs: set[_Item] = field(default_factory=set)
    last_read: list[Value] = field(default_factory=list)


class _Order:
    def __init__(self, module: KernelModule) -> None:
        self._inputs = set(module.function.inputs)
        self._returned = {home_of(t.value) for t in module.function.results}
        self._items: list[_Item] = []
        self._makers: dict[Value, list[_Item]] = {}
        for kernel in module.kernels:
            item = _Item(kernel)
            item.needs = {m for v in kernel.inputs for m in self._makers.get(home_of(v), ())}
            for value in kernel.outputs:
                self._makers.setdefault(value, []).append(item)
            self._items.append(item)

    def arrange(self) -> list[Kernel]:
        """Return the kernels in their new order."""
        last = max((k for k, item in enumerate(self._items) if item.kernel.faults), default=-1)
        waiting = self._waiting(last) if last > 0 else set()
        early = [item for item in self._items[: last + 1] if item not in waiting]
        late = [item for item in self._items[: last + 1] if item in waiting]
        return [item.kernel for item in (*early, *late, *self._items[last + 1 :])]

    def _waiting(self, last: int) -> set[_Item]:
        """Return the kernels before the last fault that can run after it."""
        needed: set[_Item] = set()
        for item in reversed(self._items[: last + 1]):
            if item.kernel.faults or item in needed:
                needed |= item.needs
        free = [
            item
            for item in self._items[: last + 1]
            if not item.kernel.faults and item not in needed
        ]
        if not free:
            return set()
        readers = {home_of(v): item for item in self._items for v in item.kernel.inputs}
        for value, reader in readers.items():
            reader.last_read.append(value)
        waiting: set[_Item] = set()
        for item in free:
            held = [v for v in item.last_read if v in self._makers and v not in self._returned]
            gained = _bytes(self._replacing(item.kernel))
            if not waiting.isdisjoint(item.needs) or 0 < gained >= _bytes(held):
                waiting.add(item)
        return waiting

    def _replacing(self, kernel: Kernel) -> list[Value]:
        """Return the results of a kernel that may overwrite one of its inputs, by type."""
        inputs = {(v.dtype, v.shape) for v in kernel.inputs if v in self._inputs}
        return [v for v in kernel.outputs if v in self._returned and (v.dtype, v.shape) in inputs]


def _bytes(values: Iterable[Value]) -> int:
    return sum(volume(v.shape) * ELEMENT_BYTES[v.dtype] for v in values)
