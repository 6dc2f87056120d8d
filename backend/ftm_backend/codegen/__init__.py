"""Code generation: kernels on tiles in, assembly out.

In order (``pipeline``): ``multi_buffer`` overlaps transfers with compute, ``allocate_scratchpad``
places tiles, ``promote_to_gsm`` moves buffers to GSM, ``insert_waits`` synchronizes with DMA,
``linearize`` and ``linear_scan`` allocate registers, and ``emit_assembly`` makes the program.
"""

from ftm_backend.codegen.emit_assembly import CodegenError, emit
from ftm_backend.codegen.pipeline import EMIT, PASSES

__all__ = ["EMIT", "PASSES", "CodegenError", "emit"]
