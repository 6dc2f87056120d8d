"""Pass ``group-kernels``: operations that share a loop nest go into one ``ftm.kernel``."""

from __future__ import annotations

from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend import contraction
from ftm_backend.midend.affine import volume
from ftm_backend.midend.kernel import Statement
from ftm_backend.midend.kernel_build import Cluster, KernelWriter
from ftm_backend.midend.reader import Reader
from ftm_backend.mlir import ir

ONE_CORE_WORK = 20_000
"""Element operations below which a nest kernel runs on one core: a barrier costs as much as this work."""


def group_kernels(module: ir.Module, machine: MachineParameters) -> None:
    """Wraps every computing operation of ``@main`` into kernels."""
    with module.context, ir.Location.unknown():
        for function in module.body.operations:
            if function.operation.name == "func.func" and len(function.regions[0].blocks):
                _group_function(function.regions[0].blocks[0], machine)


def _group_function(block: ir.Block, machine: MachineParameters) -> None:
    reader = Reader()
    for number, argument in enumerate(block.arguments):
        if isinstance(argument.type, ir.RankedTensorType):
            reader.bind_tensor(argument)
        else:
            reader.bind_scalar(argument, f"s{number}")
    reader.read(block.operations)
    writer = KernelWriter(block)
    for cluster in form_clusters(reader, block, machine):
        writer.write(cluster)
    writer.finish()


def form_clusters(reader: Reader, block: ir.Block, machine: MachineParameters) -> list[Cluster]:
    """Clusters of the statements that were read, each after those whose results it reads."""
    clusters = []
    for statement in reader.statements:
        if statement.op == "linalg.fill" and not _needs_buffer(statement):
            continue
        clusters.append(single(statement, machine))
    return clusters


def single(statement: Statement, machine: MachineParameters) -> Cluster:
    """The kernel that holds one statement alone."""
    if statement.op == "ftm.scatter":
        return Cluster("rows", [statement], False)
    if contraction.match(statement) is not None:
        return Cluster("contraction", [statement], contraction.one_core([statement], machine))
    return Cluster("nest", [statement], nest_work([statement]) < ONE_CORE_WORK)


def nest_work(statements: list[Statement]) -> int:
    """Element operations of a nest kernel, roughly."""
    return sum(max(s.volume, volume(s.results[0].value.shape)) for s in statements)


def _needs_buffer(statement: Statement) -> bool:
    """Whether a fill is more than a constant of those who read it."""
    for use in statement.source.results[0].uses:
        name = use.owner.operation.name
        if name in ("func.return", "ftm.scatter", "ftm.view") or (name == "ftm.update"):
            return True
    return False
