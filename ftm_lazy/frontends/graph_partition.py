"""Segments of an FX graph of ATen ops: compiled programs, and single calls on the CPU.

A segment reads and writes an environment (node to value). The partition is found when the graph
first runs (`fx_graph.py`): a compiled segment extends until a node that cannot be recorded, or that
needs a value of the device. That node becomes a fallback call.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

import torch
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from ftm_backend.ir.trace.trace import Trace
from ftm_lazy import _C
from ftm_lazy.compile.trace_importer import trace_of
from ftm_lazy.device.device_name import NAME
from ftm_lazy.frontends.capture import (
    DEVICE,
    capturing,
    check_in_memory,
    on_device,
    placeholder_like,
    resolved,
)

Environment = dict[Node, object]
"""Node to its value, while a later node needs it."""

_warned: set[str] = set()

_MAX_VARIANTS = 256
"""Variants of one segment; the least recently used is captured anew when it is needed again."""


class CompiledSegment:
    """Consecutive nodes that run as one program, captured from their first inputs.

    Python numbers among the inputs (sizes, values that were read) are constants of the program, so
    there is a variant for each combination. Variants that differ only in sizes are specializations
    of one dynamic-shape program, as on the lazy device.

    Args:
        nodes: Candidates, in order. `length` is the number of nodes in the program.
        uses: For each node the position of its last user, relative to the first of `nodes`.
        environment: The values of all earlier nodes.
        on_cpu: Device of results for which the graph has none.
        is_static: Whether sizes and strides are the same in every run.
    """

    def __init__(
        self,
        nodes: list[Node],
        uses: dict[Node, int],
        environment: Environment,
        on_cpu: bool,
        is_static: bool,
    ) -> None:
        self._uses, self._on_cpu, self._is_static = uses, on_cpu, is_static
        first = _Variant(nodes, uses, environment, on_cpu)
        self.length = first.length
        self._nodes = nodes[: self.length]
        self._sources = list(first.sources)
        self._has_numbers = not all(_is_tensors(environment[node]) for node in self._sources)
        self._variants: OrderedDict[object, _Variant | list[FallbackCall]] = OrderedDict(
            [(self._key(environment), first)]
        )

    @property
    def traces(self) -> list[Trace]:
        """The traces of the variants so far."""
        return [
            trace_of(v.captured.trace)
            for v in self._variants.values()
            if isinstance(v, _Variant) and v.captured is not None
        ]

    def direct(
        self, inputs: dict[Node, int], constants: Environment, outputs: object
    ) -> _C._GraphCall | None:
        """Return the whole graph as a C++ call that needs no environment.

        Args:
            inputs: The graph's input nodes and their positions.
            constants: The graph's constant nodes and their values.
            outputs: The graph's results: nodes and constants.

        Returns:
            A `_C._GraphCall`: from a list of the graph's inputs, which it empties, to a list of its
            results. None if there are several variants, other inputs, or results that are not
            tensors.
        """
        if not self._is_static or self._has_numbers or len(self._variants) != 1:
            return None
        (variant,) = self._variants.values()
        if not isinstance(variant, _Variant) or not isinstance(outputs, (list, tuple)):
            return None
        return variant.direct(inputs, constants, outputs)

    def _key(self, environment: Environment) -> object:
        """Return the key of the variant for these inputs; None if there is only one."""
        if self._is_static and not self._has_numbers:
            return None
        key: list[object] = []
        for node in self._sources:
            for leaf in pytree.tree_leaves(environment[node]):
                if not isinstance(leaf, torch.Tensor):
                    key.append(leaf)
                elif not self._is_static:
                    key += (leaf.shape, leaf.stride(), leaf.dtype)
        return tuple(key)

    def run(self, environment: Environment, dead: Iterable[Node]) -> None:
        """Launch the program.

        Args:
            environment: Has the values of the inputs; receives those of the results.
            dead: Nodes whose values are not needed afterwards; they are removed.
        """
        key = self._key(environment)
        variant = self._variants.get(key)
        if variant is None:
            variant = self._variants[key] = self._capture(environment)
            if len(self._variants) > _MAX_VARIANTS:
                self._variants.popitem(last=False)
        elif key is not None:
            self._variants.move_to_end(key)
        if isinstance(variant, _Variant):
            variant.launch(environment, dead)
            return
        for call in variant:
            call.run(environment, ())
        inner = [node for node in self._nodes if self._uses.get(node, -1) < self.length]
        for node in (*dead, *inner):
            environment.pop(node, None)

    def _capture(self, environment: Environment) -> _Variant | list[FallbackCall]:
        """Capture a variant; single calls if the program would not contain all nodes."""
        variant = _Variant(self._nodes, self._uses, environment, self._on_cpu)
        if variant.length == self.length:
            return variant
        return [FallbackCall(node) for node in self._nodes]


class _Variant:
    """A program of the longest prefix of `nodes` that can be recorded, for one set of inputs."""

    def __init__(
        self, nodes: list[Node], uses: dict[Node, int], environment: Environment, on_cpu: bool
    ) -> None:
        self.sources: dict[Node, None] = {}
        self.length = 0
        with capturing() as recording:
            recorder = _Recorder(recording, environment, self.sources)
            for node in nodes:
                try:
                    recorder.run(node)
                except NotImplementedError:
                    break
                self.length += 1
            self._inputs = recorder.inputs
            # node, pytree structure, leaves: an _Output or a constant
            self._results: list[tuple[Node, pytree.TreeSpec, list[object]]] = []
            outputs: list[torch.Tensor] = []
            outputs_on_cpu: list[bool] = []
            for node in nodes[: self.length]:
                if uses.get(node, -1) >= self.length:
                    leaves, structure = pytree.tree_flatten(recorder.values[node])
                    result: list[object] = []
                    for leaf, is_cpu in zip(
                        leaves, _results_on_cpu(node, len(leaves), on_cpu), strict=True
                    ):
                        if isinstance(leaf, torch.Tensor):
                            result.append(_Output(len(outputs)))
                            outputs.append(on_device(leaf))
                            outputs_on_cpu.append(is_cpu)
                        else:
                            result.append(leaf)
                    self._results.append((node, structure, result))
            self.captured = recording.finish(outputs, outputs_on_cpu) if self.length else None

    def direct(
        self, inputs: dict[Node, int], constants: Environment, outputs: Sequence[object]
    ) -> _C._GraphCall | None:
        """See `CompiledSegment.direct`."""
        if self.captured is None:
            return None
        results: dict[Node, object] = {}
        for node, structure, leaves in self._results:
            if len(leaves) != 1 or not structure.is_leaf():
                return None
            results[node] = leaves[0]
        # input k as k, constant k as -1 - k
        arguments: list[int] = []
        held: list[torch.Tensor] = []
        for node, leaf in self._inputs:
            if leaf is not None or (node not in inputs and node not in constants):
                return None
            arguments.append(inputs[node] if node in inputs else -1 - len(held))
            if node not in inputs:
                held.append(constants[node])
        # result k of the program as k, input k as -1 - k
        returned: list[int | None] = []
        for output in outputs:
            result = results.get(output) if isinstance(output, Node) else output
            if isinstance(result, _Output):
                returned.append(result.index)
            elif isinstance(output, Node) and output in inputs and output not in results:
                returned.append(-1 - inputs[output])
            elif output is None:
                returned.append(None)
            else:  # a number, or a constant
                return None
        return _C._GraphCall(self.captured, arguments, held, returned)

    def launch(self, environment: Environment, dead: Iterable[Node]) -> None:
        """Run the program; see `CompiledSegment.run`."""
        inputs = [
            environment[node] if leaf is None else pytree.tree_leaves(environment[node])[leaf]
            for node, leaf in self._inputs
        ]
        for node in dead:
            environment.pop(node, None)
        assert self.captured is not None
        outputs = self.captured.launch(inputs)
        for node, structure, result in self._results:
            leaves = [outputs[leaf.index] if isinstance(leaf, _Output) else leaf for leaf in result]
            is_single = len(leaves) == 1 and structure.is_leaf()
            environment[node] = leaves[0] if is_single else pytree.tree_unflatten(leaves, structure)


class _Output:
    """The position of an output of the program, as a leaf of a node's value."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class _Recorder:
    """Runs nodes on placeholders."""

    def __init__(
        self, recording: _C._Capture, environment: Environment, sources: dict[Node, None]
    ) -> None:
        self._recording, self._environment, self._sources = recording, environment, sources
        self.values: Environment = {}
        # for each placeholder its node, and the leaf if the node has several
        self.inputs: list[tuple[Node, int | None]] = []

    def run(self, node: Node) -> None:
        value = call_node(node, self._value)
        for leaf in pytree.tree_leaves(value):
            if isinstance(leaf, torch.Tensor):
                check_in_memory(leaf)
        self.values[node] = value

    def _value(self, node: Node) -> object:
        if node not in self.values:
            self._sources[node] = None
            outside = self._environment[node]
            if isinstance(outside, torch.Tensor):
                self.values[node] = self._placeholder(node, None, outside)
            else:
                leaves, structure = pytree.tree_flatten(outside)
                placeholders = [
                    self._placeholder(node, i, leaf) if isinstance(leaf, torch.Tensor) else leaf
                    for i, leaf in enumerate(leaves)
                ]
                self.values[node] = pytree.tree_unflatten(placeholders, structure)
        return self.values[node]

    def _placeholder(self, node: Node, leaf: int | None, tensor: torch.Tensor) -> torch.Tensor:
        self.inputs.append((node, leaf))
        return placeholder_like(self._recording, tensor)


