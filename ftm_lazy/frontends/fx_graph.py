"""Execution of an FX graph of ATen ops: compiled segments, with calls on the CPU between them."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from ftm_backend.ir.trace.trace import Trace
from ftm_lazy import _C
from ftm_lazy.device.device_name import NAME
from ftm_lazy.device.registration import end_step
from ftm_lazy.frontends.graph_partition import CompiledSegment, Environment, FallbackCall

_log = logging.getLogger(__name__)


class CompiledGraph:
    """A functional graph that is compiled when it first runs.

    The call takes a list of inputs on the CPU or on ftm, and empties it. So a result may reuse the
    memory of an input that only the graph still needs. A graph that has no results and writes
    tensors on ftm is a compiled optimizer step, so it ends a training step.

    Args:
        graph_module: A graph of ATen ops, which may end with ``copy_`` on inputs.
        name: The graph's name in logs.
        on_program: Called with the trace of each new program.
    """

    def __init__(
        self, graph_module: GraphModule, name: str, on_program: Callable[[Trace], None]
    ) -> None:
        # tells AOTAutograd to pass the inputs as a list that the call empties
        self._boxed_call = True
        self._name, self._on_program = name, on_program
        nodes = list(graph_module.graph.nodes)
        self._inputs = [node for node in nodes if node.op == "placeholder"]
        self._constants = {
            node: _attribute(graph_module, str(node.target))
            for node in nodes
            if node.op == "get_attr"
        }
        self._body = [node for node in nodes if node.op == "call_function"]
        self._output = next(node for node in nodes if node.op == "output")
        self._written = [
            i
            for i, node in enumerate(self._inputs)
            if any(_writes(user, node) for user in node.users)
        ]
        self.only_writes = bool(self._written) and not self._output.all_input_nodes
        """Whether it writes inputs and has no results, as an optimizer step."""
        self._is_static = not any(_is_symbolic(node.meta.get("val")) for node in self._inputs)
        self._segments: list[CompiledSegment | FallbackCall] = []
        # for each segment the nodes whose values are last used there
        self._dead_nodes: list[list[Node]] = []
        self.direct: _C._GraphCall | None = None
        """A `_C._GraphCall` after the first run, if the graph is one program on tensors."""
        self.has_run = not self._body
        self._last_use = _last_uses(self._body, self._output)
        unknown = [node for node in nodes if node.op in ("call_module", "call_method")]
        if unknown:
            raise ValueError(
                f"the graph calls {unknown[0].target!r}: it must consist of ATen ops, as"
                " AOTAutograd makes it"
            )

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return len(self._inputs)

    @property
    def programs(self) -> list[str]:
        """The traces of all programs so far."""
        return [str(trace) for segment in self._segments for trace in segment.traces]

    def __call__(self, inputs: list[torch.Tensor]) -> list[object]:
        """Run the graph.

        Args:
            inputs: The graph's inputs; the list is emptied.

        Returns:
            The graph's results.
        """
        is_step = self.only_writes and any(inputs[i].device.type == NAME for i in self._written)
        results = self._run(inputs)
        if is_step:
            end_step(self)
        return results

    def _run(self, inputs: list[torch.Tensor]) -> list[object]:
        if self.direct is not None:
            return self.direct(inputs)
        environment: Environment = dict(zip(self._inputs, inputs, strict=True))
        environment.update(self._constants)
        inputs.clear()
        if not self._segments and self._body:
            self._partition(environment)
        else:
            for segment, dead in zip(self._segments, self._dead_nodes, strict=True):
                segment.run(environment, dead)
        return map_arg(self._output.args[0], environment.__getitem__)

    def _partition(self, environment: Environment) -> None:
        """Partition the graph into segments, running each one to get the next one's inputs."""
        on_cpu = not any(
            isinstance(x, torch.Tensor) and x.device.type == NAME for x in environment.values()
        )
        segments: list[CompiledSegment | FallbackCall] = []
        dead_nodes: list[list[Node]] = []
        begin, is_static = 0, self._is_static
        while begin < len(self._body):
            uses = {node: use - begin for node, use in self._last_use.items()}
            segment: CompiledSegment | FallbackCall = CompiledSegment(
                self._body[begin:], uses, environment, on_cpu, is_static
            )
            if segment.length == 0:
                # the size of its result may depend on data
                segment, is_static = FallbackCall(self._body[begin]), False
            dead = [node for node in environment if 0 <= uses.get(node, -1) < segment.length]
            for trace in segment.traces:
                self._on_program(trace)
            segment.run(environment, dead)
            segments.append(segment)
            dead_nodes.append(dead)
            begin += segment.length
        self._segments, self._dead_nodes = segments, dead_nodes
        self.has_run = True
        are_tensors = all(isinstance(node.meta.get("val"), torch.Tensor) for node in self._inputs)
        if are_tensors and len(segments) == 1 and isinstance(segments[0], CompiledSegment):
            inputs = {node: i for i, node in enumerate(self._inputs)}
            self.direct = segments[0].direct(inputs, self._constants, self._output.args[0])
        programs = sum(isinstance(segment, CompiledSegment) for segment in segments)
        _log.info(
            "%s, of %d ops: %d programs, %d calls on the CPU",
            self._name,
            len(self._body),
            programs,
            len(segments) - programs,
        )


def _last_uses(body: list[Node], output: Node) -> dict[Node, int]:
    """Return the position in `body` of each node's last user; the output's is `len(body)`."""
    uses: dict[Node, int] = {}
    for position, node in enumerate([*body, output]):
        for used in node.all_input_nodes:
            uses[used] = position
    return uses


def _writes(user: Node, node: Node) -> bool:
    """Return whether `user` is a ``copy_`` into `node`."""
    return user.target is torch.ops.aten.copy_.default and user.args[0] is node


def _attribute(module: object, path: str) -> object:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _is_symbolic(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(extent, torch.SymInt) for extent in (*value.shape, *value.stride()))
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
