"""A planned program: its signature, constants and arena, and the kernels that run on them."""

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
    """``kernels`` of ``function``, whose values in memory have symbols. Each entry of the other
    lists is a list.

    inputs: [symbol, dtype, shape]; scalars: [symbol, dtype]; outputs: [symbol, dtype, shape, symbol
    of the input whose storage it may share or ""]; consts: [symbol, dtype, shape, little-endian
    bytes in hex]; arena: [symbol, byte offset, dtype, shape]; windows: [symbol, symbol of the
    buffer, element that it starts at in the first iteration, elements that it moves on by];
    arena_bytes: size of the arena. functions, calls: what the kernels have become, a call for each,
    once ``outline-kernels`` has been there. known: functions that were compiled for earlier
    programs.
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
