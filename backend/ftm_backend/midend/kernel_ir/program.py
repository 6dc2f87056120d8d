"""Record: a program of kernels with buffers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ftm_backend.ir.linalg import function as ir
from ftm_backend.ir.tile.program import CompiledFunction
from ftm_backend.lru import LRUCache
from ftm_backend.midend.kernel_ir.kernel import Kernel

if TYPE_CHECKING:
    from ftm_backend.midend.transforms.memory.outline_kernels import KernelCall, OutlinedFunction

__all__ = ["KernelProgram"]


@dataclass(eq=False)
class KernelProgram:
    """Kernels whose values in memory have symbols. Each entry of the lists is a list.

    Attributes:
        function: The function that the kernels compute.
        kernels: The kernels in order.
        inputs: ``[symbol, dtype, shape]``.
        scalars: ``[symbol, dtype]``.
        outputs: ``[symbol, dtype, shape, symbol of the donated input or ""]``.
        consts: ``[symbol, dtype, shape, little-endian bytes in hex]``.
        arena: ``[symbol, byte offset, dtype, shape]``.
        windows: ``[symbol, symbol of the buffer, first element in iteration 0, elements per
            iteration]``.
        arena_bytes: Size of the arena.
        functions: The functions that ``outline-kernels`` made.
        calls: The call that each kernel has become there.
        known: Functions that earlier programs compiled.
    """

    function: ir.LinalgFunction
    kernels: list[Kernel]
    inputs: list[list[Any]] = field(default_factory=list)
    scalars: list[list[Any]] = field(default_factory=list)
    outputs: list[list[Any]] = field(default_factory=list)
    consts: list[list[Any]] = field(default_factory=list)
    arena: list[list[Any]] = field(default_factory=list)
    windows: list[list[Any]] = field(default_factory=list)
    arena_bytes: int = 0
    functions: list[OutlinedFunction] = field(default_factory=list)
    calls: list[KernelCall] = field(default_factory=list)
    known: LRUCache[CompiledFunction] | None = None
