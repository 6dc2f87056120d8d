"""The ops that the recorder's sources name, and why they do; whatever else is known of an op is said in its record."""

from __future__ import annotations

import re

from layers import dependencies

NAMED: dict[str, tuple[str, str]] = {
    "eager/call_checks.cpp": (
        "conditions on values of arguments, of one op each: a dim, an alpha, a number of padding",
        "_embedding_bag _embedding_bag_forward_only add complex convolution logsumexp multinomial narrow_copy pow.Tensor_Scalar rsub sub"),
    "eager/draw_checks.cpp": ("what a distribution may be drawn with", "multinomial native_dropout normal randperm"),
    "eager/index_checks.cpp": ("reading by places and writing by them are checked together", "index_put"),
    "eager/known_values.cpp": ("how the values that came from the CPU are looked at", "div multinomial"),
    "eager/layout.cpp": (
        "layouts that ATen computes from more than one argument",
        "convolution convolution_backward glu_backward max_pool3d_with_indices native_dropout_backward roll"),
    "kernels/batch_norm.cpp": (
        "calls: the schema does not say that statistics are written",
        "_native_batch_norm_legit.no_stats _native_batch_norm_legit_functional _native_batch_norm_legit_no_training"),
    "kernels/factories.cpp": ("calls", "arange.start_out full linspace.out logspace.out"),
    "kernels/masks.cpp": ("a call that is counted", "nonzero"),
    "kernels/observers.cpp": (
        "calls: observers write beside two results", "_fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional"),
    "kernels/random.cpp": ("calls", "normal_ uniform_"),
    "kernels/sparse.cpp": ("calls on the CPU that are counted", "_coalesce add.Tensor addmm mm mul.Tensor sparse_mask"),
    "ops/beyond_schema.cpp": ("their schemas say float where a number may change from step to step", "native_dropout native_dropout_backward"),
    "ops/call_on_values.cpp": ("calls", "_to_copy expand zeros"),
    "ops/composite_kernel.cpp": (
        "composite kernels that serve no device but those that they name, or ask for something that a backend must bring",
        "_native_batch_norm_legit_functional convolution convolution_backward index_put_ kaiser_window kaiser_window.beta"
        " kaiser_window.periodic mode.values narrow_copy"),
    "ops/functional_form.cpp": ("functional forms of other names", "__ __i _index_put_impl_ index_put normal_ normal_functional"),
    "quantized/making.cpp": ("a call that is counted", "quantize_per_channel"),
    "recorder/infer_form.cpp": (
        "meta kernels that say what another device does, in cases that the CPU is asked about",
        "_embedding_bag _embedding_bag_forward_only _native_batch_norm_legit.no_stats _native_batch_norm_legit_functional index_put"
        " multi_margin_loss multilabel_margin_loss_forward nansum native_group_norm native_layer_norm"),
    "recorder/register_ops.cpp": (
        "which of ATen's composite kernels calls are not left to, and prefixes of ops of other devices and layouts",
        "_coalesc _cudnn _efficientzerotensor _mkldnn _nested _pin_mem _quantize _sparse _to_sparse all.dims all.dims_out any.dims"
        " any.dims_out cudnn cummax cummax.out cummin cummin.out embedding is_pinned logcumsumexp logcumsumexp.out"
        " masked_scatter_backward miopen mish_backward mkldnn native_group_norm native_layer_norm quantize record_stream silu_backward"
        " sparse_ to_sparse"),
    "run/reference.cpp": (
        "the reference executor: ops that ATen makes deterministic by a switch, and results of bags",
        "_embedding_bag _embedding_bag_forward_only index_add index_copy index_put index_reduce put scatter scatter_add scatter_reduce"),
    "run/reference_random.cpp": (
        "the reference executor: how each distribution is drawn from the generator's words",
        "bernoulli bernoulli.Tensor bernoulli.p cauchy exponential geometric log_normal multinomial native_dropout normal."
        " normal_functional random random.from random.to randperm randperm.generator uniform"),
}
"""Source -> (reason, the names without their namespace)."""


def found() -> dict[str, set[str]]:
    """Source -> the names in it, beside comments."""
    names: dict[str, set[str]] = {}
    for path in sorted(dependencies.RECORDER.rglob("*.*")):
        text = re.sub(r"//.*", "", path.read_text())
        if here := {name for name in re.findall(r'"aten::([\w.]*)"', text) if name}:
            names[str(path.relative_to(dependencies.RECORDER))] = here
    return names
