"""Pass `emit-assembly`: allocate registers and print the program as assembly (``ir.asm``)."""

from __future__ import annotations

from ftm_backend.codegen import linearize
from ftm_backend.codegen.donation_fault_check import can_fault, check_donation
from ftm_backend.codegen.errors import CodegenError
from ftm_backend.ir.tile.kernel_tree import (
    TileDecl,
    TileKernel,
    callee_and_arguments,
    gsm_bytes,
    instructions,
)
from ftm_backend.ir.tile.printer import header, parameters
from ftm_backend.ir.tile.program import CompiledFunction, TileProgram
from ftm_backend.target.presets import MachineParameters

__all__ = ["CodegenError", "emit", "emit_function"]


def emit(program: TileProgram, machine: MachineParameters) -> str:
    """Return the assembly text of a program.

    Raises:
        CodegenError: A function cannot be emitted; the error names it.
    """
    check_donation(
        program.functions,
        program.in_bounds,
        {symbol for symbol, *_, alias in program.outputs if alias},
    )
    lines = header(program, machine.name)
    called = _called(program)
    for function in program.functions:
        body = function.lines if isinstance(function, CompiledFunction) else _body(function)
        if function.name in called:
            lines += ["", f"@func {function.name}", *body, "@ret"]
        if program.function_cache is not None and function.name in program.keys:
            assert isinstance(function, TileKernel)
            compiled = CompiledFunction(
                function.name,
                tuple(body),
                function.parameters,
                can_fault(function),
                gsm_bytes(function),
            )
            key = program.keys[function.name]
            program.function_cache.put(key, compiled, compiled.size(key))
    return "\n".join(lines) + "\n"


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


def emit_function(kernel: TileKernel) -> list[str]:
    """Return the lines of one function, ``@func`` to ``@ret``."""
    return [f"@func {kernel.name}", *_body(kernel), "@ret"]


def _body(kernel: TileKernel) -> list[str]:
    calls = any(instruction.kind == "call" for instruction in instructions(kernel.body))
    return [
        *parameters(kernel),
        *(_declaration(tile) for tile in kernel.tiles),
        *linearize.write(kernel, calls),
    ]


def _declaration(tile: TileDecl) -> str:
    shape = f"{tile.rows}x{tile.columns}"
    return f"  @tile {tile.name}, {tile.space}, {tile.dtype}, {shape}, {tile.depth}, {tile.offset}"
