"""The algorithms of each named operation, the default first: it works on every machine.

To add an algorithm, write a module with an `Algorithm`, and add it here and to
`ftm_backend.target.tuning`.
"""

from __future__ import annotations

from ftm_backend.midend.algorithms.algorithm import Algorithm
from ftm_backend.midend.algorithms.conv_transpose_col2im import COL2IM
from ftm_backend.midend.algorithms.conv_transpose_phases import PHASES

__all__ = ["ALGORITHMS"]

ALGORITHMS: dict[str, tuple[Algorithm, ...]] = {
    "ftm.conv_transpose": (
        PHASES,
        COL2IM,
    ),
}
