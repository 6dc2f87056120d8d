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

from ftm_backend.ir.asm import printer as asm_printer
from ftm_backend.ir.asm import program as p
from ftm_backend.ir.tile.index_expr import Atom, Expr
from ftm_backend.ir.tile.kernel_tree import (
    Address,
    Block,
    MapOperand,
    Slot,
    TileBranch,
    TileDecl,
    TileInstruction,
    TileLoop,
    TileOperand,
)
from ftm_backend.ir.tile.program import TileProgram


def print_tiles(program: TileProgram, stage: str) -> str:
    """Print a program; ``stage`` names the pass that produced it."""
    lines = [f"@stage {stage}", f"@program main, {program.machine}"]
    lines += map(asm_printer.header, program.header)
    for kernel in program.kernels:
        mark = ", in_bounds" if kernel.name in program.in_bounds else ""
        lines += [
            "",
            f"@func {kernel.name}{mark}",
            *map(asm_printer.parameter, kernel.parameters),
            *(_declaration(t) for t in kernel.tiles),
        ]
        lines += [*_block(kernel.body, "    "), "@ret"]
    return "\n".join(lines) + "\n"


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
    name = ".".join((instruction.name, *instruction.suffixes))
    words = [_operand(o, instruction.name == "@call") for o in instruction.operands]
    if instruction.name != "@map":
        return [f"{indent}{name} {', '.join(words)}" if words else indent + name]
    outputs = sum(isinstance(o, p.MapOutput) for o in instruction.operands)
    rows, columns, *inputs = words[: len(words) - outputs]
    head = "".join(f", {word}" for word in inputs)
    written = ", ".join(words[len(words) - outputs :])
    lines = [f"@map {rows} x {columns}{head} -> {written}"]
    for operation in instruction.body:
        name = ".".join((operation.name, *operation.suffixes))
        lines.append(f"  {name} {', '.join(_operand(o, True) for o in operation.operands)}")
    return [indent + line for line in (*lines, "@endmap")]


def _operand(operand: TileOperand | MapOperand, bracketed: bool = False) -> str:
    if isinstance(operand, Expr):
        return _index(operand)
    if isinstance(operand, Slot):
        return _slot(operand)
    if isinstance(operand, Address):
        return f"{operand.buffer}[{_index(operand.offset)}]"
    if isinstance(operand, Atom):
        return repr(operand)
    if isinstance(operand, p.Dims):
        return asm_printer.dims(operand, _index)
    if isinstance(operand, p.MapInput):
        return asm_printer.map_input(operand, _slot)
    if isinstance(operand, p.MapOutput):
        return asm_printer.map_output(operand, _slot)
    return asm_printer.operand(operand, bracketed)


def _slot(slot: Slot) -> str:
    return slot.tile.name if slot.tile.depth == 1 else f"{slot.tile.name}[{_index(slot.index)}]"


def _index(expr: Expr) -> str:
    text = repr(expr)
    return text if text.lstrip("-").isdigit() else f"{{{text}}}"
