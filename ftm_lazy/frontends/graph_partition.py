"""The steps that a graph of ATen ops is run in: programs of the machine, and between them calls on
the CPU.

A step reads and writes an environment, node to value. How the graph falls into steps is found when
it first runs: a program takes up nodes until one comes that the compiler does not take, or that
needs a value which only running can give; that node is a call of its own (`graph.py`).
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from ftm_lazy import _C
from ftm_lazy.frontends.capture import (
    DEVICE,
    capturing,
    check_in_memory,
    on_device,
    placeholder_like,
    resolved,
)

__all__ = ["CompiledSegment", "Environment", "FallbackCall", "call_node"]

Environment = dict[Node, Any]
"""What each node has given, as long as a later one needs it."""

_warned: set[str] = set()

_VARIANTS = 256
"""Of one program; the longest unused is captured anew when it comes again."""


class CompiledSegment:
    """Consecutive nodes as one program, captured for the inputs that it is first run on.

    Numbers that the nodes take from outside (sizes, values that were read) shape the program: there
    is a variant for each set of them. What differs in sizes alone is an instance of one general
    program, as on the lazy device.

    Args:
        nodes: candidates, in order; `length` says how many of them the program takes up.
        uses: for each node the position of its last user, counted from the first of ``nodes``.
        environment: holds the values of all earlier nodes, for the first run.
        on_cpu: where results go, unless the graph says of a node on which device it is.
        fixed: whether sizes and strides are the same in every run.
    """

    def __init__(
        self,
        nodes: list[Node],
        uses: dict[Node, int],
        environment: Environment,
        on_cpu: bool,
        fixed: bool,
    ) -> None:
        self._uses, self._on_cpu, self._fixed = uses, on_cpu, fixed
        first = _Variant(nodes, uses, environment, on_cpu)
        self.length = first.length
        self._nodes = nodes[: self.length]
        self._sources = list(first.sources)
        self._has_numbers = not all(_is_tensors(environment[node]) for node in self._sources)
        self._variants: OrderedDict[Any, _Variant | list[FallbackCall]] = OrderedDict(
            [(self._key(environment), first)]
        )

    @property
    def texts(self) -> list[str]:
        """The traces of the variants so far."""
        return [
            v.captured.text
            for v in self._variants.values()
            if isinstance(v, _Variant) and v.captured is not None
        ]

    def direct(self, given: dict[Node, int], constants: Environment, wanted: Any) -> Any | None:
        """Return the program without the environment, if it has one variant for all runs, takes only what
        is among these, and gives tensors.

        Args:
            given: nodes of the graph's inputs, and which these are.
            constants: nodes whose value is known.
            wanted: what the graph gives: nodes and constants.

        Returns:
            A `_C._GraphCall`: from the list of the graph's inputs, which it empties, to that of
            what it gives.
        """
        (variant,) = self._variants.values() if len(self._variants) == 1 else (None,)
        if (
            not self._fixed
            or self._has_numbers
            or not isinstance(variant, _Variant)
            or not isinstance(wanted, (list, tuple))
        ):
            return None
        return variant.direct(given, constants, wanted)

    def _key(self, environment: Environment) -> Any:
        if self._fixed and not self._has_numbers:
            return None
        key: list[Any] = []
        for node in self._sources:
            for leaf in pytree.tree_leaves(environment[node]):
                if not isinstance(leaf, torch.Tensor):
                    key.append(leaf)
                elif not self._fixed:
                    key += (leaf.shape, leaf.stride(), leaf.dtype)
        return tuple(key)

    def run(self, environment: Environment, last: Iterable[Node]) -> None:
        """Launch it; ``last``: nodes whose values nobody needs any more."""
        key = self._key(environment)
        variant = self._variants.get(key)
        if variant is None:
            variant = self._variants[key] = self._variant(environment)
            if len(self._variants) > _VARIANTS:
                self._variants.popitem(last=False)
        elif key is not None:
            self._variants.move_to_end(key)
        if isinstance(variant, _Variant):
            variant.launch(environment, last)
            return
        for call in variant:
            call.run(environment, ())
        inner = [node for node in self._nodes if self._uses.get(node, -1) < self.length]
        for node in (*last, *inner):
            environment.pop(node, None)

    def _variant(self, environment: Environment) -> _Variant | list[FallbackCall]:
        made = _Variant(self._nodes, self._uses, environment, self._on_cpu)
        return made if made.length == self.length else [FallbackCall(node) for node in self._nodes]


class _Variant:
    """A program of as many of ``nodes`` as one can take up, for the numbers and tensor types in
    ``environment``."""

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
            # node, structure, leaves: index of an output, or a constant
            self._results: list[tuple[Node, Any, list[Any]]] = []
            outputs: list[torch.Tensor] = []
            places: list[bool] = []
            for node in nodes[: self.length]:
                if uses.get(node, -1) >= self.length:
                    leaves, structure = pytree.tree_flatten(recorder.values[node])
                    devices = _devices(node, len(leaves), on_cpu)
                    described: list[Any] = []
                    for leaf, place in zip(leaves, devices, strict=True):
                        described.append(
                            _Output(len(outputs)) if isinstance(leaf, torch.Tensor) else leaf
                        )
                        if isinstance(leaf, torch.Tensor):
                            outputs.append(on_device(leaf))
                            places.append(place)
                    self._results.append((node, structure, described))
            self.captured = recording.finish(outputs, places) if self.length else None

    def direct(
        self, given: dict[Node, int], constants: Environment, wanted: Sequence[Any]
    ) -> Any | None:
        """See `CompiledSegment.direct`."""
        made: dict[Node, Any] = {}
        for node, structure, described in self._results:
            if len(described) != 1 or not structure.is_leaf():
                return None
            made[node] = described[0]
        takes: list[int] = []
        held: list[torch.Tensor] = []
        for node, leaf in self._inputs:
            if leaf is not None or (node not in given and node not in constants):
                return None
            takes.append(given[node] if node in given else -1 - len(held))
            if node not in given:
                held.append(constants[node])
        gives: list[int | None] = []
        for each in wanted:
            found = made.get(each) if isinstance(each, Node) else each
            if isinstance(found, _Output):
                gives.append(found.index)
            elif isinstance(each, Node) and each in given and each not in made:
                gives.append(-1 - given[each])
            elif each is None:
                gives.append(None)
            else:  # a number, or a constant
                return None
        return _C._GraphCall(self.captured, takes, held, gives)

    def launch(self, environment: Environment, last: Iterable[Node]) -> None:
        inputs = [
            environment[node] if leaf is None else pytree.tree_leaves(environment[node])[leaf]
            for node, leaf in self._inputs
        ]
        for node in last:
            environment.pop(node, None)
        assert self.captured is not None
        outputs = self.captured.launch(inputs)
        for node, structure, described in self._results:
            if len(described) == 1 and structure.is_leaf():
                leaf = described[0]
                environment[node] = outputs[leaf.index] if isinstance(leaf, _Output) else leaf
            else:
                leaves = [
                    outputs[leaf.index] if isinstance(leaf, _Output) else leaf for leaf in described
                ]
                environment[node] = pytree.tree_unflatten(leaves, structure)


class _Output:
    """Stands for an output of the program among a node's values."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class _Recorder:
    """Runs nodes on placeholders."""

    def __init__(self, recording: Any, environment: Environment, sources: dict[Node, None]) -> None:
        self._recording, self._environment, self._sources = recording, environment, sources
        self.values: Environment = {}
        # which tensor (of a node with several) each placeholder is
        self.inputs: list[tuple[Node, int | None]] = []

    def run(self, node: Node) -> None:
        value = call_node(node, self._value)
        for leaf in pytree.tree_leaves(value):
            if isinstance(leaf, torch.Tensor):
                check_in_memory(leaf)
        self.values[node] = value

    def _value(self, node: Node) -> Any:
        if node not in self.values:
            self._sources[node] = None
            outside = self._environment[node]
            if isinstance(outside, torch.Tensor):
                self.values[node] = self._placeholder(node, None, outside)
            else:
                leaves, structure = pytree.tree_flatten(outside)
                made = [
                    self._placeholder(node, i, leaf) if isinstance(leaf, torch.Tensor) else leaf
                    for i, leaf in enumerate(leaves)
                ]
                self.values[node] = pytree.tree_unflatten(made, structure)
        return self.values[node]

    def _placeholder(self, node: Node, leaf: int | None, tensor: torch.Tensor) -> torch.Tensor:
        self.inputs.append((node, leaf))
        return placeholder_like(self._recording, tensor)


