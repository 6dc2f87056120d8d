"""A program of tile IR: kernels, the function that calls them, and the buffers that they use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ftm_backend.ir.tile.kernel_tree import KernelParameter, TileKernel
from ftm_backend.lru import LRUCache

__all__ = ["CompiledFunction", "TileProgram"]


@dataclass(frozen=True)
class CompiledFunction:
    """Assembly of a function that was compiled before, for reuse in other programs.

    Attributes:
        name: Its name.
        lines: The lines between ``@func`` and ``@ret``.
        parameters: Buffers that calls bind.
        can_fault: Whether it accesses memory at data-dependent indices that nothing bounds.
        gsm_bytes: Bytes of GSM up to the end of its last tile.
    """

    name: str
    lines: tuple[str, ...]
    parameters: list[KernelParameter]
    can_fault: bool
    gsm_bytes: int

    def size(self, key: tuple[Any, ...]) -> int:
        """Estimate the bytes that it and its key take in memory."""
        return sum(map(len, self.lines)) + _BYTES_PER_KEY_WORD * len(key)


_BYTES_PER_KEY_WORD = 32


@dataclass(eq=False)
class TileProgram:
    """The functions of a program, and the buffers between them.

    Attributes:
        machine: Name of the machine preset that the program is tiled for.
        functions: Its functions; the last one, ``main``, is the entry point.
        in_bounds: Names of functions that cannot fault.
        inputs: Symbol, dtype and shape, as in the header of the assembly; see
            ``midend.kernel_ir.program``.
        scalars: Symbol and dtype.
        outputs: Symbol, dtype, shape and aliased input.
        consts: Symbol, dtype, shape and data.
        arena: Symbol, offset in bytes, dtype and shape.
        gsm: As ``arena``.
        keys: For each function by name, its key in ``function_cache``.
        function_cache: Functions of earlier programs.
    """

    machine: str
    functions: list[TileKernel | CompiledFunction] = field(default_factory=list)
    in_bounds: set[str] = field(default_factory=set)
    inputs: list[list[Any]] = field(default_factory=list)
    scalars: list[list[Any]] = field(default_factory=list)
    outputs: list[list[Any]] = field(default_factory=list)
    consts: list[list[Any]] = field(default_factory=list)
    arena: list[list[Any]] = field(default_factory=list)
    gsm: list[list[Any]] = field(default_factory=list)
    keys: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    function_cache: LRUCache[CompiledFunction] | None = None

    @property
    def kernels(self) -> list[TileKernel]:
        """The functions that are not compiled yet."""
        return [function for function in self.functions if isinstance(function, TileKernel)]
