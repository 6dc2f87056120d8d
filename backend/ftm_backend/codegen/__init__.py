"""Code generation: kernels on tiles in, assembly text out.

In order (``pipeline.py``): ``multibuffer.py`` overlaps transfers with computing; ``scratchpad.py``
lays the tiles out; ``sync.py`` inserts waits; then ``registers.py`` allocates and ``emit.py`` puts
the program together.
"""

from ftm_backend.codegen.asm_printer import CodegenError, emit
from ftm_backend.codegen.pipeline import EMIT, PASSES

__all__ = ["EMIT", "PASSES", "CodegenError", "emit"]
