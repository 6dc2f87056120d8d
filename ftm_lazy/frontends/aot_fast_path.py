"""The way around AOTAutograd's wrappers, which are Python and take longer than a small graph's
calls take to record.

They are for graphs whose results share memory with inputs or with one another, that change what
inputs are, or write inputs that have gradients, or take and give other things than plain tensors.
Where a pair of graphs does nothing of that, and each is one program, the pair is a function of
autograd in C++ (`csrc/capture/graph_call.h`) once both have run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import (
    InputAliasInfo,
    MutationType,
    OutputType,
    PlainTensorMeta,
    ViewAndMutationMeta,
)

from ftm_lazy import _C
from ftm_lazy.frontends.fx_graph import CompiledGraph

__all__ = ["GraphCache", "shortened"]


class GraphCache:
    """What AOTAutograd has compiled of one of Dynamo's graphs so far.

    forward: that of a training step, or the only one. backward: None until it is asked for, or if
    there is none. metadata: AOTAutograd's, of the forward graph.
    """

    def __init__(self) -> None:
        self.forward: CompiledGraph | None = None
        self.backward: CompiledGraph | None = None
        self.is_inference = False
        self._metadata: ViewAndMutationMeta | None = None

    def add(self, kind: str, graph: CompiledGraph) -> None:
        """To be called while AOTAutograd compiles; ``kind``: ``forward``, ``backward`` or
        ``inference``."""
        if kind == "backward":
            self.backward = graph
            return
        self.forward, self.is_inference = graph, kind == "inference"
        context = torch._guards.TracingContext.try_get()
        self._metadata = None if context is None else context.fw_metadata

    def call(self, inputs: int) -> tuple[Callable[..., Any] | None, bool]:
        """Return a function of ``inputs`` tensors in the place of AOTAutograd's, if there is one, and
        whether that is decided."""
        metadata, forward, backward = self._metadata, self.forward, self.backward
        if (
            metadata is None
            or forward is None
            or forward.inputs != inputs
            or not _is_plain(metadata, self.is_inference)
        ):
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


def shortened(call: Callable[..., Any], graphs: GraphCache) -> Callable[..., Any]:
    """AOTAutograd's function, with the way around its wrappers as soon as there is one."""
    short: Callable[..., Any] | None = None
    decided = False

    def compiled(*inputs: Any) -> Any:
        nonlocal short, decided
        # Within torch.func's transforms AOTAutograd's function says what cannot be.
        if not decided:
            short, decided = graphs.call(len(inputs))
        if short is not None and torch._C._functorch.peek_interpreter_stack() is None:
            return short(*inputs)
        return call(*inputs)

    return compiled


def _is_plain(metadata: ViewAndMutationMeta, is_inference: bool) -> bool:
    """Return whether AOTAutograd's wrappers have nothing to do but to call the graphs."""
    saved = (
        metadata.num_symints_saved_for_bw,
        metadata.num_opaque_objects_saved_for_bw,
        metadata.num_tensors_saved_with_no_vc_check,
    )
    # What keeps tensors for gradients otherwise than in memory may have been made part of the
    # graphs.
    hooked = torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
    return (
        not hooked and not any(saved) and not metadata.tokens and not metadata.num_backward_tokens
        and not metadata.is_rng_op_functionalized and not metadata.num_graphsafe_rng_states and not metadata.num_intermediate_bases
        and metadata.grad_enabled_mutation is None and not metadata.dynamic_outputs and not metadata.act_input_indices
        and not metadata.indices_of_inputs_that_requires_grad_with_mutations_in_bw
        and all(isinstance(meta, PlainTensorMeta) for meta in (
            *metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta, *metadata.subclass_tangent_meta))
        and all(_is_plain_input(info, is_inference) for info in metadata.input_info)
        and all(
            info.output_type is OutputType.non_alias and issubclass(info.raw_type, torch.Tensor)
            and (is_inference or info.requires_grad == info.requires_grad_for_backward)
            for info in metadata.output_info)
    )  # fmt: skip


def _is_plain_input(info: InputAliasInfo, is_inference: bool) -> bool:
    """Return whether it is read, or gets its new content from the program itself, and autograd need not
    know."""
    is_same = not (
        info.mutates_metadata
        or info.mutates_storage_metadata
        or info.mutation_inductor_storage_resize
    )
    return info.mutation_type is MutationType.NOT_MUTATED or (
        info.mutation_type is MutationType.MUTATED_IN_GRAPH
        and is_same
        and (is_inference or not info.requires_grad)
    )
