"""An FX graph of ATen ops as something to call: programs, with calls on the CPU between them where
need be."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from ftm_lazy.device.device_name import NAME
from ftm_lazy.device.registration import end_step
from ftm_lazy.frontends.graph_partition import CompiledSegment, Environment, FallbackCall

__all__ = ["CompiledGraph"]

_log = logging.getLogger(__name__)


class CompiledGraph:
    """A functional graph, compiled when it first runs.

    It is called with a list of its inputs, which it empties, so that what only the graph still
    needs can be taken over by a result. Inputs may be on the CPU or on ftm. A graph that gives
    nothing and only writes tensors on ftm is where a training step ends, as is an optimizer's step
    that is not compiled.

    Args:
        graph_module: of ATen ops; ``copy_`` on inputs may end it.
        name: what logs call it.
        compiled: is told of each new program's trace.
    """

    def __init__(
        self, graph_module: GraphModule, name: str, compiled: Callable[[str], None]
    ) -> None:
        # AOTAutograd, and whatever wraps this: pass the inputs as a list, to be emptied
        self._boxed_call = True
        self._name, self._compiled = name, compiled
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
        """Gives nothing, as an optimizer's step."""
        self._fixed = not any(_is_symbolic(node.meta.get("val")) for node in self._inputs)
        self._steps: list[CompiledSegment | FallbackCall] = []
        self._last: list[list[Node]] = []
        self.direct: Any | None = None
        """A `_C._GraphCall`, once it has run and is one program that takes and gives tensors."""
        self.has_run = not self._body
        self._last_use = _last_uses(self._body, self._output)
        unknown = [node for node in nodes if node.op in ("call_module", "call_method")]
        if unknown:
            raise ValueError(
                f"the graph calls {unknown[0].target!r}: it must be of ATen ops, as AOTAutograd makes it"
            )

    @property
    def inputs(self) -> int:
        """How many it takes."""
        return len(self._inputs)

    @property
    def programs(self) -> list[str]:
        """The traces of all programs so far."""
        return [text for step in self._steps for text in step.texts]

    def __call__(self, inputs: list[Any]) -> list[Any]:
        ends = self.only_writes and any(inputs[i].device.type == NAME for i in self._written)
        results = self._run(inputs)
        if ends:
            end_step(self)
        return results

    def _run(self, inputs: list[Any]) -> list[Any]:
        if self.direct is not None:
            return self.direct(inputs)
        environment: Environment = dict(zip(self._inputs, inputs, strict=True))
        environment.update(self._constants)
        inputs.clear()
        if not self._steps and self._body:
            self._first_run(environment)
        else:
            for step, last in zip(self._steps, self._last, strict=True):
                step.run(environment, last)
        return map_arg(self._output.args[0], environment.__getitem__)

    def _first_run(self, environment: Environment) -> None:
        """Find the steps, and runs each when it is found: later ones depend on what earlier ones
        give."""
        on_cpu = not any(
            isinstance(x, torch.Tensor) and x.device.type == NAME for x in environment.values()
        )
        steps: list[CompiledSegment | FallbackCall] = []
        lasts: list[list[Node]] = []
        begin, fixed = 0, self._fixed
        while begin < len(self._body):
            uses = {node: use - begin for node, use in self._last_use.items()}
            step: CompiledSegment | FallbackCall = CompiledSegment(
                self._body[begin:], uses, environment, on_cpu, fixed
            )
            if step.length == 0:
                # what it gives may be of another size next time
                step, fixed = FallbackCall(self._body[begin]), False
            last = [node for node in environment if 0 <= uses.get(node, -1) < step.length]
            for text in step.texts:
                self._compiled(text)
            step.run(environment, last)
            steps.append(step)
            lasts.append(last)
            begin += step.length
        self._steps, self._last = steps, lasts
        self.has_run = True
        are_tensors = all(isinstance(node.meta.get("val"), torch.Tensor) for node in self._inputs)
        if are_tensors and len(steps) == 1 and isinstance(steps[0], CompiledSegment):
            given = {node: i for i, node in enumerate(self._inputs)}
            self.direct = steps[0].direct(given, self._constants, self._output.args[0])
        programs = sum(isinstance(step, CompiledSegment) for step in steps)
        _log.info(
            "%s, of %d ops: %d programs, %d calls on the CPU",
            self._name,
            len(self._body),
            programs,
            len(steps) - programs,
        )


def _last_uses(body: list[Node], output: Node) -> dict[Node, int]:
    """For each node that is used, the position in ``body`` of its last user; the output's is behind
    them all."""
    uses: dict[Node, int] = {}
    for position, node in enumerate([*body, output]):
        for used in node.all_input_nodes:
            uses[used] = position
    return uses


def _writes(user: Node, node: Node) -> bool:
    """Return whether a node of the graph writes its input ``node``."""
    return user.target is torch.ops.aten.copy_.default and user.args[0] is node


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(extent, torch.SymInt) for extent in (*value.shape, *value.stride()))
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
