"""Fast path that calls compiled graphs without AOTAutograd's Python wrappers.

The wrappers cost more time than recording a small graph. They are needed only if a graph returns
views of its inputs or outputs, changes an input's metadata, writes an input that requires grad, or
has arguments or results other than plain tensors. Otherwise, once the forward and backward graph
have run and each is one program, the pair is called as a C++ autograd function
(`csrc/capture/graph_call.h`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ftm_lazy import _C
from ftm_lazy.frontends.fx_graph import CompiledGraph
from ftm_lazy.torch_version import private_names
from ftm_lazy.torch_version.aot_metadata import ViewAndMutationMeta, is_plain


class GraphCache:
    """The graphs that AOTAutograd has compiled for one Dynamo graph.

    Attributes:
        forward: The forward graph, or the inference graph.
        backward: The backward graph; None before AOTAutograd compiles it, or if there is none.
        is_inference: Whether `forward` is an inference graph.
    """

    def __init__(self) -> None:
        self.forward: CompiledGraph | None = None
        self.backward: CompiledGraph | None = None
        self.is_inference = False
        self._metadata: ViewAndMutationMeta | None = None

    def add(self, kind: str, graph: CompiledGraph) -> None:
        """Add a graph; called within AOTAutograd's compilation, whose context it reads.

        Args:
            kind: "forward", "backward" or "inference".
            graph: The compiled graph.
        """
        if kind == "backward":
            self.backward = graph
            return
        self.forward, self.is_inference = graph, kind == "inference"
        context = torch._guards.TracingContext.try_get()
        self._metadata = None if context is None else context.fw_metadata

    def fast_call(self, inputs: int) -> tuple[Callable[..., object] | None, bool]:
        """Return the fast path for calls with `inputs` tensors.

        Returns:
            The function that replaces AOTAutograd's, or None if there is none; and whether this
            result is final.
        """
        metadata, forward, backward = self._metadata, self.forward, self.backward
        if metadata is None or forward is None or forward.inputs != inputs:
            return None, True
        if not is_plain(metadata, self.is_inference):
            return None, True
        if forward.direct is None:
            return None, forward.has_run
        if self.is_inference:
            direct = forward if forward.only_writes else forward.direct
            return (lambda *tensors: direct(list(tensors))), True
        if backward is None or backward.direct is None:
            return None, backward is not None and backward.has_run
        differentiable = [output.requires_grad for output in metadata.output_info]
        return _C._AutogradCall(
            forward.direct, backward.direct, differentiable, metadata.deterministic is not False
        ), True


def bypass_wrappers(call: Callable[..., object], graphs: GraphCache) -> Callable[..., object]:
    """Wrap AOTAutograd's function so that it takes the fast path once there is one.

    Args:
        call: AOTAutograd's function.
        graphs: The graphs that it calls.
    """
    fast_call: Callable[..., object] | None = None
    is_final = False

    def compiled(*inputs: object) -> object:
        nonlocal fast_call, is_final
        if not is_final:
            fast_call, is_final = graphs.fast_call(len(inputs))
        # within torch.func's transforms AOTAutograd's function raises the right errors
        if fast_call is not None and not private_names.in_functorch_transform():
            return fast_call(*inputs)
        return call(*inputs)

    return compiled
