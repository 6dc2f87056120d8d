"""Convert MLIR's torch dialect to a trace, for programs of other front ends.

The reverse of `trace_to_torch_dialect.import_trace`. Each operation becomes one node; constants,
lists and 0-dim tensors of runtime scalars become arguments.
"""

from __future__ import annotations

import re

from ftm_backend import dtypes, mlir
from ftm_backend.frontend.trace_to_torch_dialect import ARGS_ATTRIBUTE, operand_names
from ftm_backend.ir.trace.trace import DType, Node, Ref, ScalarRef, TensorType, Trace, TraceError
from ftm_backend.mlir_stubs import Module, Operation, Type, Value

_VTENSOR = re.compile(r"!torch\.vtensor<\[([\d,]*)\],(.+)>")
_TOKENS = {facts.torch: token for token, facts in dtypes.DTYPES.items()}
_CONSTANTS = frozenset(f"torch.constant.{kind}" for kind in ("int", "float", "bool", "str", "none"))


def read_torch(module: Module) -> Trace:
    """Convert a module of the torch dialect to a trace, in the current MLIR context.

    Raises:
        TraceError: The module has an operation or a type that traces do not support.
    """
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    if len(functions) != 1:
        raise TraceError(f"a program is one function, found {len(functions)}")
    return _Reader(functions[0].operation).trace


class _Reader:
    def __init__(self, function: Operation) -> None:
        self.trace = Trace()
        self._values: dict[Value, object] = {}
        self._count = 0
        self._names = operand_names()
        block = function.regions[0].blocks[0]
        for argument in block.arguments:
            type_ = _tensor_type(argument.type)
            if type_ is None:
                self._values[argument] = ScalarRef(len(self.trace.scalars))
                self.trace.scalars.append("f64" if str(argument.type) == "!torch.float" else "i64")
            else:
                self._values[argument] = self._next_ref()
                self.trace.params.append(type_)
        operations = list(block.operations)
        for op in operations[:-1]:
            self._read(op.operation)
        for returned in operations[-1].operation.operands:
            result = self._values[returned]
            if not isinstance(result, Ref):
                raise TraceError(f"result {len(self.trace.results)} is no tensor")
            self.trace.results.append(result.index)

    def _next_ref(self) -> Ref:
        self._count += 1
        return Ref(self._count - 1)

    def _read(self, op: Operation) -> None:
        name = op.name
        if name in _CONSTANTS:
            self._values[op.results[0]] = _constant(op)
        elif name == "torch.prim.ListConstruct":
            self._values[op.results[0]] = tuple(self._values[v] for v in op.operands)
        elif name == "torch.prim.NumToTensor.Scalar":
            self._values[op.results[0]] = self._values[op.operands[0]]
        else:
            self._read_node(op)

    def _read_node(self, op: Operation) -> None:
        if op.name == "torch.operator":
            name = mlir.ir.StringAttr(op.attributes["name"]).value
            operands = tuple(
                mlir.ir.StringAttr(a).value
                for a in mlir.ir.ArrayAttr(op.attributes[ARGS_ATTRIBUTE])
            )
        else:
            name = op.name.removeprefix("torch.")
            operands, _ = self._names.get(op.name, ((), 0))
        if len(operands) != len(op.operands):
            raise TraceError(
                f"{op.name}: the names of its operands are unknown,"
                " so a trace cannot name its arguments"
            )
        arguments = []
        for key, operand in zip(operands, op.operands, strict=True):
            value = self._values[operand]
            if key.endswith("dtype") and isinstance(value, int) and not isinstance(value, bool):
                value = DType(dtypes.by_number(value))
            arguments.append((key, value))
        types = tuple(_tensor_type(r.type) for r in op.results)
        op_name = name if name.startswith("ftm.") else name.replace(".", "::", 1)
        self.trace.nodes.append(Node.of(op_name, arguments, types))
        for result in op.results:
            self._values[result] = self._next_ref()


def _tensor_type(kind: Type) -> TensorType | None:
    """Return the tensor type of a torch dialect type, or None if it is no tensor."""
    match = _VTENSOR.fullmatch(str(kind))
    if match is None:
        return None
    if match[2] not in _TOKENS:
        raise TraceError(f"{kind}: traces do not have this dtype; they have {', '.join(_TOKENS)}")
    return TensorType(_TOKENS[match[2]], tuple(int(n) for n in match[1].split(",") if n))


def _constant(op: Operation) -> object:
    kind = op.name.rpartition(".")[2]
    if kind == "none":
        return None
    value = op.attributes["value"].value
    return bool(value) if kind == "bool" else value
