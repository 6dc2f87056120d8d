"""The matrix assembly: programs of the instructions in ``ftm_backend.instructions`` as text, as objects and as images.

``parse`` text to a ``Program``, ``str(program)`` back to text, ``assemble`` either to an image that the
machine loads.
"""

from ftm_backend.isa.errors import AsmError
from ftm_backend.isa.image import assemble, verify
from ftm_backend.isa.parser import parse
from ftm_backend.isa.program import Program

__all__ = ["AsmError", "Program", "assemble", "parse", "verify"]