def call_node(node: Node, value: Callable[[Node], Any]) -> Any:
    """Call an op of a graph on the device, whatever device the graph says.

    What it gives has its values in memory: an input whose conjugation is a bit of it is none here,
    so that the bits of what follows are others than where the graph was made, and some ops
    (`view_as_real`) ask for them.

    Raises NotImplementedError for what no program can take up.
    """
    if (
        isinstance(node.target, torch._ops.HigherOrderOperator)
        and str(node.target) not in _FUNCTIONAL_CALLS
    ):
        raise NotImplementedError(
            f"{node.target} holds graphs of its own, which no program takes up: say it with torch.where"
        )
    args, kwargs = map_arg((node.args, node.kwargs), value)
    args, kwargs = pytree.tree_map_only(torch.device, lambda _: DEVICE, (args, dict(kwargs)))
    if isinstance(node.target, torch._ops.OpOverload):
        rest = node.target._schema.arguments[len(args) :]
        if any(argument.name == "device" for argument in rest):
            kwargs["device"] = DEVICE
            kwargs.pop("pin_memory", None)
    return pytree.tree_map_only(torch.Tensor, resolved, node.target(*args, **kwargs))


_FUNCTIONAL_CALLS = frozenset({"auto_functionalized", "auto_functionalized_v2"})
"""Higher-order ops that hold no graph: they call an op that writes its arguments, on copies of
them."""


