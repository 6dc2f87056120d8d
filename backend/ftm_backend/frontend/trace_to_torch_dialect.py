"""Convert a trace to MLIR's torch dialect, one op to one op.

Names and operand order come from the torch dialect itself, and the trace names its arguments, so no
table of ours is needed. An op that the dialect lacks, or has with other arguments (random ops carry
seed and offset), becomes ``torch.operator "aten.name"`` with its argument names in the attribute
``args``. Views become PyTorch's view ops where their strides allow.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence

from ftm_backend import dtypes, mlir
from ftm_backend.ir.linalg.strided_view import Slicing, Strided, decompose
from ftm_backend.ir.trace.trace import DType, Node, Ref, ScalarRef, TensorType, Trace, TraceError
from ftm_backend.mlir_stubs import Module, Operation, Type, Value

ARGS_ATTRIBUTE = "args"
"""Attribute of ``torch.operator`` with the names of its operands."""

MEMORY_FORMATS = {
    "contiguous_format": 0,
    "preserve_format": 1,
    "channels_last": 2,
    "channels_last_3d": 3,
}
"""PyTorch's numbers of the memory formats, which the torch dialect uses."""

_OMITTED_DEFAULTS: dict[str, object] = {
    "device": None,
    "layout": None,
    "pin_memory": None,
    "generator": None,
    "non_blocking": False,
}  # the recorder omits these arguments, because they do not affect the result


@functools.cache
def operand_names() -> dict[str, tuple[tuple[str, ...], int]]:
    """Return operand names and number of results of each op of the torch dialect.

    Keys are names such as ``torch.aten.add.Tensor``.
    """
    table = {}
    for cls in vars(mlir.torch).values():
        name = getattr(cls, "OPERATION_NAME", None)
        if name is None or not name.startswith("torch.aten.") or cls.__name__.endswith("Adaptor"):
            continue
        parameters = [
            p.name
            for p in inspect.signature(cls.__init__).parameters.values()
            if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"
        ]
        results = [
            p for p in parameters if p == "result" or (p.startswith("result") and p[6:].isdigit())
        ]
        operands = tuple(p.rstrip("_") for p in parameters if p not in results)
        table[name] = (operands, len(results))
    return table


def import_trace(trace: Trace, locations: Sequence[str] | None = None) -> Module:
    """Convert a trace to a module, in the current MLIR context.

    Args:
        trace: A verified trace.
        locations: For each node, the user's source line that recorded it; becomes the MLIR
            location.

    Returns:
        torch_mlir.ir.Module: ``func.func @main`` from tensors (``!torch.vtensor``) and scalars
        (``!torch.float``, ``!torch.int``) to tensors.

    Raises:
        TraceError: The torch dialect cannot represent an argument.
    """
    ir = mlir.ir
    with ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            _Importer(trace, locations).build()
    return module


