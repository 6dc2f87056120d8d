"""AOTAutograd's description of a graph, which PyTorch extends and renames between versions.

`is_plain` decides whether AOTAutograd's Python wrappers can be bypassed. A field that this module
does not know may describe something that they do, so its presence always gives the answer no: calls
are then slower, and right.
"""

from __future__ import annotations

from dataclasses import fields

import torch
from torch._functorch._aot_autograd.schemas import (
    InputAliasInfo,
    MutationType,
    OutputAliasInfo,
    OutputType,
    PlainTensorMeta,
    ViewAndMutationMeta,
)

from ftm_lazy.torch_version import private_names

__all__ = ["ViewAndMutationMeta", "is_plain"]

_FIELDS = {field.name for field in fields(ViewAndMutationMeta)}

_NEEDS_WRAPPER = frozenset(
    {
        "act_input_indices",  # 2.13
        "act_input_paths",  # 2.14's name of it
        "indices_of_inputs_that_requires_grad_with_mutations_in_bw",
        "num_backward_tokens",
        "num_graphsafe_rng_states",
        "num_intermediate_bases",
        "num_opaque_objects_saved_for_bw",
        "num_symints_saved_for_bw",
        "num_tensors_saved_with_no_vc_check",
        "tokens",
    }
)
"""Fields whose value must be empty, zero or None."""

_CHECKED = frozenset(
    {
        "grad_enabled_mutation",
        "input_info",
        "output_info",
        "subclass_fw_graph_out_meta",
        "subclass_inp_meta",
        "subclass_tangent_meta",
    }
)
"""Fields that `is_plain` reads itself."""

_WITHOUT_EFFECT = frozenset(
    {
        "bw_donated_idxs",
        "compile_id_str",
        "deterministic",
        "graphsafe_rng_device",
        "graphsafe_rng_state_index",
        "keep_input_mutations",
        "mutated_inp_stream_indices",
        "saved_tensor_is_graph_input",  # 2.14: which saved tensors are the graph's inputs
        "static_input_indices",
        "tangent_source_stack_traces",
        "traced_tangent_metas",
        "traced_tangents",
        "traced_tangents_descs",
    }
)
"""Fields that say nothing about the wrappers of a graph whose other fields are plain."""

_EMPTY = sorted(_NEEDS_WRAPPER & _FIELDS)
_UNKNOWN = _FIELDS - _NEEDS_WRAPPER - _CHECKED - _WITHOUT_EFFECT


def is_plain(metadata: ViewAndMutationMeta, is_inference: bool) -> bool:
    """Return whether AOTAutograd's wrappers do nothing except calling the graphs."""
    # hooks for saved tensors may have been traced into the graphs
    if _UNKNOWN or private_names.has_saved_tensor_hooks():
        return False
    needs_wrapper = (
        *(getattr(metadata, name) for name in _EMPTY),
        metadata.is_rng_op_functionalized,
        metadata.grad_enabled_mutation is not None,
        metadata.dynamic_outputs,
    )
    tensor_metas = (
        *metadata.subclass_inp_meta,
        *metadata.subclass_fw_graph_out_meta,
        *metadata.subclass_tangent_meta,
    )
    return (
        not any(needs_wrapper)
        and all(isinstance(meta, PlainTensorMeta) for meta in tensor_metas)
        and all(_is_plain_input(info, is_inference) for info in metadata.input_info)
        and all(_is_plain_output(info, is_inference) for info in metadata.output_info)
    )


def _is_plain_output(info: OutputAliasInfo, is_inference: bool) -> bool:
    """Return whether it is a tensor with its own memory that needs no detach."""
    return (
        info.output_type is OutputType.non_alias
        and issubclass(info.raw_type, torch.Tensor)
        and (is_inference or info.requires_grad == info.requires_grad_for_backward)
    )


def _is_plain_input(info: InputAliasInfo, is_inference: bool) -> bool:
    """Return whether it is only read, or written by the graph itself outside of autograd."""
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