class FallbackCall:
    """A node that no program takes up: it is called with the tensors as they are, counted and
    warned of."""

    length = 1

    def __init__(self, node: Node) -> None:
        self._node = node
        self.texts: list[str] = []

    def run(self, environment: Environment, last: Iterable[Node]) -> None:
        """Call it; ``last``: nodes whose values nobody needs any more."""
        args, kwargs = map_arg((self._node.args, self._node.kwargs), environment.__getitem__)
        if self._node.target in _OBSERVATIONS:
            args = pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, args)
            environment[self._node] = self._node.target(*args, **kwargs)
        else:
            counted = _fallbacks()
            environment[self._node] = self._node.target(*args, **kwargs)
            if _fallbacks() == counted and not self._is_the_devices(args, kwargs):
                self._count()
        for node in last:
            environment.pop(node, None)

    def _is_the_devices(self, args: Any, kwargs: Any) -> bool:
        """Return whether the device has run it, and would have counted: PyTorch's own op on tensors on
        ftm."""
        custom = isinstance(
            self._node.target, torch._ops.OpOverload
        ) and self._node.target.namespace not in ("aten", "prims")
        return not custom and any(
            isinstance(x, torch.Tensor) and x.device == DEVICE
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
                f"{name} is not compiled for ftm (for these arguments): it runs on the CPU, between two programs."
                " (Said once; ftm_lazy.metrics counts.)",
                RuntimeWarning,
                stacklevel=2,
            )


def _fallbacks() -> int:
    return sum(n for name, n in _C._counters().items() if name.startswith("fallback::"))


_OBSERVATIONS = frozenset({
    torch.ops.aten._local_scalar_dense.default, torch.ops.aten._assert_async.default, torch.ops.aten._assert_async.msg,
})  # fmt: skip
"""What reads a value, which no program could do."""


def _is_tensors(value: Any) -> bool:
    leaves = pytree.tree_leaves(value)
    return bool(leaves) and all(isinstance(leaf, torch.Tensor) for leaf in leaves)


def _devices(node: Node, count: int, on_cpu: bool) -> list[bool]:
    """For each tensor that a node gives: whether it belongs on the CPU."""
    leaves = pytree.tree_leaves(node.meta.get("val"))
    if len(leaves) != count:
        return [on_cpu] * count
    return [
        leaf.device.type == "cpu" if isinstance(leaf, torch.Tensor) else on_cpu for leaf in leaves
    ]
