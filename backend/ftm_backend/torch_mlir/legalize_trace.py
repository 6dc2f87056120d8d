"""Rewrites a trace to ops of upstream's torch dialect.

The recorder writes ops as PyTorch dispatches them. Some have no op in the torch dialect, or other
operands there; each rule expresses such an op by one that exists.
"""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.frontend.trace_to_torch_dialect import operand_names
from ftm_backend.ir.trace.trace import Node, Trace

Arguments = dict[str, object]


def for_upstream(trace: Trace) -> Trace:
    """Return an equivalent trace; nodes without a rule are unchanged."""
    return Trace(
        list(trace.params),
        list(trace.scalars),
        [_rewritten(node) for node in trace.nodes],
        list(trace.results),
    )


def _rewritten(node: Node) -> Node:
    rule = _RULES.get(node.op)
    if rule is not None:
        name, arguments = rule(dict(node.args))
        return Node.of(name, tuple(arguments.items()), node.results)
    return _number_for_tensor(node)


def _number_for_tensor(node: Node) -> Node:
    """Rewrite ``aten::div.Tensor(other=2.0)``, which is recorded for numbers, to ``div.Scalar``."""
    head, dot, overload = node.op.rpartition(".")
    arguments = dict(node.args)
    other = arguments.get("other")
    if (
        not dot
        or not overload.startswith("Tensor")
        or isinstance(other, bool)
        or not isinstance(other, (int, float))
    ):
        return node
    name = f"{head}.{overload.replace('Tensor', 'Scalar')}"
    operands, _ = operand_names().get("torch." + name.replace("::", "."), ((), 0))
    return Node.of(name, node.args, node.results) if set(arguments) <= set(operands) else node


def _batch_norm_of_inference(arguments: Arguments) -> tuple[str, Arguments]:
    order = (
        "input",
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "training",
        "momentum",
        "eps",
    )
    return "aten::native_batch_norm", {name: arguments.get(name, False) for name in order}


_RULES: dict[str, Callable[[Arguments], tuple[str, Arguments]]] = {
    "aten::_native_batch_norm_legit_no_training": _batch_norm_of_inference
}