def call_node(node: Node, value: Callable[[Node], object]) -> object:
    """Call a node's op on ftm, whatever device the graph has.

    Conjugate and negative bits of the result are resolved. Placeholders have no such bits, so they
    would otherwise differ from those of the graph's tracing, and ops such as `view_as_real` check
    them.

    Args:
        node: A node of ATen ops.
        value: Returns the value of an argument's node.

    Raises:
        NotImplementedError: The op cannot be part of a program.
    """
    if (
        isinstance(node.target, torch._ops.HigherOrderOperator)
        and str(node.target) not in _FUNCTIONAL_CALLS
    ):
        raise NotImplementedError(
            f"{node.target} holds graphs of its own, which cannot be part of a program:"
            " use torch.where"
        )
    args, kwargs = map_arg((node.args, node.kwargs), value)
    args, kwargs = pytree.tree_map_only(torch.device, lambda _: DEVICE, (args, dict(kwargs)))
    if isinstance(node.target, torch._ops.OpOverload):
        keyword_arguments = node.target._schema.arguments[len(args) :]
        if any(argument.name == "device" for argument in keyword_arguments):
            kwargs["device"] = DEVICE
            kwargs.pop("pin_memory", None)
    return pytree.tree_map_only(torch.Tensor, resolved, node.target(*args, **kwargs))


