"""torch_xla.core.dynamo_bridge: the entry point of PyTorch's backend ``openxla``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ftm_lazy.torch_xla import _debug_counters, _refusals

__all__ = ["extract_compiled_graph"]

__getattr__ = _refusals.getter(__name__)


def extract_compiled_graph(
    xla_model: torch.fx.GraphModule, xla_args: Sequence[object]
) -> Callable[..., object]:
    """Compile a graph; called by ``torch.compile(backend="openxla")`` for each one.

    The program is captured at the first call, so later calls do not dispatch the graph's
    operations again.

    Args:
        xla_model: A graph of functions. One that calls modules or methods, as
            `torch.fx.symbolic_trace` makes it, is recorded at each call instead.
        xla_args: The arguments of the first call.

    Returns:
        A function that takes the graph's arguments and returns its results.
    """
    from ftm_lazy.frontends.dynamo import TorchCompileBackend

    _debug_counters.count("DynamoExtractCompiledGraph")
    if any(node.op in ("call_module", "call_method") for node in xla_model.graph.nodes):
        return xla_model.forward
    compiled = TorchCompileBackend().compile_aten(xla_model, "openxla")

    # Autograd may call it in a frame that Dynamo has left; Dynamo must not trace the capture.
    @torch.compiler.disable
    def call(*inputs: object) -> object:
        return compiled(list(inputs))

    return call
