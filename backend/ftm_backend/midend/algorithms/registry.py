"""The named operations with their algorithms.

To add an algorithm, write a module with an `Algorithm`, and add it here and to
`ftm_backend.target.tuning_overrides`.
"""

from __future__ import annotations

from ftm_backend.ir.linalg.named_ops import CONV_TRANSPOSE, WEIGHT_GRADIENT
from ftm_backend.midend.algorithms.algorithm import NamedOperation
from ftm_backend.midend.algorithms.conv2d_im2col import IM2COL
from ftm_backend.midend.algorithms.conv2d_winograd import WINOGRAD_2X2, WINOGRAD_4X4
from ftm_backend.midend.algorithms.conv_transpose_col2im import COL2IM
from ftm_backend.midend.algorithms.conv_transpose_phases import PHASES
from ftm_backend.midend.algorithms.depthwise_taps import TAPS, WINDOWS
from ftm_backend.midend.algorithms.weight_gradient_winograd import GRADIENT_2X2, GRADIENT_4X4

__all__ = ["NAMED_OPERATIONS"]

CONVOLUTION = NamedOperation("conv2d", (IM2COL, WINOGRAD_2X2, WINOGRAD_4X4), operands=2)
"""Convolutions, also of groups of channels."""

NAMED_OPERATIONS: dict[str, NamedOperation] = {
    CONV_TRANSPOSE: NamedOperation(
        "conv-transpose",
        (
            PHASES,
            COL2IM,
        ),
        operands=3,
    ),
    "linalg.conv_2d_nchw_fchw": CONVOLUTION,
    "linalg.conv_2d_ngchw_gfchw": CONVOLUTION,
    WEIGHT_GRADIENT: NamedOperation(
        "conv2d-weight-gradient", (IM2COL, GRADIENT_2X2, GRADIENT_4X4), operands=2
    ),
    "linalg.depthwise_conv_2d_nchw_chw": NamedOperation(
        "depthwise-conv2d", (WINDOWS, TAPS), operands=2
    ),
}
"""Named operations, in the order in which their algorithms are chosen: the expansion of a
transposed convolution consists of convolutions."""
