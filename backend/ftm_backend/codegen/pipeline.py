"""Code generation, in order: kernels on tiles in, kernels on tiles out that only lack registers."""

from __future__ import annotations

from ftm_backend.codegen import allocate_scratchpad, insert_waits, multi_buffer
from ftm_backend.codegen.asm_printer import emit
from ftm_backend.codegen.promote_to_gsm import promote_to_gsm
from ftm_backend.ir.tile.printer import print_tiles
from ftm_backend.ir.tile.program import TileProgram
from ftm_backend.ir.tile.reader import read_tiles
from ftm_backend.pass_manager import IRFormat, Pass
from ftm_backend.target.presets import MachineParameters

__all__ = ["EMIT", "PASSES", "run"]

_TILES = IRFormat(print_tiles, lambda content, machine: read_tiles(content), ".tiles")


def _overlap(program: TileProgram, machine: MachineParameters) -> TileProgram:
    if machine.dma_overlaps:
        places = multi_buffer.SlotPlaces.of(program)
        for kernel in program.kernels:
            multi_buffer.overlap(kernel, machine, places.within(kernel))
    return program


def _plan(program: TileProgram, machine: MachineParameters) -> TileProgram:
    for kernel in program.kernels:
        allocate_scratchpad.plan(kernel, machine)
    return program


def _wait(program: TileProgram, machine: MachineParameters) -> TileProgram:
    del machine
    for kernel in program.kernels:
        insert_waits.insert_waits(kernel)
    return program


PASSES: tuple[Pass, ...] = (
    Pass(
        "multi-buffer",
        _overlap,
        _TILES,
        "load the next tile and store the last one while this one is computed",
    ),
    Pass(
        "allocate-scratchpad",
        _plan,
        _TILES,
        "give each tile its place in AM, SM or GSM, by liveness",
    ),
    Pass(
        "promote-to-gsm",
        promote_to_gsm,
        _TILES,
        "values between kernels lie in GSM where all kernels of their lifetime leave room",
    ),
    Pass("insert-waits", _wait, _TILES, "wait for each transfer where its slot is used next"),
)

ASSEMBLY = IRFormat(lambda text, stage: text, lambda content, machine: content, ".lan")

EMIT = Pass(
    "emit-assembly",
    emit,
    ASSEMBLY,
    "give scalars registers, loops labels, and print matrix assembly",
    alias="asm",
)


def run(program: TileProgram, machine: MachineParameters) -> str:
    """The assembly of a program: all passes, then emission."""
    for step in PASSES:
        program = step.run(program, machine)
    assembly: str = EMIT.run(program, machine)
    return assembly
