"""The passes of code generation, in order: kernels on tiles in, assembly out."""

from __future__ import annotations

from ftm_backend.codegen import allocate_scratchpad, insert_waits, multi_buffer
from ftm_backend.codegen.emit_assembly import emit
from ftm_backend.codegen.promote_to_gsm import promote_to_gsm
from ftm_backend.ir.asm.parser import parse
from ftm_backend.ir.asm.program import AsmProgram
from ftm_backend.ir.tile.printer import print_tiles
from ftm_backend.ir.tile.program import TileProgram
from ftm_backend.ir.tile.reader import read_tiles
from ftm_backend.pass_manager import (
    OVERLAPPING_DMA,
    IRFormat,
    Pass,
    converts,
    in_place,
    select,
)
from ftm_backend.target.presets import MachineParameters

_TILES = IRFormat("tiles", print_tiles, lambda content, machine: read_tiles(content), ".tiles")
_ASSEMBLY = IRFormat(
    "asm", lambda program, stage: str(program), lambda text, machine: parse(text), ".lan"
)


def _multi_buffer(program: TileProgram, machine: MachineParameters) -> TileProgram:
    aliases = multi_buffer.BufferAliases.of(program)
    for kernel in program.kernels:
        multi_buffer.overlap(kernel, machine, aliases.within(kernel))
    return program


def _allocate_scratchpad(program: TileProgram, machine: MachineParameters) -> TileProgram:
    for kernel in program.kernels:
        allocate_scratchpad.plan(kernel, machine)
    return program


def _insert_waits(program: TileProgram, machine: MachineParameters) -> TileProgram:
    del machine
    for kernel in program.kernels:
        insert_waits.insert_waits(kernel)
    return program


PASSES: tuple[Pass, ...] = (
    Pass(
        "multi-buffer",
        _multi_buffer,
        in_place(_TILES),
        "Load the next tile and store the last one while this one is computed.",
        requires=(OVERLAPPING_DMA,),
    ),
    Pass(
        "allocate-scratchpad",
        _allocate_scratchpad,
        in_place(_TILES),
        "Assign offsets in AM, SM and GSM to tiles, by liveness.",
    ),
    Pass(
        "promote-to-gsm",
        promote_to_gsm,
        in_place(_TILES),
        "Move values between kernels from DDR to GSM, where kernels leave room.",
        requires=(OVERLAPPING_DMA,),
    ),
    Pass(
        "insert-waits",
        _insert_waits,
        in_place(_TILES),
        "Wait for each DMA transfer before the next use of its tile.",
    ),
)
"""All passes but the last one, `EMIT`."""

EMIT = Pass(
    "emit-assembly",
    emit,
    converts(_TILES, _ASSEMBLY),
    "Allocate scalar registers, and linearize loops.",
    alias="asm",
)


def pipeline(machine: MachineParameters) -> tuple[Pass, ...]:
    """Return the passes that run for ``machine`` before `EMIT`, in order."""
    return select(PASSES, machine)


def run(program: TileProgram, machine: MachineParameters) -> AsmProgram:
    """Run the pipeline of ``machine``, and return the assembly of a program, which it changes."""
    for step in pipeline(machine):
        program = step.run(program, machine)
    assembly: AsmProgram = EMIT.run(program, machine)
    return assembly
