"""torch dialect -> linalg: walks the function and lowers each op by its record.

The result is a new module: ``func.func @main`` from tensors and scalars (f64, i64) to tensors, with the
types that inputs and outputs have in memory in ``ftm.inputs`` and ``ftm.outputs`` (a ``u8`` tensor is ``i8`` there).
"""

from __future__ import annotations

import re
from typing import Any

from ftm_backend import mlir
from ftm_backend.frontend import dtypes
from ftm_backend.frontend.builder import Builder, LoweringError, Value
from ftm_backend.frontend.elements import Elem
from ftm_backend.frontend.importer import ARGS_ATTRIBUTE, operand_names
from ftm_backend.frontend.ops.record import RECORDS, OpRecord
from ftm_backend.frontend.trace import TensorType

__all__ = ["LoweringError", "lower_to_linalg"]

_VTENSOR = re.compile(r"!torch\.vtensor<\[([\d,]*)\],(.+)>")
_TOKENS = {facts.torch: token for token, facts in dtypes.DTYPES.items()}
_MEANINGLESS = frozenset({"device", "layout", "pin_memory", "generator", "non_blocking"})
_CONSTANTS = frozenset(f"torch.constant.{kind}" for kind in ("int", "float", "bool", "str", "none"))


def lower_to_linalg(module: Any) -> Any:
    """Lowers a module of the torch dialect.

    Args:
        module: holds one ``func.func @main`` with one block, as the importer builds it.

    Returns:
        torch_mlir.ir.Module: a new module in the same context.

    Raises:
        LoweringError: for an op without a record, or arguments that its record does not take.
    """
    ir = mlir.ir
    from ftm_backend.frontend import ops  # noqa: F401  (registers the records)

    with module.context, ir.Location.unknown():
        result = ir.Module.create()
        source = module.body.operations[0]
        with ir.InsertionPoint(result.body):
            _Lowering(source).build()
    return result


class _Lowering:
    """State of one lowering: what each value of the torch dialect has become."""

    def __init__(self, source: Any) -> None:
        self.ir = mlir.ir
        self.block = source.regions[0].blocks[0]
        self.mapping: dict[Any, Any] = {}
        self.parsed: dict[Any, TensorType | None] = {}
        self.names = operand_names()

    def build(self) -> None:
        ir = self.ir
        arguments = list(self.block.arguments)
        tensors = [self.type(a.type) for a in arguments]
        operations = list(self.block.operations)
        returned = list(operations[-1].operation.operands)
        outputs = [self.type(v.type) for v in returned]
        signature = [self.builtin(t, a.type) for t, a in zip(tensors, arguments, strict=True)]
        function = mlir.func.FuncOp("main", (signature, [self.builtin(t, None) for t in outputs]))
        for name, types in (("ftm.inputs", tensors), ("ftm.outputs", outputs)):
            tokens = [ir.StringAttr.get(dtypes.memory(t.dtype)) for t in types if t is not None]
            function.attributes[name] = ir.ArrayAttr.get(tokens)
        body = function.add_entry_block()
        with ir.InsertionPoint(body):
            anchor = ir.Operation.create("arith.constant", [ir.IndexType.get()], [],
                                         {"value": ir.IntegerAttr.get(ir.IndexType.get(), 0)})
            builder = Builder(anchor)
            for source, target, type_ in zip(arguments, body.arguments, tensors, strict=True):
                if type_ is None:
                    token = "f64" if str(source.type) == "!torch.float" else "i64"
                    self.mapping[source] = Elem(builder.emitter, target, token, hoisted=True)
                else:
                    self.mapping[source] = Value(target, type_.shape, type_.dtype)
            for op in operations[:-1]:
                with op.location:
                    self.lower(builder, op.operation)
            mlir.func.ReturnOp([builder.tensor(self.mapping[v]) for v in returned])
            anchor.erase()

    def lower(self, builder: Builder, op: Any) -> None:
        name = op.name
        if name in _CONSTANTS:
            self.mapping[op.results[0]] = _constant(op)
        elif name == "torch.prim.ListConstruct":
            self.mapping[op.results[0]] = [self.mapping[v] for v in op.operands]
        elif name == "torch.prim.NumToTensor.Scalar":
            self.mapping[op.results[0]] = self.mapping[op.operands[0]]
        else:
            self.call(builder, op)

    def call(self, builder: Builder, op: Any) -> None:
        record, name, operands = self.record(op)
        arguments = {}
        for key, operand in zip(operands, op.operands, strict=True):
            if key not in _MEANINGLESS:
                value = self.mapping[operand]
                if key.endswith("dtype") and isinstance(value, int):
                    value = dtypes.by_number(value)
                arguments["from_" if key == "from" else key] = value
        results = list(op.results)
        builder.results = tuple(self.type(r.type) for r in results)
        try:
            values = record.lower(builder, **arguments)
        except (LoweringError, TypeError, KeyError) as error:
            types = ", ".join(f"{k}={_describe(v)}" for k, v in arguments.items())
            raise LoweringError(f"{name}({types}): {error}") from error
        values = values if isinstance(values, tuple) else (values,)
        for result, value, expected in zip(results, values, builder.results, strict=True):
            if expected is not None and (value is None or value.type != expected):
                found = "nothing" if value is None else value.type
                raise LoweringError(f"{name}: the trace says the result is {expected}, its lowering gives {found}")
            self.mapping[result] = value

    def record(self, op: Any) -> tuple[OpRecord, str, tuple[str, ...]]:
        """The record of ``op``, its name as in a trace, the names of its operands."""
        if op.name == "torch.operator":
            dialect_name = self.ir.StringAttr(op.attributes["name"]).value
            operands = tuple(self.ir.StringAttr(a).value for a in self.ir.ArrayAttr(op.attributes[ARGS_ATTRIBUTE]))
        else:
            dialect_name = op.name.removeprefix("torch.")
            operands, _ = self.names.get(op.name, ((), 0))
        name = dialect_name if dialect_name.startswith("ftm.") else dialect_name.replace(".", "::", 1)
        record = RECORDS.get(name)
        if record is None:
            raise LoweringError(f"{name} has no op record, so it cannot be compiled; add one to frontend/ops")
        return record, name, operands

    def type(self, type_: Any) -> TensorType | None:
        """The tensor type of an MLIR type of the torch dialect; None if it is not a tensor."""
        if type_ not in self.parsed:
            match = _VTENSOR.fullmatch(str(type_))
            self.parsed[type_] = match and TensorType(
                _TOKENS[match[2]], tuple(int(n) for n in match[1].split(",") if n)
            )
        return self.parsed[type_]

    def builtin(self, type_: TensorType | None, source: Any) -> Any:
        if type_ is None:
            return self.ir.Type.parse("f64" if str(source) == "!torch.float" else "i64")
        return self.ir.RankedTensorType.get(list(type_.shape), self.ir.Type.parse(dtypes.info(type_.dtype).builtin))


def _constant(op: Any) -> Any:
    kind = op.name.rpartition(".")[2]
    if kind == "none":
        return None
    value = op.attributes["value"].value
    return bool(value) if kind == "bool" else value


def _describe(value: Any) -> str:
    if isinstance(value, Value):
        return str(value.type)
    if isinstance(value, Elem):
        return f"{value.dtype} scalar"
    if isinstance(value, list):
        return "[" + ", ".join(map(_describe, value)) + "]"
    return repr(value)
