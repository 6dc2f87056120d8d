"""Code generation: kernels on tiles in, assembly text out.

In order (``pipeline``): ``multi_buffer`` overlaps transfers with compute, ``allocate_scratchpad``
places tiles, ``promote_to_gsm`` moves buffers to GSM, ``insert_waits`` synchronizes with DMA,
``linearize`` and ``linear_scan`` allocate registers, and ``asm_printer`` prints the program.
"""

from ftm_backend.codegen.asm_printer import CodegenError, emit
from ftm_backend.codegen.pipeline import EMIT, PASSES

__all__ = ["EMIT", "PASSES", "CodegenError", "emit"]
