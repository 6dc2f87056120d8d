"""Code generation, in order: kernels on tiles in, kernels on tiles out that only lack registers."""

from __future__ import annotations

from ftm_backend.codegen import multibuffer, scratchpad, sync
from ftm_backend.codegen.emit import emit
from ftm_backend.codegen.keep_in_gsm import keep_in_gsm
from ftm_backend.machine.presets import MachineParameters
from ftm_backend.stages import Form, Pass
from ftm_backend.tile.program import TileProgram
from ftm_backend.tile.reader import read_tiles
from ftm_backend.tile.text import print_tiles

__all__ = ["EMIT", "PASSES", "run"]

_TILES = Form(print_tiles, lambda content, machine: read_tiles(content), ".tiles")


def _overlap(program: TileProgram, machine: MachineParameters) -> TileProgram:
    if machine.dma_overlaps:
        places = multibuffer.Places.of(program)
        for kernel in program.kernels:
            multibuffer.overlap(kernel, machine, places.within(kernel))
    return program


def _plan(program: TileProgram, machine: MachineParameters) -> TileProgram:
    for kernel in program.kernels:
        scratchpad.plan(kernel, machine)
    return program


def _wait(program: TileProgram, machine: MachineParameters) -> TileProgram:
    del machine
    for kernel in program.kernels:
        sync.insert_waits(kernel)
    return program


PASSES: tuple[Pass, ...] = (
    Pass("overlap-transfers", _overlap, _TILES, "load the next tile and store the last one while this one is computed"),
    Pass("plan-scratchpad", _plan, _TILES, "give each tile its place in AM, SM or GSM, by liveness"),
    Pass("keep-in-gsm", keep_in_gsm, _TILES, "values between kernels lie in GSM where all kernels of their lifetime leave room"),
    Pass("insert-waits", _wait, _TILES, "wait for each transfer where its slot is used next"),
)

ASSEMBLY = Form(lambda text, stage: text, lambda content, machine: content, ".lan")

EMIT = Pass("emit-assembly", emit, ASSEMBLY, "give scalars registers, loops labels, and print matrix assembly", alias="asm")


def run(program: TileProgram, machine: MachineParameters) -> str:
    """The assembly of a program: all passes, then emission."""
    for step in PASSES:
        program = step.run(program, machine)
    assembly: str = EMIT.run(program, machine)
    return assembly