class _Importer:
    """State of one conversion: values by number, shared constants."""

    def __init__(self, trace: Trace, locations: Sequence[str] | None) -> None:
        if locations is not None and len(locations) != len(trace.nodes):
            raise TraceError(f"{len(locations)} locations were given for {len(trace.nodes)} nodes")
        ir = mlir.ir
        self.ir = ir
        self.trace = trace
        self.locations = locations
        self.types = trace.types()
        self.values: list[Value] = []
        self.scalars: list[Value] = []
        self.constants: dict[tuple[str, object], Value] = {}
        self.wrapped: dict[int, Value] = {}
        self.converted_positions: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = {}
        self.plans: dict[tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]] | None] = {}
        self.parse = functools.cache(ir.Type.parse)
        self.i64 = ir.IntegerType.get_signless(64)
        self.registered = operand_names()

    def build(self) -> None:
        trace, func = self.trace, mlir.func
        scalar_types = [
            self.parse("!torch.float" if d == "f64" else "!torch.int") for d in trace.scalars
        ]
        inputs = [self.tensor_type(t) for t in trace.params] + scalar_types
        outputs = [self.tensor_type(self.types[i]) for i in trace.results]
        function = func.FuncOp("main", (inputs, outputs))
        block = function.add_entry_block()
        arguments = list(block.arguments)
        self.values = arguments[: len(trace.params)]
        self.scalars = arguments[len(trace.params) :]
        with self.ir.InsertionPoint(block):
            for position, node in enumerate(trace.nodes):
                if self.locations is None:
                    self.node(node)
                else:
                    with self.ir.Location.name(self.locations[position]):
                        self.node(node)
            func.ReturnOp([self.values[i] for i in trace.results])

    def node(self, node: Node) -> None:
        if node.op == "ftm.view" and self.view(node):
            return
        types = [self.tensor_type(t) for t in node.results]
        op = self.registered_op(node, types)
        if op is None:
            attributes = {
                "name": self.ir.StringAttr.get(node.op.replace("::", ".")),
                ARGS_ATTRIBUTE: self.ir.ArrayAttr.get(
                    [self.ir.StringAttr.get(name) for name, _ in node.args]
                ),
            }
            operands = [self.argument(value) for _, value in node.args]
            op = self.ir.Operation.create("torch.operator", types, operands, attributes, regions=0)
        self.values.extend(op.results)

    def registered_op(self, node: Node, types: list[Type]) -> Operation | None:
        """Return `node` as an op of the torch dialect, or None.

        None if the dialect has no such op, or if its verifier is stricter than PyTorch (a dim of a
        0-dim tensor).
        """
        plan = self.plan(node)
        if plan is None:
            return None
        name, names = plan
        arguments_by_name = dict(node.args)
        arguments = [
            arguments_by_name[n] if n in arguments_by_name else _OMITTED_DEFAULTS[n] for n in names
        ]
        operands = [self.argument(value) for value in arguments]
        for k in self.operands_to_convert(name, types, arguments, operands):
            operands[k] = self.converted_operand(arguments[k])
        op = self.ir.Operation.create(name, types, operands)
        if self.is_valid(op):
            return op
        op.erase()
        return None

    def plan(self, node: Node) -> tuple[str, tuple[str, ...]] | None:
        """Return name and operand names of the registered op for `node`, or None."""
        names = tuple(name for name, _ in node.args)
        key = (node.op, names)
        if key not in self.plans:
            name = "torch." + node.op.replace("::", ".")
            operands, results = self.registered.get(name, ((), -1))
            fits = (
                results == len(node.results)
                and set(names) <= set(operands)
                and all(n in _OMITTED_DEFAULTS for n in operands if n not in names)
            )
            self.plans[key] = (name, operands) if fits else None
        return self.plans[key]

    # --- operands
    # -------------------------------------------------------------------------------------

    def operands_to_convert(
        self, name: str, types: list[Type], arguments: Sequence[object], operands: list[Value]
    ) -> tuple[int, ...]:
        """Return the positions of operands that need conversion to the type the op declares.

        Candidates are runtime scalars where the op takes a tensor, and bools where it takes a
        number. Operand types are defined only by the op's verifier. So try the verifier with the
        smallest sets first, once per op and set of candidates.
        """
        candidates = tuple(
            k for k, value in enumerate(arguments) if isinstance(value, (ScalarRef, bool))
        )
        if not candidates:
            return ()
        key = (name, candidates)
        if key not in self.converted_positions:
            for count in range(len(candidates) + 1):
                for chosen in itertools.combinations(candidates, count):
                    converted = [
                        self.converted_operand(arguments[k]) if k in chosen else v
                        for k, v in enumerate(operands)
                    ]
                    if self.verifies(name, types, converted):
                        self.converted_positions[key] = chosen
                        return chosen
            self.converted_positions[key] = ()
        return self.converted_positions[key]

    def converted_operand(self, value: object) -> Value:
        """Convert a runtime scalar to a 0-dim tensor, or a bool to an integer."""
        if isinstance(value, ScalarRef):
            return self.wrap(value)
        return self.constant("int", int(value is True))

    def verifies(self, name: str, types: list[Type], operands: list[Value]) -> bool:
        op = self.ir.Operation.create(name, types, operands)
        is_valid = self.is_valid(op)
        op.erase()
        return is_valid

    def is_valid(self, op: Operation) -> bool:
        """Whether the torch dialect's verifier accepts `op`."""
        try:
            return bool(op.verify())
        except self.ir.MLIRError:
            return False

    def wrap(self, ref: ScalarRef) -> Value:
        """Return a 0-dim tensor of a runtime scalar."""
        if ref.index not in self.wrapped:
            type_ = self.tensor_type(TensorType(self.trace.scalars[ref.index], ()))
            op = self.ir.Operation.create(
                "torch.prim.NumToTensor.Scalar", [type_], [self.scalars[ref.index]]
            )
            self.wrapped[ref.index] = op.results[0]
        return self.wrapped[ref.index]

    def argument(self, value: object) -> Value:
        if isinstance(value, Ref):
            return self.values[value.index]
        if isinstance(value, ScalarRef):
            return self.scalars[value.index]
        if isinstance(value, DType):
            return self.constant("int", dtypes.info(value.token).number)
        if isinstance(value, tuple):
            return self.list(value)
        if value is None:
            return self.constant("none", None)
        if isinstance(value, bool):
            return self.constant("bool", value)
        if isinstance(value, int):
            return self.constant("int", value)
        if isinstance(value, float):
            return self.constant("float", value)
        if value in MEMORY_FORMATS:
            return self.constant("int", MEMORY_FORMATS[value])
        return self.constant("str", value)

    def constant(self, kind: str, value: object) -> Value:
        key = (kind, repr(value))
        if key not in self.constants:
            ir = self.ir
            attributes = {}
            if kind == "int":
                attributes["value"] = ir.IntegerAttr.get(self.i64, value)
            elif kind == "bool":
                bit = ir.IntegerType.get_signless(1)
                attributes["value"] = ir.IntegerAttr.get(bit, int(value is True))
            elif kind == "float":
                attributes["value"] = ir.FloatAttr.get(ir.F64Type.get(), value)
            elif kind == "str":
                attributes["value"] = ir.StringAttr.get(value)
            type_ = self.parse(f"!torch.{kind}")
            self.constants[key] = ir.Operation.create(
                f"torch.constant.{kind}", [type_], [], attributes
            ).results[0]
        return self.constants[key]

    def list(self, items: tuple[object, ...]) -> Value:
        key = ("list", repr(items))
        if key in self.constants:
            return self.constants[key]
        kinds = {self.list_kind(item) for item in items}
        if kinds <= {"vtensor", "none"} and kinds:
            kind = "optional<vtensor>" if "none" in kinds else "vtensor"
        elif kinds == {"int", "float"}:
            kind = "float"
            items = tuple(float(item) if isinstance(item, int) else item for item in items)
        elif len(kinds) <= 1:
            kind = next(iter(kinds), "int")
        else:
            raise TraceError(
                f"a list mixes {', '.join(sorted(kinds))}; the torch dialect has no type for it"
            )
        operands = [self.argument(item) for item in items]
        op = self.ir.Operation.create(
            "torch.prim.ListConstruct", [self.parse(f"!torch.list<{kind}>")], operands
        )
        self.constants[key] = op.results[0]
        return op.results[0]

    def list_kind(self, item: object) -> str:
        if isinstance(item, Ref):
            return "vtensor"
        if isinstance(item, ScalarRef):
            return "float" if self.trace.scalars[item.index] == "f64" else "int"
        if item is None:
            return "none"
        for type_, kind in ((bool, "bool"), ((int, DType), "int"), (float, "float")):
            if isinstance(item, type_):
                return kind
        return "str"

    def tensor_type(self, type_: TensorType | None) -> Type:
        if type_ is None:
            return self.parse("!torch.none")
        return self.parse(
            f"!torch.vtensor<[{','.join(map(str, type_.shape))}],{dtypes.info(type_.dtype).torch}>"
        )

    # --- views
    # ----------------------------------------------------------------------------------------

    def view(self, node: Node) -> bool:
        """Convert ``ftm.view`` to reshape, slices, permutation and expansion.

        Returns:
            False if its strides allow no such sequence.
        """
        base_ref = node.argument("base")
        base = self.types[base_ref.index]
        assert base is not None and node.results[0] is not None, "the trace is not verified"
        view = Strided(node.argument("sizes"), node.argument("strides"), node.argument("offset"))
        steps = decompose(view, base.numel)
        if steps is None:
            return False
        value, shape = self.values[base_ref.index], base.shape

        def emit(name: str, new_shape: Sequence[int], *operands: Value) -> None:
            nonlocal value, shape
            shape = tuple(new_shape)
            type_ = self.tensor_type(TensorType(base.dtype, shape))
            value = self.ir.Operation.create(name, [type_], [value, *operands]).results[0]

        if steps.lengths == steps.shape and steps.order == tuple(range(len(steps.order))):
            if shape != steps.insert:
                emit("torch.aten.view", steps.insert, self.list(steps.insert))
        else:
            self.slice_and_permute(steps, shape, emit)
            if shape != steps.insert:
                emit("torch.aten.view", steps.insert, self.list(steps.insert))
        if shape != steps.expand:
            emit(
                "torch.aten.expand",
                steps.expand,
                self.list(steps.expand),
                self.constant("bool", False),
            )
        self.values.append(value)
        return True

    def slice_and_permute(
        self, steps: Slicing, shape: tuple[int, ...], emit: Callable[..., object]
    ) -> None:
        if shape != steps.shape:
            emit("torch.aten.view", steps.shape, self.list(steps.shape))
        sliced = list(steps.shape)
        for dim, (start, length) in enumerate(zip(steps.starts, steps.lengths, strict=True)):
            if length != steps.shape[dim]:
                sliced[dim] = length
                bounds = (dim, start, start + length, 1)
                emit("torch.aten.slice.Tensor", sliced, *(self.constant("int", b) for b in bounds))
        order = steps.order
        moved = [k for k, source in enumerate(order) if k != source]
        permuted = [sliced[k] for k in order]
        if len(moved) == 2:
            emit("torch.aten.transpose.int", permuted, *(self.constant("int", k) for k in moved))
        elif moved:
            emit("torch.aten.permute", permuted, self.list(order))
