"""Text of kernels: MLIR in which each kernel is an ``ftm.kernel`` around its operations.

Attributes of a kernel are its ``kind`` and, once passes have set them, ``one_core``, ``faults``,
``barrier``, ``share``, ``schedule`` (`Schedule`), the symbols of its buffers (``inputs``,
``outputs``, ``workspaces``), and its ``call``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping, Sequence

from ftm_backend import mlir
from ftm_backend.ir.linalg.function import (
    LinalgFunction,
    SequentialLoop,
    Statement,
    Tensor,
    Update,
    Value,
)
from ftm_backend.ir.linalg.printer import FunctionPrinter, tensor_type
from ftm_backend.midend.analysis.use_def import FunctionUses
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule, runs
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.kernel_ir.program import (
    ArenaRegion,
    BufferWindow,
    ConstantBuffer,
    InputBuffer,
    KernelProgram,
    OutputBuffer,
    ScalarParameter,
)
from ftm_backend.midend.schedule.gemm.kernel_schedule import pin_schedule
from ftm_backend.midend.transforms.fusion.fuse_ops import place_results
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.midend.transforms.fusion.kernel_builder import KernelBuilder
from ftm_backend.midend.transforms.memory.outline_kernels import KernelCall
from ftm_backend.mlir_stubs import Module, Operation
from ftm_backend.target.presets import MachineParameters

__all__ = ["print_kernels", "print_program", "read_kernels", "read_program"]


class _Printer(FunctionPrinter):
    """Prints kernels in order; an update follows the kernels that compute its parts."""

    def __init__(
        self,
        function: LinalgFunction,
        kernels: list[Kernel],
        attributes: dict[str, str],
        calls: Sequence[KernelCall] = (),
    ) -> None:
        super().__init__(function, attributes)
        self._kernels, self._calls = kernels, dict(zip(kernels, calls, strict=bool(calls)))
        self._uses = FunctionUses(function, nested=True)
        self._holders: dict[Statement, list[set[Statement]]] = {}
        for kernel in kernels:
            members = set(kernel.statements)
            for statement in kernel.statements:
                self._holders.setdefault(statement, []).append(members)

    def body(self) -> None:
        self._body(self.function, self._kernels)

    def _body(self, function: LinalgFunction, kernels: Sequence[Kernel]) -> None:
        """Print the kernels of a function, or of the body of a loop."""
        waiting = [u for u in function.body if isinstance(u, Update)]
        done: set[Value] = set()
        for first, end in runs(kernels):
            run, repeat = kernels[first:end], kernels[first].repeat
            if repeat is not None and repeat.body is not function:
                self.loop(repeat, functools.partial(self._body, repeat.body, run))
                done.update(repeat.results)
                self._updates(waiting, done)
                continue
            self._run(run, waiting, done)

    def _run(self, kernels: Sequence[Kernel], waiting: list[Update], done: set[Value]) -> None:
        for kernel in kernels:
            self._kernel(kernel)
            done.update(r.value for s in kernel.statements for r in s.results)
            self._updates(waiting, done)

    def _updates(self, waiting: list[Update], done: set[Value]) -> None:
        for update in list(waiting):
            base = update.base.value
            if all(p.value.value in done for p in update.parts) and (
                base.producer is None or base in done
            ):
                self.operation(update)
                done.add(update.result)
                waiting.remove(update)

    def _is_read_outside(self, value: Value) -> bool:
        """Return whether something but a kernel that computes ``value`` uses it."""
        return value in self._uses.results or any(
            not isinstance(user, Statement)
            or any(value.producer not in held for held in self._holders[user])
            for user in self._uses.readers(value)
        )

    def _kernel(self, kernel: Kernel) -> None:
        members = set(kernel.statements)
        self._read_values(kernel, members)
        known, yielded = self._divide_results(kernel, members)
        lines, self.lines = self.lines, []
        self.indent += "  "
        shared = dict(self._once), dict(self._uniform)
        for statement in kernel.statements:
            self.operation(statement)
        self._once, self._uniform = shared
        names = ", ".join(self._names[v] for v in yielded)
        types = ", ".join(tensor_type(v.shape, v.dtype) for v in yielded)
        self.line(f'"ftm.yield"({names}) : ({types}) -> ()')
        self.indent = self.indent[:-2]
        inside, self.lines = self.lines, lines
        name = self._name_results(yielded)
        self._names.update(known)
        self.line(f'{name} = "ftm.kernel"() ({{')
        self.lines += inside
        self.line(f"}}) {{{_words(kernel, self._calls.get(kernel))}}} : () -> ({types})")

    def _divide_results(
        self, kernel: Kernel, members: set[Statement]
    ) -> tuple[dict[Value, str], list[Value]]:
        """Return the names of results that earlier kernels yield, and the results to yield.

        The first of the kernels that compute a value stores it.
        """
        known: dict[Value, str] = {}
        yielded: list[Value] = []
        for statement in kernel.statements:
            values = [result.value for result in statement.results]
            if self._holders[statement][0] == members:
                yielded += filter(self._is_read_outside, values)
            else:
                known.update((value, self._names[value]) for value in values)
        return known, yielded

    def _read_values(self, kernel: Kernel, members: Collection[Statement]) -> None:
        """Print the values that a kernel reads from other kernels."""
        for statement in kernel.statements:
            for value in statement.reads():
                if value.producer not in members:
                    self.value(value)
            for operand in statement.operands:
                if operand.value.border is not None:
                    self.value(operand.value)

    def _name_results(self, yielded: Sequence[Value]) -> str:
        """Name the results of a kernel; return their names together."""
        base, count = f"%{self._count}", len(yielded)
        self._count += 1
        for k, value in enumerate(yielded):
            self._names[value] = f"{base}#{k}" if count > 1 else base
        return f"{base}:{count}" if count > 1 else base


def _words(kernel: Kernel, call: KernelCall | None) -> str:
    words = [f'kind = "{kernel.kind}"']
    words += [name for name in ("one_core", "faults", "barrier") if getattr(kernel, name)]
    words += [f"share = {kernel.share}"] if kernel.share > 1 else []
    for name in ("inputs", "outputs", "workspaces"):
        symbols = [v.symbol for v in getattr(kernel, name)]
        if symbols and all(symbols):
            words.append(f"{name} = [{', '.join(map(_quoted, symbols))}]")
    if kernel.schedule is not None:
        words.append(f'schedule = "{kernel.schedule}"')
    if call is not None:
        words.append(f'call = "{call.text}"')
    return ", ".join(words)


def _quoted(symbol: str | None) -> str:
    return f'"{symbol}"'


def print_kernels(grouped: KernelModule, stage: str) -> str:
    """Return the text of kernels on tensors."""
    return _Printer(grouped.function, grouped.kernels, {"ftm.stage": f'"{stage}"'}).text()


def print_program(program: KernelProgram, stage: str) -> str:
    """Return the text of a program with the symbols of all buffers."""
    facts = {
        name: getattr(program, name)
        for name in ("inputs", "scalars", "outputs", "consts", "arena", "windows", "arena_bytes")
    }
    attributes = {"ftm.stage": f'"{stage}"', "ftm.program": json.dumps(json.dumps(facts))}
    return _Printer(program.function, program.kernels, attributes, program.calls).text()


def read_kernels(text: str, machine: MachineParameters) -> KernelModule:
    """Return the kernels of a text; the inverse of `print_kernels`.

    Raises:
        ValueError: The text has no kernels.
        ir.MLIRError: The text is not MLIR.
    """
    with mlir.context(), mlir.ir.Location.unknown():
        return _read(mlir.ir.Module.parse(text), machine)[0]


def read_program(text: str, machine: MachineParameters) -> KernelProgram:
    """Return the program of a text; the inverse of `print_program`.

    Raises:
        ValueError: The text has no kernels or no buffers.
        ir.MLIRError: The text is not MLIR.
    """
    with mlir.context(), mlir.ir.Location.unknown():
        module = mlir.ir.Module.parse(text)
        if "ftm.program" not in module.operation.attributes:
            raise ValueError(
                "the module has no attribute ftm.program: run pass assign-buffers first"
            )
        facts = json.loads(module.operation.attributes["ftm.program"].value)
        grouped, operations = _read(module, machine)
        program = KernelProgram(
            grouped.function,
            grouped.kernels,
            [InputBuffer(*row) for row in facts["inputs"]],
            [ScalarParameter(*row) for row in facts["scalars"]],
            [OutputBuffer(*row) for row in facts["outputs"]],
            [ConstantBuffer(*row) for row in facts["consts"]],
            [ArenaRegion(*row) for row in facts["arena"]],
            [BufferWindow(*row) for row in facts["windows"]],
            facts["arena_bytes"],
        )
        regions = {region.symbol: region for region in program.arena}
        for kernel, op in zip(program.kernels, operations, strict=True):
            _set_symbols(kernel, op, regions)
        return program


def _set_symbols(kernel: Kernel, op: Operation, regions: Mapping[str, ArenaRegion]) -> None:
    """Set the workspaces of a kernel, and the symbols of its buffers."""
    symbols = {
        name: [attribute.value for attribute in op.attributes[name]]
        for name in ("inputs", "outputs", "workspaces")
        if name in op.attributes
    }
    kernel.workspaces = [
        Value(regions[symbol].dtype, tuple(regions[symbol].shape))
        for symbol in symbols.get("workspaces", ())
    ]
    for name in ("inputs", "outputs", "workspaces"):
        for value, symbol in zip(getattr(kernel, name), symbols.get(name, ()), strict=True):
            value.symbol = symbol


def _read(module: Module, machine: MachineParameters) -> tuple[KernelModule, list[Operation]]:
    from ftm_backend.ir.linalg.reader import FunctionReader

    groups: list[tuple[Operation, list[Statement], LinalgFunction]] = []

    def kernel(reader: FunctionReader, op: Operation) -> None:
        before = len(reader.function.body)
        operations = list(op.regions[0].blocks[0].operations)
        for inner in operations[:-1]:
            reader.read(inner)
        made = reader.function.body[before:]
        if any(isinstance(item, Update) for item in made):
            raise ValueError("updates lie outside of kernels")
        groups.append(
            (op.operation, [s for s in made if isinstance(s, Statement)], reader.function)
        )
        for outer, ssa in zip(op.results, operations[-1].operands, strict=True):
            tensor = reader.tensors[ssa]
            reader.tensors[outer] = (
                tensor if tensor.value.producer is not None else Tensor.whole(tensor.value)
            )

    reader = FunctionReader(module, {"ftm.kernel": kernel})
    function = reader.function
    builders = {id(function): KernelBuilder(function, machine)}
    for item in function.body:
        if isinstance(item, SequentialLoop):
            place_results(item)
            builders[id(item.body)] = KernelBuilder(item.body, machine, repeat=item)
    kernels: list[Kernel] = []
    for op, statements, inside in groups:
        group = FusionGroup(
            KernelKind.parse(op.attributes["kind"].value),
            statements,
            one_core="one_core" in op.attributes,
        )
        builder = builders[id(inside)]
        builder.count = len(kernels)
        kernels.append(builder.kernel(group))
        kernels[-1].faults, kernels[-1].barrier = (
            "faults" in op.attributes,
            "barrier" in op.attributes,
        )
        if "share" in op.attributes:
            kernels[-1].shrink(op.attributes["share"].value)
        if "schedule" in op.attributes:
            pin_schedule(kernels[-1], op.attributes["schedule"].value)
    return KernelModule(function, kernels), [op for op, *_ in groups]
