"""The last step of the compiler: registers are allocated and the program is printed as assembly.

The grammar belongs to ``ftm_backend.isa``.
"""

from __future__ import annotations

from ftm_backend.codegen import registers
from ftm_backend.codegen.errors import CodegenError
from ftm_backend.codegen.replacing import check_replacing
from ftm_backend.machine.presets import MachineParameters
from ftm_backend.tile.program import TileProgram
from ftm_backend.tile.text import header, parameters
from ftm_backend.tile.tree import Kernel, Tile, instructions

__all__ = ["CodegenError", "emit", "emit_function"]


def emit(program: TileProgram, machine: MachineParameters) -> str:
    """The assembly text of a program.

    Raises:
        CodegenError: with the function that cannot be written.
    """
    check_replacing(program.kernels, program.in_bounds, {symbol for symbol, *_, alias in program.outputs if alias})
    lines = header(program, machine.name)
    for kernel in program.kernels:
        lines += ["", *emit_function(kernel)]
    return "\n".join(lines) + "\n"


def emit_function(kernel: Kernel) -> list[str]:
    """The lines of one function, ``@func`` to ``@ret``."""
    calls = any(instruction.kind == "call" for instruction in instructions(kernel.body))
    return [f"@func {kernel.name}", *parameters(kernel), *(_declaration(tile) for tile in kernel.tiles), *registers.write(kernel, calls), "@ret"]


def _declaration(tile: Tile) -> str:
    return f"  @tile {tile.name}, {tile.space}, {tile.dtype}, {tile.rows}x{tile.columns}, {tile.depth}, {tile.offset}"
