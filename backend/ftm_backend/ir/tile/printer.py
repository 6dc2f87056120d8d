"""Prints tile IR as text.

The text is assembly in which loops are loops and operands may be index expressions in braces:

    @stage tiles
    @program main, host
    @in b0, f32, 4096
    ...
    @func kernel_0
      @param x0, f32
      @tile T0, am, f32, 1x1024, 1
        for i1 = 0, 4 {
          DLD x0[{1024*i1}], 1@1 | 1024@1, T0
          ...
        }
    @ret

Once the scratchpad is allocated, a tile has a sixth operand: its offset in bytes. A kernel that
cannot fault is marked by ``@func name, in_bounds``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.ir.tile.kernel_tree import (
    Block,
    IndexUse,
    Slot,
    TileBranch,
    TileDecl,
    TileInstruction,
    TileKernel,
    TileLoop,
)
from ftm_backend.ir.tile.program import TileProgram

__all__ = ["header", "parameters", "print_tiles", "shape_text"]


def print_tiles(program: TileProgram, stage: str) -> str:
    """Print a program; ``stage`` names the pass that produced it."""
    lines = [f"@stage {stage}", *header(program, program.machine)]
    for kernel in program.kernels:
        mark = ", in_bounds" if kernel.name in program.in_bounds else ""
        lines += [
            "",
            f"@func {kernel.name}{mark}",
            *parameters(kernel),
            *(_declaration(t) for t in kernel.tiles),
        ]
        lines += [*_block(kernel.body, "    "), "@ret"]
    return "\n".join(lines) + "\n"


def header(program: TileProgram, machine: str) -> list[str]:
    """Print the declarations of a program's memory, as in assembly."""
    lines = [f"@program main, {machine}"]
    lines += [
        f"@in {symbol}, {dtype}, {shape_text(shape)}" for symbol, dtype, shape in program.inputs
    ]
    lines += [f"@scalar {symbol}, {dtype}" for symbol, dtype in program.scalars]
    lines += [
        f"@out {symbol}, {dtype}, {shape_text(shape)}" + (f", {alias}" if alias else "")
        for symbol, dtype, shape, alias in program.outputs
    ]
    lines += [
        f"@const {symbol}, {dtype}, {shape_text(shape)}, {data}"
        for symbol, dtype, shape, data in program.consts
    ]
    lines += [
        f"@arena {symbol}, {offset}, {dtype}, {shape_text(shape)}"
        for symbol, offset, dtype, shape in program.arena
    ]
    lines += [
        f"@gsm {symbol}, {offset}, {dtype}, {shape_text(shape)}"
        for symbol, offset, dtype, shape in program.gsm
    ]
    return lines


def parameters(kernel: TileKernel) -> list[str]:
    """Print the declarations of a function's parameters."""
    lines = []
    for parameter in kernel.parameters:
        words = [
            parameter.name,
            parameter.dtype,
            *(["out"] if parameter.out else []),
            *([parameter.alias] if parameter.alias else []),
        ]
        lines.append(f"  @param {', '.join(words)}")
    return lines + [f"  @scalar {name}, {dtype}" for name, dtype in kernel.scalars]


def shape_text(extents: Sequence[int]) -> str:
    """Print a shape such as ``2x3``, or ``[]`` for no dimensions."""
    return "x".join(map(str, extents)) if extents else "[]"


def _declaration(tile: TileDecl) -> str:
    offset = f", {tile.offset}" if tile.offset >= 0 else ""
    shape = f"{tile.rows}x{tile.columns}"
    return f"  @tile {tile.name}, {tile.space}, {tile.dtype}, {shape}, {tile.depth}{offset}"


def _block(block: Block, indent: str) -> list[str]:
    lines: list[str] = []
    for statement in block:
        if isinstance(statement, TileInstruction):
            lines += _instruction(statement, indent)
        elif isinstance(statement, TileLoop):
            lines += [
                f"{indent}for {statement.variable!r} = {statement.lower!r}, {statement.upper!r} {{",
                *_block(statement.body, indent + "  "),
                f"{indent}}}",
            ]
        else:
            lines += _branch(statement, indent)
    return lines


def _branch(branch: TileBranch, indent: str) -> list[str]:
    lines = [f"{indent}if {branch.condition!r} {{", *_block(branch.body, indent + "  ")]
    if branch.otherwise:
        lines += [f"{indent}}} else {{", *_block(branch.otherwise, indent + "  ")]
    return [*lines, f"{indent}}}"]


def _instruction(instruction: TileInstruction, indent: str) -> list[str]:
    text = "".join(map(_part, instruction.parts))
    if instruction.result is not None:
        text += repr(instruction.result)
    first, *rest = text.split("\n")
    return [indent + first, *(indent[4:] + line for line in rest)]


def _part(part: str | IndexUse | Slot) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Slot):
        return part.tile.name if part.tile.depth == 1 else f"{part.tile.name}[{_index(part.index)}]"
    return _index(part.expr)


def _index(expr: object) -> str:
    text = repr(expr)
    return text if text.lstrip("-").isdigit() else f"{{{text}}}"
