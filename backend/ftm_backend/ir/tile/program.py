"""A program at the tile level: kernels, the function that calls them, and the memory that they
name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ftm_backend.ir.tile.kernel_tree import KernelParameter, TileKernel
from ftm_backend.lru import LRUCache

__all__ = ["TileProgram", "WrittenFunction"]


@dataclass(frozen=True)
class WrittenFunction:
    """A function that was compiled before, as its assembly from below ``@func`` to above ``@ret``.

    can_fault: whether it addresses memory by data that nothing bounds. gsm_bytes: where the last of
        its tiles in GSM ends.
    """

    name: str
    lines: tuple[str, ...]
    parameters: list[KernelParameter]
    can_fault: bool
    gsm_bytes: int

    def size(self, key: tuple[Any, ...]) -> int:
        """Bytes that it and its key take, about."""
        return sum(map(len, self.lines)) + _WORD * len(key)


_WORD = 32
"""Bytes that a word of a key takes, about."""


@dataclass(eq=False)
class TileProgram:
    """The functions of a program as loops over tiles, and the buffers between them.

    machine: name of the preset that it is tiled for. functions: ``main``, where execution starts,
    is the last one. in_bounds: names of functions that cannot fault. inputs, scalars, outputs,
    consts, arena: as in the header of the assembly; see ``midend.kernel_ir.program``. gsm: as
    arena. known: functions of earlier programs, by their ``keys``, which names give.
    """

    machine: str
    functions: list[TileKernel | WrittenFunction] = field(default_factory=list)
    in_bounds: set[str] = field(default_factory=set)
    inputs: list[list[Any]] = field(default_factory=list)
    scalars: list[list[Any]] = field(default_factory=list)
    outputs: list[list[Any]] = field(default_factory=list)
    consts: list[list[Any]] = field(default_factory=list)
    arena: list[list[Any]] = field(default_factory=list)
    gsm: list[list[Any]] = field(default_factory=list)
    keys: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    known: LRUCache[WrittenFunction] | None = None

    @property
    def kernels(self) -> list[TileKernel]:
        """The functions that are not written yet."""
        return [function for function in self.functions if isinstance(function, TileKernel)]
