"""A program of tile IR: kernels, the function that calls them, and the buffers that they use."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ftm_backend.ir.asm.program import (
    AsmFunction,
    AsmParameter,
    BufferDirective,
    ScalarArgument,
)
from ftm_backend.ir.tile.kernel_tree import TileKernel
from ftm_backend.lru import LRUCache

__all__ = [
    "AsmParameter",
    "BufferDirective",
    "CompiledFunction",
    "ScalarArgument",
    "TileProgram",
]


@dataclass(frozen=True, eq=False)
class CompiledFunction:
    """A function that was compiled before, for reuse in other programs.

    Attributes:
        code: Its instructions. A function from disk has them as text and in encoded form only.
        can_fault: Whether it accesses memory at data-dependent indices that nothing bounds.
        has_products: Whether it contains matrix products.
        scattered: Parameters that it writes at data-dependent addresses.
        gsm_bytes: Bytes of GSM up to the end of its last tile.
    """

    code: AsmFunction
    can_fault: bool
    has_products: bool
    scattered: frozenset[str]
    gsm_bytes: int

    @staticmethod
    def of(kernel: TileKernel, code: AsmFunction) -> CompiledFunction:
        """Return the record of a kernel, whose tiles are placed, and of its code."""
        return CompiledFunction(
            code, kernel.can_fault, kernel.has_products, kernel.scattered, kernel.gsm_bytes
        )

    @property
    def name(self) -> str:
        """Its name in a program."""
        return self.code.name

    @property
    def parameters(self) -> list[AsmParameter]:
        """What calls bind: buffers, then scalars."""
        return self.code.parameters

    @property
    def size(self) -> int:
        """Estimate the bytes that it takes in memory."""
        return _BYTES_PER_LINE * len(self.code.printed)

    def named(self, name: str) -> CompiledFunction:
        """Return the function under another name."""
        return replace(self, code=replace(self.code, name=name))


_BYTES_PER_LINE = 700
"""Text, instruction and encoded record of a line take 540 to 640 bytes in a training step of a GPT,
measured with tracemalloc; the key takes the rest."""


@dataclass(eq=False)
class TileProgram:
    """The functions of a program, and the buffers between them.

    Attributes:
        machine: Name of the machine preset that the program is tiled for.
        functions: Its functions; the last one, ``main``, is the entry point.
        in_bounds: Names of functions that cannot fault.
        header: Its buffers and runtime scalars, as in assembly.
        keys: For each function by name, its key in ``function_cache``.
        function_cache: Functions of earlier programs.
    """

    machine: str
    functions: list[TileKernel | CompiledFunction] = field(default_factory=list)
    in_bounds: set[str] = field(default_factory=set)
    header: list[BufferDirective | ScalarArgument] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    function_cache: LRUCache[CompiledFunction] | None = None

    @property
    def kernels(self) -> list[TileKernel]:
        """The functions that are not compiled yet."""
        return [function for function in self.functions if isinstance(function, TileKernel)]

    def buffers(self, kind: str) -> list[BufferDirective]:
        """Return the buffers of one kind (see `BufferDirective`) in order."""
        return [b for b in self.header if isinstance(b, BufferDirective) and b.kind == kind]
