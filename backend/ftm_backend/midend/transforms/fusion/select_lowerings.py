"""Passes ``transpose-on-chip`` and ``line-buffer-pooling``: other lowerings for some loop nests.

- A copy of columns to rows is transposed on chip (kind ``transpose``, see
  ``lowering/loop_nest/transpose.py``). DMA would move it element by element.
- Windows of a pooling overlap. A kernel with line buffers loads each row of the feature map once
  and reads all windows from the scratchpad (kind ``line-buffer``). `plan_line_buffer` decides which
  kernels can, and for which it pays.
"""

from __future__ import annotations

from ftm_backend.midend.kernel_ir.kernel import KernelModule
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.lowering.loop_nest.transpose import match_transpose
from ftm_backend.midend.schedule.loop_nest.line_buffer_plan import plan_line_buffer
from ftm_backend.target.presets import MachineParameters

__all__ = ["line_buffer_pooling", "transpose_on_chip"]


def transpose_on_chip(module: KernelModule, machine: MachineParameters) -> KernelModule:
    """Mark the kernels of ``module`` that are transposes; small ones stay copies."""
    for kernel in module.kernels:
        if kernel.kind is not KernelKind.LOOP_NEST or len(kernel.statements) != 1:
            continue
        (statement,) = kernel.statements
        stores = [store.index for result in statement.results for store in result.stores]
        if match_transpose(statement, machine, stores) is not None:
            kernel.kind, kernel.domain = KernelKind.TRANSPOSE, None
    return module


def line_buffer_pooling(module: KernelModule, machine: MachineParameters) -> KernelModule:
    """Mark the kernels of ``module`` that are cheaper with line buffers."""
    for kernel in module.kernels:
        if kernel.kind is KernelKind.LOOP_NEST and plan_line_buffer(kernel) is not None:
            kernel.kind = KernelKind.LINE_BUFFER
    return module
