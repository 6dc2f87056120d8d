"""Writes down what PyTorch does as a trace, the way the recorder does: one op, or the graph of a
function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from ftm_backend.ir.trace.trace import DType, Node, Ref, ScalarRef, TensorType, Trace

DTYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8",
    torch.bool: "i1", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.float8_e4m3fn: "f8e4m3fn", torch.float8_e5m2: "f8e5m2",
    torch.float8_e4m3fnuz: "f8e4m3fnuz", torch.float8_e5m2fnuz: "f8e5m2fnuz",
    torch.float8_e8m0fnu: "f8e8m0fnu",
}  # fmt: skip
TORCH = {token: dtype for dtype, token in DTYPES.items()}
LEFT_OUT = {"device", "layout", "pin_memory", "generator", "non_blocking"}
CONSTANT_SCALARS = {  # Scalars that shape the code: the recorder prints their values
    ("linalg_vector_norm", "ord"),
    ("norm", "p"),
    ("pow.Tensor_Scalar", "exponent"),
    ("arange", "start"),
    ("arange", "end"),
    ("arange", "step"),
    ("linspace", "start"),
    ("linspace", "end"),
    ("logspace", "start"),
    ("logspace", "end"),
    ("renorm", "p"),
}
RANDOM = {
    "uniform", "normal_functional", "bernoulli", "random", "exponential", "rand", "randn",
    "randint", "rand_like", "randn_like", "randint_like", "native_dropout", "normal", "log_normal",
    "cauchy", "geometric", "randperm", "multinomial",
}  # fmt: skip


def tensor_type(x: torch.Tensor) -> TensorType:
    """The trace's type of ``x``."""
    return TensorType(DTYPES[x.dtype], tuple(x.shape))


@dataclass
class Recording:
    """A trace and the values to run it on."""

    nodes: list[Node] = field(default_factory=list)
    params: list[torch.Tensor] = field(default_factory=list)
    scalars: list[float | int] = field(default_factory=list)
    scalar_types: list[str] = field(default_factory=list)
    trace: Trace | None = None

    def scalar(self, value: float | int) -> ScalarRef:
        """A new runtime scalar."""
        self.scalars.append(value)
        self.scalar_types.append("i64" if isinstance(value, int) else "f64")
        return ScalarRef(len(self.scalars) - 1)


def name_of(op: Any) -> str:
    """``aten::add.Tensor`` of an OpOverload."""
    schema = op._schema
    return schema.name + ("." + schema.overload_name if schema.overload_name else "")


def is_constant(op_name: str, argument: str) -> bool:
    """Whether the recorder prints this Scalar argument's value."""
    name = op_name.removeprefix("aten::")
    return any(
        argument == a and (name == n or name.partition(".")[0] == n) for n, a in CONSTANT_SCALARS
    )


def arguments(
    op: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    recording: Recording,
    ref: Callable[[torch.Tensor], Any],
) -> tuple[tuple[str, Any], ...]:
    """The arguments of a call as a node has them; ``ref`` turns tensors into references."""
    made = []
    name = name_of(op)

    def convert(value: Any, is_scalar: bool) -> Any:
        if isinstance(value, (torch.Tensor, torch.fx.Node)):
            return ref(value)
        if isinstance(value, torch.dtype):
            return DType(DTYPES[value])
        if isinstance(value, torch.memory_format):
            return str(value).removeprefix("torch.")
        if isinstance(value, (list, tuple)):
            return tuple(convert(v, False) for v in value)
        if is_scalar and not isinstance(value, bool) and value is not None:
            return recording.scalar(value)
        return value

    for position, argument in enumerate(op._schema.arguments):
        if argument.name in LEFT_OUT:
            continue
        value = (
            args[position]
            if position < len(args) and not argument.kwarg_only
            else kwargs.get(argument.name, argument.default_value)
        )
        kind = str(argument.type)
        if (
            kind in ("Tensor", "Optional[Tensor]")
            and isinstance(value, (int, float))
            and not isinstance(value, bool)
        ):
            value = recording.scalar(value)
        elif kind == "float" and isinstance(value, int):
            value = float(value)
        elif "int[" in str(argument) and isinstance(value, int):
            value = (value,)
        is_scalar = kind in ("number", "Optional[number]") and not is_constant(name, argument.name)
        made.append((argument.name, convert(value, is_scalar)))
    if name.removeprefix("aten::").partition(".")[0] in RANDOM:
        made += [
            ("seed", recording.scalar(7)),
            ("offset", recording.scalar(len(recording.nodes) + 3)),
        ]
    return tuple(made)


