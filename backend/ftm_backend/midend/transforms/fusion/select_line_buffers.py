"""Pass ``line-buffer-pooling``: kernels that reduce over windows, as poolings do, fetch strips of
images once and take the windows from these.

See ``strips_plan`` for what that takes and when it pays.
"""

from __future__ import annotations

from ftm_backend.midend.kernel_ir.kernel import KernelModule
from ftm_backend.midend.schedule.loop_nest.line_buffer_plan import plan_line_buffer
from ftm_backend.target.presets import MachineParameters

__all__ = ["line_buffer_pooling"]


def line_buffer_pooling(grouped: KernelModule, machine: MachineParameters) -> KernelModule:
    """``grouped`` with these kernels marked, where DMA works beside the core."""
    for kernel in grouped.kernels:
        if kernel.kind == "nest" and plan_line_buffer(kernel) is not None:
            kernel.kind = "strips"
    return grouped
