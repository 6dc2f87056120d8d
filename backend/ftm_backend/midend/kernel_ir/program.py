"""Record: a program of kernels with buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ftm_backend.ir.linalg import function as ir
from ftm_backend.ir.tile.program import CompiledFunction
from ftm_backend.lru import LRUCache
from ftm_backend.midend.kernel_ir.kernel import Kernel

if TYPE_CHECKING:
    from ftm_backend.midend.transforms.memory.outline_kernels import KernelCall, OutlinedFunction

__all__ = [
    "ArenaRegion",
    "BufferWindow",
    "ConstantBuffer",
    "InputBuffer",
    "KernelProgram",
    "OutputBuffer",
    "ScalarParameter",
]


class InputBuffer(NamedTuple):
    """An input."""

    symbol: str
    dtype: str
    shape: Sequence[int]


class ScalarParameter(NamedTuple):
    """A runtime scalar."""

    symbol: str
    dtype: str


class OutputBuffer(NamedTuple):
    """An output; ``donated`` is the symbol of the input that it overwrites, or empty."""

    symbol: str
    dtype: str
    shape: Sequence[int]
    donated: str = ""


class ConstantBuffer(NamedTuple):
    """A constant; ``data`` has its little-endian bytes in hexadecimal."""

    symbol: str
    dtype: str
    shape: Sequence[int]
    data: str


class ArenaRegion(NamedTuple):
    """A value between kernels; ``offset`` counts bytes from the begin of the arena."""

    symbol: str
    offset: int
    dtype: str
    shape: Sequence[int]


class BufferWindow(NamedTuple):
    """A window into ``buffer``: its first element in iteration 0, and elements per iteration."""

    symbol: str
    buffer: str
    start: int
    step: int


@dataclass(eq=False)
class KernelProgram:
    """Kernels whose values in memory have symbols.

    Attributes:
        function: The function that the kernels compute.
        kernels: The kernels in order.
        inputs: The inputs in order.
        scalars: The runtime scalars in order.
        outputs: The outputs in order.
        consts: Buffers with constant data.
        arena: Regions of the arena.
        windows: Windows into buffers that advance with a loop.
        arena_bytes: Size of the arena.
        functions: The functions that ``outline-kernels`` made.
        calls: The call that each kernel has become there.
        known: Functions that earlier programs compiled.
    """

    function: ir.LinalgFunction
    kernels: list[Kernel]
    inputs: list[InputBuffer] = field(default_factory=list)
    scalars: list[ScalarParameter] = field(default_factory=list)
    outputs: list[OutputBuffer] = field(default_factory=list)
    consts: list[ConstantBuffer] = field(default_factory=list)
    arena: list[ArenaRegion] = field(default_factory=list)
    windows: list[BufferWindow] = field(default_factory=list)
    arena_bytes: int = 0
    functions: list[OutlinedFunction] = field(default_factory=list)
    calls: list[KernelCall] = field(default_factory=list)
    known: LRUCache[CompiledFunction] | None = None
