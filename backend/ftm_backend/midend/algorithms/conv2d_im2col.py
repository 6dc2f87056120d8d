"""Convolution as a contraction over windows (implicit im2col): no copy of the windows is stored.

It is what the convolution's loop nest says, so nothing is rewritten; see
``schedule/gemm/contraction.py``.
"""

from __future__ import annotations

from ftm_backend.ir.linalg.function import LinalgFunction, Statement
from ftm_backend.midend.algorithms.algorithm import Algorithm
from ftm_backend.midend.schedule.cost import contraction_cycles
from ftm_backend.target.presets import MachineParameters

__all__ = ["IM2COL"]


def _cycles(operation: Statement, machine: MachineParameters, limit: float) -> float:
    del limit
    return contraction_cycles(operation, machine)


def _apply(function: LinalgFunction, operation: Statement) -> None:
    del function, operation


IM2COL = Algorithm(
    "im2col",
    "Multiply the weights by all windows, which are read from the input as they are needed.",
    _cycles,
    _apply,
)
