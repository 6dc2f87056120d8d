"""Convolution as a contraction over windows (implicit im2col): no copy of the windows is stored.

A convolution and the gradient of its weights are such loop nests already; see
``schedule/gemm/contraction.py``.
"""

from __future__ import annotations

from ftm_backend.ir.linalg.function import LinalgFunction, Statement
from ftm_backend.ir.linalg.named_ops import WEIGHT_GRADIENT
from ftm_backend.midend.algorithms.algorithm import Algorithm
from ftm_backend.midend.schedule.cost import product_cycles
from ftm_backend.target.presets import MachineParameters

__all__ = ["IM2COL"]


def _cycles(operation: Statement, machine: MachineParameters, limit: float) -> float:
    del limit
    return product_cycles(operation, machine)


def _apply(function: LinalgFunction, operation: Statement) -> None:
    """Leave linalg's operations as they are; others become loop nests without a name."""
    del function
    if operation.op == WEIGHT_GRADIENT:
        operation.op, operation.tensors, operation.attributes = "linalg.generic", (), {}


IM2COL = Algorithm(
    "im2col",
    "Multiply all windows, which are read from the input as they are needed.",
    _cycles,
    _apply,
)
