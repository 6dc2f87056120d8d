"""Reads a function made of kernels: its arguments, and each ``ftm.kernel`` as a ``KernelView``."""

from __future__ import annotations

from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.affine import dot, volume
from ftm_backend.midend.kernel import KernelView, Result, Store, Value
from ftm_backend.midend.reader import Reader, is_scalar_type
from ftm_backend.midend.reloop import align_all
from ftm_backend.mlir import ir


class FunctionReader:
    """The grouped ``@main``: ``inputs`` and ``scalars`` are its arguments with their symbols.

    Args:
        function: the ``func.func``.
        machine: passed on to the kernels' views.
    """

    def __init__(self, function: ir.Operation, machine: MachineParameters):
        self._machine = machine
        self._reader = Reader()
        self._count = 0
        block = function.regions[0].blocks[0]
        self.inputs: list[ir.Value] = []
        self.scalars: list[ir.Value] = []
        self.kernels: list[ir.Operation] = []
        for argument in block.arguments:
            if is_scalar_type(argument.type):
                self._reader.bind_scalar(argument, f"s{len(self.scalars)}")
                self.scalars.append(argument)
            else:
                self._reader.bind_tensor(argument, f"b{len(self.inputs)}")
                self.inputs.append(argument)
        outside = []
        for op in block.operations:
            if op.operation.name == "ftm.kernel":
                self.kernels.append(op.operation)
            elif op.operation.name not in ("ftm.view", "func.return"):
                outside.append(op)
        self._reader.read(outside)

    def kernel(self, op: ir.Operation) -> KernelView:
        """The view of one kernel; buffers have symbols once ``plan-buffers`` has run."""
        reader = self._reader
        block = op.regions[0].blocks[0]
        symbols = _words(op, "inputs") or [None] * len(block.arguments)
        arguments: dict[Value, int] = {}
        for number, (argument, symbol) in enumerate(zip(block.arguments, symbols, strict=True)):
            arguments[reader.bind_tensor(argument, symbol)] = number
        reader.statements = []
        operations = list(block.operations)
        reader.read(operations)
        view = KernelView(
            f"kernel_{self._count}", op.attributes["kind"].value, self._machine, reader.statements,
            "one_core" in op.attributes, _words(op, "workspaces"))
        self._count += 1
        view.arguments = list(arguments)
        results = {r.value: r for s in view.statements for r in s.results}
        outputs = _words(op, "outputs") or [""] * len(op.results)
        for ssa, symbol in zip(operations[-1].operands, outputs, strict=True):
            value = reader.tensors[ssa].value
            view.outputs.append(results.get(value))
            view.ties.append(arguments.get(self._place(value, symbol, results)))
        if view.kind == "contraction":
            view.statements = align_all(view.statements)
            for s in view.statements:
                for result in s.results:
                    result.value.producer = s
        return view

    def _place(self, value: Value, symbol: str, results: dict[Value, Result]) -> Value | None:
        """Adds the stores that put ``value`` into buffer ``symbol``; gives the value that it is written over."""
        elements = volume(value.shape)
        while value in self._reader.updates:
            update = self._reader.updates[value]
            result = results[update.value.value]
            rank = len(result.index.coeffs)
            result.stores.append(
                Store(symbol, elements, dot(result.indices, update.view.strides, update.view.offset, rank)))
            value = update.base.value
        if value in results:
            result = results[value]
            result.stores.append(Store(symbol, elements, result.index))
            if result.value.producer is not None and result.value.producer.op == "ftm.scatter":
                return result.value.producer.operands[0].value
            return None
        return value


def _words(op: ir.Operation, name: str) -> list[str]:
    return [a.value for a in op.attributes[name]] if name in op.attributes else []


