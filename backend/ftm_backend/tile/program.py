"""A program at the tile level: kernels, the function that calls them, and the memory that they name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ftm_backend.tile.tree import Kernel

__all__ = ["TileProgram"]


@dataclass(eq=False)
class TileProgram:
    """The kernels of a program as loops over tiles, and the buffers between them.

    machine: name of the preset that it is tiled for.
    kernels: ``main``, where execution starts, is the last one.
    in_bounds: names of kernels that cannot fault.
    inputs, scalars, outputs, consts, arena: as in the header of the assembly; see ``midend.program``.
    """

    machine: str
    kernels: list[Kernel] = field(default_factory=list)
    in_bounds: set[str] = field(default_factory=set)
    inputs: list[list[Any]] = field(default_factory=list)
    scalars: list[list[Any]] = field(default_factory=list)
    outputs: list[list[Any]] = field(default_factory=list)
    consts: list[list[Any]] = field(default_factory=list)
    arena: list[list[Any]] = field(default_factory=list)
