"""Pass ``lower-kernels``: each kernel becomes a function of tiles, DMA and maps; ``main`` calls them."""

from __future__ import annotations

from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.kernel import Kernel
from ftm_backend.midend.lowerings import LOWERINGS
from ftm_backend.midend.program import Program
from ftm_backend.tile.builder import TileBuilder
from ftm_backend.tile.program import TileProgram

__all__ = ["lower_kernels"]


def lower_kernels(program: Program, machine: MachineParameters) -> TileProgram:
    """The tile level of a planned program."""
    made = TileProgram(machine.name, inputs=program.inputs, scalars=program.scalars, outputs=program.outputs,
                       consts=program.consts, arena=program.arena)
    for kernel in program.kernels:
        b = TileBuilder(kernel.name)
        LOWERINGS[kernel.kind].lower(kernel, b)
        made.kernels.append(b.kernel)
        if not kernel.faults:
            made.in_bounds.add(kernel.name)
    b = TileBuilder("main")
    _call(program.kernels, b)
    made.kernels.append(b.kernel)
    return made


def _call(kernels: list[Kernel], b: TileBuilder) -> None:
    """Calls kernels in order; those of one core that follow each other share one test."""
    position = 0
    while position < len(kernels):
        kernel = kernels[position]
        if kernel.barrier:
            b.barrier()
        last = position + 1
        if not kernel.one_core:
            b.call(kernel.name)
        else:
            while last < len(kernels) and kernels[last].one_core and not kernels[last].barrier:
                last += 1
            with b.if_(b.compare("eq", b.core_id(), 0)):
                for other in kernels[position:last]:
                    b.call(other.name)
        position = last