def call(op: Any, *args: Any, **kwargs: Any) -> tuple[Recording, list[torch.Tensor | None]]:
    """The trace of one call of an OpOverload, and its results on the CPU."""
    recording = Recording()
    numbers: dict[int, int] = {}

    def ref(x: torch.Tensor) -> Ref:
        if id(x) not in numbers:
            numbers[id(x)] = len(recording.params)
            recording.params.append(x)
        return Ref(numbers[id(x)])

    made = arguments(op, args, kwargs, recording, ref)
    results = op(*args, **kwargs)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    types = tuple(None if r is None else tensor_type(r) for r in results)
    node = Node.of(name_of(op), made, types)
    first = len(recording.params)
    recording.trace = Trace(
        [tensor_type(p) for p in recording.params],
        recording.scalar_types,
        [node],
        [first + k for k, t in enumerate(types) if t is not None],
    )
    return recording, [r for r in results if r is not None]


def function(f: Callable[..., Any], *tensors: torch.Tensor) -> Recording:
    """The trace of ``f(*tensors)``, functionalized, with autograd inside if f uses it."""
    plain = make_fx(f)(*tensors)  # autograd runs here; functionalization does not allow it inside
    graph = make_fx(torch.func.functionalize(plain, remove="mutations"))(*tensors).graph
    graph.eliminate_dead_code()
    return from_graph(graph, tensors)


def from_graph(graph: torch.fx.Graph, tensors: Sequence[torch.Tensor]) -> Recording:
    """A trace of an fx graph of aten ops."""
    recording = Recording()
    places = [n for n in graph.nodes if n.op == "placeholder"]
    inputs = dict(zip(places, tensors, strict=True))
    constants = {
        n: getattr(n.graph.owning_module, n.target) for n in graph.nodes if n.op == "get_attr"
    }
    inputs.update(constants)
    values: dict[Any, tuple[str, int]] = {}
    owners: list[int] = []
    pending: list[Node] = []
    order: dict[Any, int] = {}

    def ref(node: torch.fx.Node) -> Any:
        if node in inputs:
            if node not in order:
                order[node] = len(order)
            return ("param", order[node])
        return ("node", *values[node])

    def results_of(node: torch.fx.Node) -> list[Any]:
        value = node.meta["val"]
        return list(value) if isinstance(value, (tuple, list)) else [value]

    results: list[Any] = []
    for node in graph.nodes:
        if node.op == "call_function" and node.target is operator.getitem:
            values[node] = (values[node.args[0]][0], node.args[1])
        elif node.op == "call_function":
            made = arguments(node.target, node.args, node.kwargs, recording, ref)
            values[node] = (len(pending), 0)
            used = {u.args[1] for u in node.users if u.target is operator.getitem}
            types = [None if v is None else tensor_type(v) for v in results_of(node)]
            pending.append(Node.of(name_of(node.target), made, tuple(types)))
            owners.append(len(types))
            del used
        elif node.op == "output":
            results = [
                ref(v) for v in torch.utils._pytree.tree_leaves(node.args[0]) if v is not None
            ]
    starts = [len(order)]
    for count in owners:
        starts.append(starts[-1] + count)

    def resolve(value: Any) -> Any:
        if isinstance(value, tuple):
            if value[:1] == ("param",):
                return Ref(value[1])
            if value[:1] == ("node",):
                return Ref(starts[value[1]] + value[2])
            return tuple(resolve(v) for v in value)
        return value

    recording.params = [inputs[n] for n in order]
    recording.nodes = [
        Node.of(n.op, tuple((k, resolve(v)) for k, v in n.args), n.results) for n in pending
    ]
    recording.trace = Trace(
        [tensor_type(p) for p in recording.params],
        recording.scalar_types,
        recording.nodes,
        [resolve(r).index for r in results],
    )
    return recording
