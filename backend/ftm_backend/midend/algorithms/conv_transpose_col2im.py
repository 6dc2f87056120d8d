"""Transposed convolution as one matmul, whose result col2im adds up on chip.

It reads weights and input once, where the phases need a kernel each and a copy of the weights. See
``lowering/gemm/col2im.py``.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from ftm_backend.ir.linalg.function import LinalgFunction, Statement, Tensor
from ftm_backend.midend.algorithms.algorithm import Algorithm
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.cost import estimate
from ftm_backend.pass_manager import OVERLAPPING_DMA
from ftm_backend.target.presets import MachineParameters

__all__ = ["COL2IM"]


def _cycles(operation: Statement, machine: MachineParameters, limit: float) -> float:
    del limit
    x, weight, _ = operation.tensors
    if not all(map(_is_readable, (x, weight))) or not _has_even_taps(weight):
        return inf
    alone = replace(operation, tensors=(x, weight), operands=operation.operands[:2])
    return estimate(KernelKind.COL2IM, [alone], machine)


def _is_readable(tensor: Tensor) -> bool:
    """Return whether a tensor is in memory, not empty, of constant sizes, and not broadcast."""
    view = tensor.view
    numbers = (*view.sizes, *view.strides, view.offset)
    is_constant = all(type(number) is int for number in numbers) and 0 not in view.sizes
    is_broadcast = any(n != 1 and not s for n, s in zip(view.sizes, view.strides, strict=True))
    return is_constant and not is_broadcast and tensor.value.splat is None


def _has_even_taps(weight: Tensor) -> bool:
    """Return whether one stride leads through all taps of the weights."""
    rows, columns = weight.view.strides[2:]
    return 1 in weight.view.sizes[2:] or rows == columns * weight.view.sizes[3]


def _apply(function: LinalgFunction, operation: Statement) -> None:
    """Drop the expansion; a kernel of kind ``col2im`` computes the operation."""
    del function
    operation.tensors, operation.operands = operation.tensors[:2], operation.operands[:2]


COL2IM = Algorithm(
    "col2im",
    "Multiply all taps by all windows, and add up the overlapping windows on chip.",
    _cycles,
    _apply,
    (OVERLAPPING_DMA,),
)