_FUNCTIONAL_CALLS = frozenset({"auto_functionalized", "auto_functionalized_v2"})
"""Higher-order ops without a graph: they call an in-place op on copies of its arguments."""


class FallbackCall:
    """A node that cannot be compiled; it runs on the CPU, with a counter and a warning."""

    length = 1

    def __init__(self, node: Node) -> None:
        self._node = node
        self.traces: list[Trace] = []

    def run(self, environment: Environment, dead: Iterable[Node]) -> None:
        """Call the op; see `CompiledSegment.run`."""
        args, kwargs = map_arg((self._node.args, self._node.kwargs), environment.__getitem__)
        if self._node.target in _READS:
            args = pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, args)
            environment[self._node] = self._node.target(*args, **kwargs)
        else:
            before = _fallbacks()
            environment[self._node] = self._node.target(*args, **kwargs)
            if _fallbacks() == before and not self._ran_on_device(args, kwargs):
                self._count()
        for node in dead:
            environment.pop(node, None)

    def _ran_on_device(self, args: object, kwargs: object) -> bool:
        """Return whether it is PyTorch's own op on tensors on ftm, which counts its fallbacks."""
        is_custom = isinstance(
            self._node.target, torch._ops.OpOverload
        ) and self._node.target.namespace not in ("aten", "prims")
        return not is_custom and any(
            isinstance(x, torch.Tensor) and x.device.type == NAME
            for x in pytree.tree_leaves((args, kwargs))
        )

    def _count(self) -> None:
        target = (
            self._node.args[0] if str(self._node.target) in _FUNCTIONAL_CALLS else self._node.target
        )
        name = target.name() if hasattr(target, "name") and callable(target.name) else str(target)
        _C._count(f"fallback::{name}")
        if name not in _warned:
            _warned.add(name)
            warnings.warn(
                f"{name} is not compiled for ftm (with these arguments): it runs on the CPU,"
                " between two programs. This warning appears once; ftm_lazy.metrics counts calls.",
                RuntimeWarning,
                stacklevel=2,
            )


def _fallbacks() -> int:
    return sum(n for name, n in _C._counters().items() if name.startswith("fallback::"))


_READS = frozenset({
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten._assert_async.default,
    torch.ops.aten._assert_async.msg,
})  # fmt: skip
"""Ops that read a value, which a program cannot do."""


def _is_tensors(value: object) -> bool:
    leaves = pytree.tree_leaves(value)
    return bool(leaves) and all(isinstance(leaf, torch.Tensor) for leaf in leaves)


def _results_on_cpu(node: Node, count: int, on_cpu: bool) -> list[bool]:
    """Return for each of a node's `count` results whether it is on the CPU."""
    leaves = pytree.tree_leaves(node.meta.get("val"))
    if len(leaves) != count:
        return [on_cpu] * count
    return [
        leaf.device.type == "cpu" if isinstance(leaf, torch.Tensor) else on_cpu for leaf in leaves
    ]
