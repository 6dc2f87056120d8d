"""Reads MLIR, the ``linalg`` dialect on tensors plus the ``ftm`` dialect, into a function.

Operations that only move elements (slices, reshapes, transposes, broadcasts, copying generics)
become part of the accesses that read through them. Paddings and inserted slices become updates
(`update_reader`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ftm_backend.ir.linalg import update_reader
from ftm_backend.ir.linalg.affine import dot, row_major, volume
from ftm_backend.ir.linalg.body_builder import recognize_reduction
from ftm_backend.ir.linalg.body_reader import BodyReader, constant_node, token
from ftm_backend.ir.linalg.function import (
    COLLECTIVE_START,
    COLLECTIVE_WAIT,
    FunctionResult,
    LinalgFunction,
    Node,
    Operand,
    SequentialLoop,
    Statement,
    Tensor,
    Value,
    Window,
    collective,
    constant,
    copy_statement,
    nodes_of,
    whole_statement,
)
from ftm_backend.ir.linalg.named_ops import NAMED, named_statement
from ftm_backend.ir.linalg.origin import origins_at
from ftm_backend.ir.linalg.strided_view import Strided, compose
from ftm_backend.ir.linalg.type_reader import extents, indices_of, sliced, tensor_type
from ftm_backend.mlir import ir
from ftm_backend.mlir_stubs import Module, Operation


def read_module(text: str) -> LinalgFunction:
    """Read the function ``@main`` of a module's text, in the current MLIR context.

    Raises:
        ir.MLIRError: The text is no valid MLIR.
        ValueError: The midend cannot lower an operation.
    """
    return FunctionReader(ir.Module.parse(text)).function


class FunctionReader:
    """Reads the one function of a module.

    Args:
        module: An MLIR module that holds one function with a body.
        handlers: Handlers for operations of later stages, by operation name. A handler takes the
            reader and the operation.

    Raises:
        ValueError: The midend cannot lower an operation.
    """

    def __init__(self, module: Module, handlers: Mapping[str, Handler] | None = None) -> None:
        functions = [
            op
            for op in module.body.operations
            if op.operation.name == "func.func" and len(op.regions[0].blocks)
        ]
        if len(functions) != 1:
            raise ValueError(f"a program is one function with a body, found {len(functions)}")
        operation = functions[0].operation
        self.function = LinalgFunction()
        self.tensors: dict[ir.Value, Tensor] = {}
        self.scalars: dict[ir.Value, Node] = {}
        self._handlers = {**_HANDLERS, **(handlers or {})}
        self._copies: dict[tuple[int, Strided], Tensor] = {}
        self._stores: list[Window] = []  # of the loop that is being read
        block = operation.regions[0].blocks[0]
        for argument in block.arguments:
            if isinstance(argument.type, ir.RankedTensorType):
                self.function.inputs.append(self.bind(argument))
            else:
                node = Node(
                    "scalar", token(argument.type), payload=f"s{len(self.function.scalars)}"
                )
                self.function.scalars.append(node)
                self.scalars[argument] = node
        operations = list(block.operations)
        for op in operations[:-1]:
            self.read(op)
        self.function.results = [self.tensors[o] for o in operations[-1].operands]
        self.function.input_types = _dtype_tokens(
            operation, "ftm.inputs", [v.dtype for v in self.function.inputs]
        )
        self.function.output_types = _dtype_tokens(
            operation, "ftm.outputs", [t.value.dtype for t in self.function.results]
        )

    def bind(self, ssa: ir.Value, value: Value | None = None) -> Value:
        """Declare ``ssa`` a dense tensor, a new one unless ``value`` is given."""
        if value is None:
            dtype, shape = tensor_type(ssa.type)
            value = Value(dtype, shape)
        self.tensors[ssa] = Tensor.whole(value)
        return value

    def read(self, op: Operation) -> None:
        """Read one operation into the function."""
        before = len(self.function.body)
        self._read(op)
        origins = origins_at(op.location)
        for item in self.function.body[before:] if origins else ():
            if isinstance(item, Statement):
                item.origins = origins

    def _read(self, op: Operation) -> None:
        name = _named_op(op) or op.operation.name
        handler = self._handlers.get(name)
        if handler is not None:
            handler(self, op)
        elif name in NAMED:
            self._named(op, name)
        elif name.startswith(("arith.", "math.")) or name == "ftm.philox":
            self.scalars[op.results[0]] = BodyReader(self.scalars, self.tensors, 0, []).operation(
                op
            )
        else:
            raise ValueError(
                f"{name} cannot be lowered: "
                "the midend reads linalg, tensor, arith, math and ftm operations"
            )

    # --- values
    # ----------------------------------------------------------------------------------------

    def _empty(self, op: Operation) -> None:
        self.bind(op.results[0])

    def _constant(self, op: Operation) -> None:
        result, attribute = op.results[0], op.attributes["value"]
        if not isinstance(result.type, ir.RankedTensorType):
            self.scalars[result] = constant_node(attribute, token(result.type))
            return
        dtype, shape = tensor_type(result.type)
        if attribute.is_splat and volume(shape):
            self.bind(
                result, Value(dtype, shape, splat=constant_node(attribute.get_splat_value(), dtype))
            )
            return
        numbers = [attribute[k] for k in range(len(attribute))]
        value = constant([float(n) if dtype == "bf16" else n for n in numbers], dtype)
        value.shape = shape
        self.bind(result, value)

    def _fill(self, op: Operation) -> None:
        dtype, shape = tensor_type(op.results[0].type)
        self.bind(op.results[0], Value(dtype, shape, splat=self.scalars[op.operands[0]]))

    # --- views
    # -----------------------------------------------------------------------------------------

    def _bind_view(self, op: Operation, base: Tensor, view: Strided) -> None:
        """Bind the result of ``op`` to ``view`` of the elements of ``base``."""
        composed = (
            compose(view, base.view)
            if not (base.view.is_contiguous() and base.view.offset)
            else Strided(view.sizes, view.strides, view.offset + base.view.offset)
        )
        if composed is None:
            base, composed = self.copied(base), view
        self.tensors[op.results[0]] = Tensor(base.value, composed)

    def _view(self, op: Operation) -> None:
        view = Strided(
            tensor_type(op.results[0].type)[1],
            tuple(op.attributes["strides"]),
            op.attributes["offset"].value,
        )
        self._bind_view(op, self.tensors[op.operands[0]], view)

    def _reshape(self, op: Operation) -> None:
        base, shape = self.tensors[op.operands[0]], tensor_type(op.results[0].type)[1]
        access = base.view.reshape(shape)
        if access is None:
            base = self.copied(base)
            access = base.view.reshape(shape)
        assert access is not None, "a dense tensor can be viewed in every shape"
        self.tensors[op.results[0]] = Tensor(base.value, access)

    def _transpose(self, op: Operation) -> None:
        base = self.tensors[op.operands[0]]
        self.tensors[op.results[0]] = Tensor(
            base.value, base.view.permute(tuple(op.attributes["permutation"]))
        )

    def _broadcast(self, op: Operation) -> None:
        base, shape = self.tensors[op.operands[0]], tensor_type(op.results[0].type)[1]
        added, strides = set(op.attributes["dimensions"]), iter(base.view.strides)
        steps = tuple(0 if k in added else next(strides) for k in range(len(shape)))
        self.tensors[op.results[0]] = Tensor(base.value, Strided(shape, steps, base.view.offset))

    def _extract_slice(self, op: Operation) -> None:
        base = self.tensors[op.operands[0]]
        self.tensors[op.results[0]] = Tensor(
            base.value, sliced(op, base.view, tensor_type(op.results[0].type)[1])
        )

    def copied(self, tensor: Tensor) -> Tensor:
        """Return a dense copy of a tensor, one for all of its users."""
        key = id(tensor.value), tensor.view
        if key not in self._copies:
            copy = copy_statement(tensor)
            self.function.body.append(copy)
            self._copies[key] = Tensor.whole(copy.results[0].value)
        return self._copies[key]

    def _copy(self, op: Operation) -> None:
        copy = copy_statement(self.tensors[op.operands[0]])
        self.function.body.append(copy)
        self.bind(op.results[0], copy.results[0].value)

    # --- loops
    # -----------------------------------------------------------------------------------------

    def _loop(self, op: Operation) -> None:
        lower, upper, step = (self.scalars[o].payload for o in op.operands[:3])
        if (lower, step) != (0, 1) or upper < 1:
            raise ValueError(
                f"scf.for from {lower} to {upper} by {step} cannot be lowered: "
                "loops go from 0 to at least 1 by 1"
            )
        outside, copies = self.function, dict(self._copies)
        bases = [self._dense(self.tensors[o]) for o in op.operands[3:]]
        block = op.regions[0].blocks[0]
        self.function = LinalgFunction()
        results = [self.bind(argument) for argument in list(block.arguments)[1:]]
        loop = SequentialLoop(upper, self.function, [], results, bases)
        before, self._stores = self._stores, loop.stores
        for inner in list(block.operations)[:-1]:
            self.read(inner)
        self.function, self._copies, self._stores = outside, copies, before
        for ssa, value in zip(op.results, results, strict=True):
            self.bind(ssa, value).producer = loop
        outside.body.append(loop)

    def _dense(self, tensor: Tensor) -> Value:
        return tensor.value if tensor.is_whole else self.copied(tensor).value

    def _window(self, op: Operation) -> None:
        value = self.bind(op.results[0])
        value.window = Window(
            self._dense(self.tensors[op.operands[0]]),
            op.attributes["start"].value,
            op.attributes["step"].value,
        )
        self.function.inputs.append(value)

    def _stored(self, op: Operation) -> None:
        array = self.tensors[op.operands[0]]
        self.function.results.append(self.tensors[op.operands[1]])
        self._stores.append(
            Window(array.value, op.attributes["start"].value, op.attributes["step"].value)
        )
        self.tensors[op.results[0]] = array

    # --- operations
    # ------------------------------------------------------------------------------------

    def _whole(self, op: Operation) -> None:
        operands = [self.tensors[o] for o in op.operands]
        attributes = {name: op.attributes[name].value for name in op.attributes}
        value = self.bind(op.results[0])
        self.function.body.append(whole_statement(op.operation.name, operands, value, attributes))

    def _collective(self, op: Operation) -> None:
        attributes = {name: op.attributes[name].value for name in op.attributes}
        tensor, call = self.tensors[op.operands[0]], self.scalars[op.operands[1]]
        shape = self.bind(op.results[0]).shape
        statement, result = collective(op.operation.name, tensor, shape, call, attributes)
        self.function.body.append(statement)
        self.bind(op.results[0], result)

    def _named(self, op: Operation, name: str) -> None:
        x, y, start = (self.tensors[o] for o in op.operands)
        attributes = {
            name: tuple(int(n) for n in op.attributes[name])
            for name in ("strides", "dilations")
            if name in op.attributes
        }
        value = self.bind(op.results[0])
        init = start.value.splat if start.value.splat is not None else start
        self.function.body.append(named_statement(name, (x, y), value, init, attributes))

    def _generic(self, op: Operation) -> None:
        maps = [indices_of(a.value) for a in op.attributes["indexing_maps"]]
        reduced = tuple("reduction" in str(kind) for kind in op.attributes["iterator_types"])
        rank, count = len(reduced), len(op.results)
        tensors = [self.tensors[o] for o in op.operands]
        loops = extents(maps, [t.view.sizes for t in tensors], rank)
        carried = any(reduced)
        operands: list[Operand] = []
        arguments: list[Node] = []
        for number, (tensor, indices) in enumerate(zip(tensors, maps, strict=True)):
            output = number - (len(tensors) - count)
            if output >= 0 and carried:
                arguments.append(Node("carry", tensor.value.dtype, payload=output))
            elif tensor.value.splat is not None:
                arguments.append(tensor.value.splat)
            else:
                operands.append(
                    Operand(
                        tensor.value, dot(indices, tensor.view.strides, tensor.view.offset, rank)
                    )
                )
                arguments.append(Node("in", tensor.value.dtype, payload=operands[-1]))
        gathers: list[Value] = []
        reader = BodyReader(self.scalars, self.tensors, rank, gathers, self.copied)
        yields = reader.block(op.regions[0].blocks[0], arguments)
        results: list[FunctionResult] = []
        for number, (ssa, node) in enumerate(zip(op.results, yields, strict=True)):
            indices, start = (
                maps[len(maps) - count + number],
                tensors[len(tensors) - count + number],
            )
            value = Value(*tensor_type(ssa.type))
            result = FunctionResult(
                value, dot(indices, row_major(value.shape), 0, rank), indices, node
            )
            if carried:
                result.init = start.value.splat or Operand(
                    start.value, dot(indices, start.view.strides, start.view.offset, rank)
                )
                recognize_reduction(result, number)
            results.append(result)
            self.bind(ssa, value)
        used = {id(n.payload) for n in nodes_of(results) if n.op == "in"}
        statement = Statement(
            "linalg.generic",
            loops,
            reduced,
            [o for o in operands if id(o) in used],
            results,
            list(dict.fromkeys(gathers)),
        )
        view = None if carried else statement.copied_view()
        if view is not None:
            self.tensors[op.results[0]] = view
            return
        for result in results:
            result.value.producer = statement
        self.function.body.append(statement)


def _named_op(op: Operation) -> str | None:
    """Return which named operation a ``linalg.generic`` is; None if it is not one."""
    if op.operation.name != "linalg.generic" or "library_call" not in op.attributes:
        return None
    name: str = op.attributes["library_call"].value
    return name if name in NAMED else None


def _dtype_tokens(operation: Operation, name: str, default: list[str]) -> list[str]:
    """Return the dtype tokens in attribute ``name``, which distinguish u8 from i8."""
    return (
        [a.value for a in operation.attributes[name]] if name in operation.attributes else default
    )


Handler = Callable[[FunctionReader, Operation], None]

_HANDLERS: dict[str, Handler] = {
    "tensor.empty": FunctionReader._empty,
    "arith.constant": FunctionReader._constant,
    "linalg.fill": FunctionReader._fill,
    "linalg.copy": FunctionReader._copy,
    "ftm.view": FunctionReader._view,
    "tensor.expand_shape": FunctionReader._reshape,
    "tensor.collapse_shape": FunctionReader._reshape,
    "tensor.extract_slice": FunctionReader._extract_slice,
    "linalg.transpose": FunctionReader._transpose,
    "linalg.broadcast": FunctionReader._broadcast,
    "ftm.update": update_reader.update,
    "scf.for": FunctionReader._loop,
    "ftm.window": FunctionReader._window,
    "ftm.place": FunctionReader._stored,
    "tensor.insert_slice": update_reader.insert_slice,
    "tensor.pad": update_reader.pad,
    "ftm.border": update_reader.border,
    "ftm.scatter": FunctionReader._whole,
    "ftm.scan": FunctionReader._whole,
    "ftm.sort": FunctionReader._whole,
    "ftm.conv_transpose": FunctionReader._whole,
    COLLECTIVE_START: FunctionReader._collective,
    COLLECTIVE_WAIT: FunctionReader._collective,
    "linalg.generic": FunctionReader._generic,
}
