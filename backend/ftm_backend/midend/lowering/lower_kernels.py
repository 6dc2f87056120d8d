"""Pass ``lower-kernels``: lower each kernel function to tiles, DMA and maps.

Reads a kernel program with buffers and outlined functions, returns a tile program. ``main`` calls
the functions. Functions that the program knows already (``known``) are reused.
"""

from __future__ import annotations

from ftm_backend.ir.tile import kernel_tree
from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.ir.tile.program import AsmParameter, BufferDirective, ScalarArgument, TileProgram
from ftm_backend.midend.kernel_ir.kernel import Kernel, runs
from ftm_backend.midend.kernel_ir.program import KernelProgram
from ftm_backend.midend.lowering.registry import LOWERINGS
from ftm_backend.midend.transforms.memory.outline_kernels import KernelCall, OutlinedFunction
from ftm_backend.pass_manager import FunctionError
from ftm_backend.target.presets import MachineParameters

__all__ = ["declarations", "lower_kernels"]


def lower_kernels(program: KernelProgram, machine: MachineParameters) -> TileProgram:
    """Return the tile program of a kernel program."""
    made = TileProgram(machine.name, header=declarations(program), function_cache=program.known)
    for function in program.functions:
        written = None if made.function_cache is None else made.function_cache.get(function.key)
        if written is None:
            made.functions.append(_lower(function))
            made.keys[function.name] = function.key
        else:
            made.functions.append(written.named(function.name))
        if not function.kernel.faults:
            made.in_bounds.add(function.name)
    b = TileBuilder("main")
    for first, end in runs(program.kernels):
        kernels, calls, repeat = (
            program.kernels[first:end],
            program.calls[first:end],
            program.kernels[first].repeat,
        )
        if repeat is None:
            _call(kernels, calls, b, 0)
            continue
        if kernels[0].barrier and all(kernel.one_core for kernel in kernels):
            b.barrier()
            kernels[0].barrier = False
        with b.for_(0, repeat.trips) as iteration:
            _call(kernels, calls, b, iteration)
    made.functions.append(b.kernel)
    return made


def declarations(program: KernelProgram) -> list[BufferDirective | ScalarArgument]:
    """Return the declarations of a program's memory, in the order of the text."""
    buffer = BufferDirective
    return [
        *(buffer("in", name, dtype, tuple(shape)) for name, dtype, shape in program.inputs),
        *(ScalarArgument(name, dtype) for name, dtype in program.scalars),
        *(
            buffer("out", name, dtype, tuple(shape), alias)
            for name, dtype, shape, alias in program.outputs
        ),
        *(
            buffer("const", name, dtype, tuple(shape), data=bytes.fromhex(data))
            for name, dtype, shape, data in program.consts
        ),
        *(
            buffer("arena", name, dtype, tuple(shape), offset=offset)
            for name, offset, dtype, shape in program.arena
        ),
    ]


def _lower(function: OutlinedFunction) -> kernel_tree.TileKernel:
    """Lower one function.

    Raises:
        FunctionError: Its kernel cannot be lowered, for whatever reason.
    """
    arguments = function.arguments
    b = TileBuilder(
        function.name,
        {symbol: (f"x{number}", start) for symbol, (number, start) in arguments.buffers.items()},
        {symbol: f"a{number}" for symbol, number in arguments.scalars.items()},
    )
    b.kernel.parameters = [
        *function.parameters,
        *(AsmParameter(name, dtype, scalar=True) for name, dtype in function.scalars),
    ]
    try:
        LOWERINGS[function.kernel.kind].lower(function.kernel, b)
    except Exception as error:
        raise FunctionError(function.name, f"{type(error).__name__}: {error}") from error
    return b.kernel


def _call(kernels: list[Kernel], calls: list[KernelCall], b: TileBuilder, iteration: Index) -> None:
    """Call kernels in order; consecutive one-core kernels share one test of the core's number."""

    def call(number: int) -> None:
        buffers = [
            (symbol, b.add(at, b.mul(iteration, step)) if step else at)
            for symbol, at, step in calls[number].buffers
        ]
        b.call(calls[number].function.name, [*buffers, *calls[number].scalars])

    position = 0
    while position < len(kernels):
        kernel = kernels[position]
        if kernel.barrier:
            b.barrier()
        last = position + 1
        if not kernel.one_core:
            call(position)
        else:
            while last < len(kernels) and kernels[last].one_core and not kernels[last].barrier:
                last += 1
            with b.if_(b.compare("eq", b.core_id(), 0)):
                for number in range(position, last):
                    call(number)
        position = last
