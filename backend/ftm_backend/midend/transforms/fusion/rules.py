"""All fusion rules, in the order in which they run, each with an example in ``tests/passes``.

To add a rule, write a module with ``is_anchor`` and ``candidates``, and add a line here and to
`ftm_backend.midend.pipeline`.
"""

from __future__ import annotations

from ftm_backend.midend.transforms.fusion import (
    fuse_attention,
    fuse_attention_backward,
    fuse_conv_backward,
    fuse_conv_prologue,
    fuse_conv_transpose_epilogue,
    fuse_gemm_prologue,
    fuse_gemm_reduction,
    fuse_pool_reduction,
)
from ftm_backend.midend.transforms.fusion.fusion_rule import FusionRule

__all__ = ["AFTER_ALGORITHMS", "BEFORE_ALGORITHMS", "RULES"]

BEFORE_ALGORITHMS = (
    FusionRule(
        "fuse-attention-backward",
        "Fuse the gradients of attention into one kernel that keeps the scores on chip.",
        fuse_attention_backward.is_anchor,
        fuse_attention_backward.candidates,
    ),
    FusionRule(
        "fuse-attention",
        "Fuse attention into one kernel that keeps the scores on chip.",
        fuse_attention.is_anchor,
        fuse_attention.candidates,
    ),
    FusionRule(
        "fuse-conv-backward",
        "Fuse both gradients of a convolution with the weight update, to read the weights once.",
        fuse_conv_backward.is_anchor,
        fuse_conv_backward.candidates,
    ),
    FusionRule(
        "fuse-conv-transpose-epilogue",
        "Apply elementwise consumers of a transposed convolution before its result is stored.",
        fuse_conv_transpose_epilogue.is_anchor,
        fuse_conv_transpose_epilogue.candidates,
    ),
    FusionRule(
        "fuse-gemm-prologue",
        "Compute a matmul operand in the kernel of the matmul, if nothing else reads it.",
        fuse_gemm_prologue.is_anchor,
        fuse_gemm_prologue.candidates,
    ),
    FusionRule(
        "fuse-conv-prologue",
        "Apply batch norm and ReLU while a convolution loads its input, instead of storing it.",
        fuse_conv_prologue.is_anchor,
        fuse_conv_prologue.candidates,
    ),
)
"""Rules for kernels of matmuls and convolutions."""

AFTER_ALGORITHMS = (
    FusionRule(
        "fuse-pool-reduction",
        "Compute partial sums of a pooling's result in its kernel, one for each plane.",
        fuse_pool_reduction.is_anchor,
        fuse_pool_reduction.candidates,
    ),
    FusionRule(
        "fuse-gemm-reduction",
        "Compute partial sums of a matmul's result in its kernel, one for each block.",
        fuse_gemm_reduction.is_anchor,
        fuse_gemm_reduction.candidates,
    ),
)
"""Rules that need to know which poolings have line buffers, and which feature maps are stored."""

RULES = (*BEFORE_ALGORITHMS, *AFTER_ALGORITHMS)
