"""Pass `emit-assembly`: allocate registers, and make a program of assembly (``ir.asm``)."""

from __future__ import annotations

from dataclasses import replace

from ftm_backend.codegen import linearize
from ftm_backend.codegen.donation_fault_check import check_donation
from ftm_backend.codegen.errors import CodegenError
from ftm_backend.ir.asm import program as p
from ftm_backend.ir.asm.printer import function_lines
from ftm_backend.ir.tile.kernel_tree import (
    TileDecl,
    TileKernel,
    callee_and_arguments,
    instructions,
)
from ftm_backend.ir.tile.program import CompiledFunction, TileProgram
from ftm_backend.target.presets import MachineParameters

__all__ = ["CodegenError", "emit", "emit_function"]


def emit(program: TileProgram, machine: MachineParameters) -> p.AsmProgram:
    """Return the assembly of a program.

    Raises:
        CodegenError: A function cannot be emitted; the error names it.
    """
    check_donation(
        program.functions,
        program.in_bounds,
        {output.name for output in program.buffers("out") if output.alias},
    )
    made = p.AsmProgram("main", machine.name, [*program.header])
    called = _called(program)
    for function in program.functions:
        if isinstance(function, TileKernel):
            function = CompiledFunction.of(function, emit_function(function))
            if program.function_cache is not None and function.name in program.keys:
                program.function_cache.put(program.keys[function.name], function, function.size)
        if function.name in called:
            made.functions += [p.Comment(""), function.code]
    return made


def _called(program: TileProgram) -> set[str]:
    """Return ``main`` and the functions that it calls.

    Other functions are compiled only to be cached for later programs.
    """
    main = program.functions[-1]
    assert isinstance(main, TileKernel)
    return {
        main.name,
        *(
            callee_and_arguments(instruction)[0]
            for instruction in instructions(main.body)
            if instruction.kind == "call"
        ),
    }


def emit_function(kernel: TileKernel) -> p.AsmFunction:
    """Return one function."""
    calls = any(instruction.kind == "call" for instruction in instructions(kernel.body))
    tiles = map(_declaration, kernel.tiles)
    code = linearize.write(kernel, calls)
    function = p.AsmFunction(kernel.name, [*map(replace, kernel.parameters), *tiles, *code])
    function.printed = tuple(function_lines(function))
    return function


def _declaration(tile: TileDecl) -> p.TileDirective:
    return p.TileDirective(
        tile.name, tile.space, tile.dtype, tile.rows, tile.columns, tile.depth, tile.offset
    )
