"""The named operations with their algorithms.

To add an algorithm, write a module with an `Algorithm`, and add it here and to
`ftm_backend.target.tuning`.
"""

from __future__ import annotations

from ftm_backend.midend.algorithms.algorithm import NamedOperation
from ftm_backend.midend.algorithms.conv2d_im2col import IM2COL
from ftm_backend.midend.algorithms.conv2d_winograd import WINOGRAD_2X2, WINOGRAD_4X4
from ftm_backend.midend.algorithms.conv_transpose_col2im import COL2IM
from ftm_backend.midend.algorithms.conv_transpose_phases import PHASES
from ftm_backend.midend.algorithms.depthwise_taps import TAPS, WINDOWS

__all__ = ["NAMED_OPERATIONS"]

NAMED_OPERATIONS: dict[str, NamedOperation] = {
    "ftm.conv_transpose": NamedOperation(
        "conv-transpose",
        (
            PHASES,
            COL2IM,
        ),
        operands=3,
    ),
    "linalg.conv_2d_nchw_fchw": NamedOperation(
        "conv2d", (IM2COL, WINOGRAD_2X2, WINOGRAD_4X4), operands=2
    ),
    "linalg.depthwise_conv_2d_nchw_chw": NamedOperation(
        "depthwise-conv2d", (WINDOWS, TAPS), operands=2
    ),
}
"""Named operations, in the order in which their algorithms are chosen: the expansion of a
transposed convolution consists of convolutions."""
