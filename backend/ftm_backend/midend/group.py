"""Pass ``group-kernels``: operations that share a loop nest go into one ``ftm.kernel``."""

from __future__ import annotations

from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.fuse import Fuser
from ftm_backend.midend.kernel import Statement
from ftm_backend.midend.kernel_build import KernelWriter
from ftm_backend.midend.reader import Reader, is_scalar_type
from ftm_backend.mlir import ir


def group_kernels(module: ir.Module, machine: MachineParameters) -> None:
    """Wraps every computing operation of the function into kernels."""
    with module.context, ir.Location.unknown():
        for function in module.body.operations:
            if function.operation.name == "func.func" and len(function.regions[0].blocks):
                _group_function(function.regions[0].blocks[0], machine)


def _group_function(block: ir.Block, machine: MachineParameters) -> None:
    reader = Reader()
    for number, argument in enumerate(block.arguments):
        if is_scalar_type(argument.type):
            reader.bind_scalar(argument, f"s{number}")
        else:
            reader.bind_tensor(argument)
    reader.read(block.operations)
    statements = [s for s in reader.statements if s.op != "linalg.fill" or _needs_buffer(s)]
    writer = KernelWriter(block)
    for cluster in Fuser(statements, reader.updates, machine).clusters():
        writer.write(cluster)
    writer.finish()


def _needs_buffer(fill: Statement) -> bool:
    """Whether a fill is more than a constant of those who read it."""
    buffered = ("func.return", "ftm.scatter", "ftm.update")
    return any(use.owner.operation.name in buffered for use in fill.source.results[0].uses)
