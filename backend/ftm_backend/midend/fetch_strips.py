"""Pass ``fetch-strips``: kernels that reduce over windows, as poolings do, fetch strips of images once and take the windows from these.

See ``strips_plan`` for what that takes and when it pays.
"""

from __future__ import annotations

from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.kernel import Grouped
from ftm_backend.midend.nests.strips_plan import plan_strips

__all__ = ["fetch_strips"]


def fetch_strips(grouped: Grouped, machine: MachineParameters) -> Grouped:
    """``grouped`` with these kernels marked, where DMA works beside the core."""
    if machine.dma_overlaps:
        for kernel in grouped.kernels:
            if kernel.kind == "nest" and plan_strips(kernel) is not None:
                kernel.kind = "strips"
    return grouped
