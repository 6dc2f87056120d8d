"""Pass ``line-buffer-pooling``: lower pooling with line buffers.

Windows of a pooling overlap. A kernel with line buffers loads each row of the feature map once and
reads all windows from the scratchpad. `plan_line_buffer` decides which kernels can and for which it
pays. Marks kernels with kind ``strips``.
"""

from __future__ import annotations

from ftm_backend.midend.kernel_ir.kernel import KernelModule
from ftm_backend.midend.schedule.loop_nest.line_buffer_plan import plan_line_buffer
from ftm_backend.target.presets import MachineParameters

__all__ = ["line_buffer_pooling"]


def line_buffer_pooling(module: KernelModule, machine: MachineParameters) -> KernelModule:
    """Mark the kernels of ``module`` that are cheaper with line buffers."""
    for kernel in module.kernels:
        if kernel.kind == "nest" and plan_line_buffer(kernel) is not None:
            kernel.kind = "strips"
    return module
