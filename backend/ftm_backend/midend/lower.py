"""Pass ``lower-kernels``: each ``ftm.kernel`` becomes a function of tiles, DMA and maps; ``@main`` calls them."""

from __future__ import annotations

from ftm_backend.codegen.builder import TileBuilder
from ftm_backend.codegen.replacing import IN_BOUNDS
from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.kernel import KernelView
from ftm_backend.midend.lowerings import LOWERINGS
from ftm_backend.midend.program import Program
from ftm_backend.midend.region import FunctionReader
from ftm_backend.mlir import func, ir


def lower_kernels(module: ir.Module, machine: MachineParameters) -> None:
    """Replaces the grouped ``@main`` by one function per kernel and a ``@main`` without arguments.

    Raises:
        ValueError: ``plan-buffers`` has not run.
    """
    Program.of(module)
    with module.context, ir.Location.unknown():
        for function in list(module.body.operations):
            if function.operation.name == "func.func" and len(function.regions[0].blocks):
                _lower_function(module, function.operation, machine)


def _lower_function(module: ir.Module, function: ir.Operation, machine: MachineParameters) -> None:
    reader = FunctionReader(function, machine)
    calls: list[tuple[KernelView, bool]] = []
    with ir.InsertionPoint(module.body):
        for op in reader.kernels:
            view = reader.kernel(op)
            calls.append((view, "barrier" in op.attributes))
            function_block = _function(view.name)
            if "faults" not in op.attributes and any(s.gathers or not s.op.startswith("linalg.") for s in view.statements):
                function_block.owner.attributes[IN_BOUNDS] = ir.UnitAttr.get()
            with ir.InsertionPoint(function_block):
                LOWERINGS[view.kind].lower(view, TileBuilder())
                func.ReturnOp([])
        function.erase()
        with ir.InsertionPoint(_function("main")):
            _call(calls, TileBuilder())
            func.ReturnOp([])


def _call(calls: list[tuple[KernelView, bool]], b: TileBuilder) -> None:
    """Calls kernels in order; those of one core that follow each other share one test."""
    position = 0
    while position < len(calls):
        view, barrier = calls[position]
        if barrier:
            b.barrier()
        last = position + 1
        if not view.one_core:
            b.call(view.name)
        else:
            while last < len(calls) and calls[last][0].one_core and not calls[last][1]:
                last += 1
            with b.if_(b.compare("eq", b.core_id(), 0)):
                for other, _ in calls[position:last]:
                    b.call(other.name)
        position = last


def _function(name: str) -> ir.Block:
    return func.FuncOp(name, ([], [])).add_entry_block()
