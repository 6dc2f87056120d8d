"""Gradient of 3x3 windows by Winograd's algorithm, F(3 x 3, m x m).

It is the transpose of the convolution's algorithm (`conv2d_winograd`), which is linear in the
weights:

    V[k] = (B^T x B)[k]      for each position k, tile and channel, as in the convolution
    D[k] = (A dy A^T)[k]     for each position, tile and filter
    S[k] = D[k]^T V[k]       a batch of products of matrices, summed over tiles, in each group
    dw   = G^T S G           for each filter and channel

With tiles of 2 x 2 results there are 16 products for each pair of channels, where the windows need
36; tiles of 4 x 4 need 36 products instead of 144. The sums over tiles have a fixed order, so the
result has the same bits in each run.
"""

from __future__ import annotations

from functools import partial
from math import inf

from ftm_backend.ir.linalg.function import LinalgFunction, Node, Statement, Tensor, Value, constant
from ftm_backend.ir.linalg.named_ops import sum_of_products
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.midend.algorithms.algorithm import Algorithm, replace_operation
from ftm_backend.midend.algorithms.winograd_tiles import (
    Item,
    Tiling,
    comparable_tiling,
    cycles,
    gradient_tiles,
    input_tiles,
    tiling_of,
)
from ftm_backend.midend.algorithms.winograd_transform import WINDOW, weight_matrix
from ftm_backend.target.presets import MachineParameters

__all__ = ["GRADIENT_2X2", "GRADIENT_4X4"]

_LEAST_TILES = 64
"""Fewest tiles of 4 x 4 with which the error is below 4 times that of eager's gradient.

Root mean square against float64, of inputs and gradients behind ReLU: 4.0 times with 16 tiles, 2.7
times with 64. Eager's error grows with the number of its summands. That of tiles of 2 x 2 is at
most 2.0 times eager's with any number.
"""


def _cycles(results: int, operation: Statement, machine: MachineParameters, limit: float) -> float:
    tiling = tiling_of(operation, results)
    if tiling is None:
        return inf
    dtype, shape = operation.results[0].value.dtype, (tiling.positions, tiling.tiles, tiling.groups)
    gradient, data = (
        Tensor.whole(Value(dtype, (*shape, n))) for n in (tiling.filters, tiling.channels)
    )
    return cycles(tiling, _products(tiling, gradient, data), machine, limit)


def _apply(results: int, function: LinalgFunction, operation: Statement) -> None:
    """Replace the gradient by the transforms and the batch of products."""
    tiling = tiling_of(operation, results)
    assert tiling is not None, "the algorithm was estimated"
    items: list[Item] = []
    data = input_tiles(tiling, operation.tensors[1], items)
    gradient = gradient_tiles(tiling, operation.tensors[0], items)
    products = _products(tiling, gradient, data)
    result = operation.results[0].value
    matrix = constant(weight_matrix(results), result.dtype)
    taps = Tensor(matrix, Strided.whole((tiling.positions, WINDOW, WINDOW)))
    start = Node("constant", result.dtype, payload=0.0)
    spec = ("gfcyxk", ("kgfc", "kyx", "gfcyx"), "k")
    summed = Tensor.whole(products.results[0].value)
    last = sum_of_products(spec, (summed, taps), result, start, {})
    replace_operation(function, operation, [*items, products, last])


def _products(tiling: Tiling, gradient: Tensor, data: Tensor) -> Statement:
    """Return the products of all positions and groups, [position, group, filter, channel]."""
    dtype = data.value.dtype
    result = Value(dtype, (tiling.positions, tiling.groups, tiling.filters, tiling.channels))
    start = Node("constant", dtype, payload=0.0)
    spec = ("kgfct", ("ktgf", "ktgc", "kgfc"), "t")
    return sum_of_products(spec, (gradient, data), result, start, {})


def _needs_request(results: int, operation: Statement, machine: MachineParameters) -> bool:
    """Return whether it is too inaccurate, or its cost cannot be compared."""
    tiling = comparable_tiling(results, operation, machine)
    return tiling is None or (results == 4 and tiling.tiles < _LEAST_TILES)


GRADIENT_2X2 = Algorithm(
    "winograd-2x2",
    "Transform tiles of 2x2 elements of the gradient; 2.25 times fewer products.",
    partial(_cycles, 2),
    partial(_apply, 2),
    needs_request=partial(_needs_request, 2),
)

GRADIENT_4X4 = Algorithm(
    "winograd-4x4",
    "Transform tiles of 4x4 elements of the gradient; 4 times fewer products.",
    partial(_cycles, 4),
    partial(_apply, 4),
    needs_request=partial(_needs_request, 4),
)
