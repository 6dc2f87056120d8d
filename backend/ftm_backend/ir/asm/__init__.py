"""Assembly IR: programs of the instructions in ``ftm_backend.target``, as text and as records.

``parse`` reads text into an `AsmProgram`; ``str(program)`` prints it.
"""

from ftm_backend.ir.asm.errors import AsmError
from ftm_backend.ir.asm.parser import parse
from ftm_backend.ir.asm.program import AsmProgram

__all__ = ["AsmError", "AsmProgram", "parse"]
