"""Convolution with 3x3 windows by Winograd's algorithm F(m x m, 3 x 3).

Example: F(2 x 2) computes tiles of 2 x 2 results from tiles of 4 x 4 inputs with 16 products for
each pair of channels, where the windows need 36:

    V[k] = (B^T x B)[k]    for each of the 16 positions k, tile and channel
    U[k] = (G w G^T)[k]    for each position, filter and channel
    M[k] = V[k] U[k]^T     a batch of 16 products of matrices, in each group
    y    = A^T M A         for each tile and filter

F(4 x 4) needs 36 products instead of 144, but its error is larger. See `winograd_transform` for the
matrices, and `winograd_tiles` for the transforms.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from math import inf

from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.function import LinalgFunction, Node, Statement, Tensor, Value, constant
from ftm_backend.ir.linalg.named_ops import sum_of_products
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.midend.algorithms.algorithm import Algorithm, replace_operation
from ftm_backend.midend.algorithms.winograd_tiles import (
    Item,
    Tiling,
    comparable_tiling,
    cycles,
    input_tiles,
    tiling_of,
    transform,
)
from ftm_backend.midend.algorithms.winograd_transform import (
    WINDOW,
    transform_matrices,
    weight_matrix,
)
from ftm_backend.target.presets import MachineParameters

__all__ = ["WINOGRAD_2X2", "WINOGRAD_4X4"]

_MOST_CHANNELS = 512
"""Most channels for which the error of F(2 x 2) is below 4 times that of eager's convolution: 1.2
times with 64 channels, 3.5 times with 512 (root mean square, against float64)."""


def _cycles(results: int, operation: Statement, machine: MachineParameters, limit: float) -> float:
    tiling = tiling_of(operation, results)
    if tiling is None or _filters(tiling, operation.tensors[1]) is None:
        return inf
    dtype = operation.results[0].value.dtype
    batch, filters = (tiling.positions, tiling.groups), tiling.filters
    data = Value(dtype, (tiling.positions, tiling.tiles, tiling.groups, tiling.channels))
    weights = Value(dtype, (*batch, filters, tiling.channels))
    products = _products(tiling, Tensor.whole(data), Tensor.whole(weights))
    return cycles(tiling, products, machine, limit)


def _apply(results: int, function: LinalgFunction, operation: Statement) -> None:
    """Replace the convolution by the transforms and the batch of products."""
    tiling = tiling_of(operation, results)
    assert tiling is not None, "the algorithm was estimated"
    (result,) = operation.results
    items: list[Item] = []
    data = input_tiles(tiling, operation.tensors[0], items)
    weights = _transformed_weight(tiling, operation.tensors[1], items)
    products = _products(tiling, data, weights)
    items.append(products)
    computed = _transformed_output(tiling, products.results[0].value, items)
    shape = result.value.shape
    view = Strided.whole(tiling.computed).slice(0, 0, shape[-2]).slice(1, 0, shape[-1])
    split = view.permute((2, 3, 0, 1)).reshape(shape)
    assert split is not None, "filters are split into groups"
    replace_operation(function, operation, items, Tensor(computed, split))


def _filters(tiling: Tiling, weight: Tensor) -> Tensor | None:
    """Return the weights as [filter, channel, row, column], with the filters of all groups."""
    view = weight.view.reshape((tiling.computed[3], tiling.channels, WINDOW, WINDOW))
    return None if view is None else Tensor(weight.value, view)


def _transformed_weight(tiling: Tiling, weight: Tensor, items: list[Item]) -> Tensor:
    """Append G w G^T of each filter and channel; return [position, group, filter, channel]."""
    filters = _filters(tiling, weight)
    assert filters is not None, "the algorithm was estimated"
    dtype = weight.value.dtype
    result = Value(dtype, (tiling.positions, tiling.computed[3], tiling.channels))
    matrix = constant(weight_matrix(tiling.results), dtype)
    taps = Tensor(matrix, Strided.whole((tiling.positions, WINDOW, WINDOW)))
    start = Node("constant", dtype, payload=0.0)
    spec = ("kfcyx", ("kyx", "fcyx", "kfc"), "yx")
    items.append(sum_of_products(spec, (taps, filters), result, start, {}))
    shape = (tiling.positions, tiling.groups, tiling.filters, tiling.channels)
    return Tensor(result, Strided.whole(shape))


def _products(tiling: Tiling, data: Tensor, weights: Tensor) -> Statement:
    """Return the products of all positions and groups, [position, tile, group, filter]."""
    dtype = data.value.dtype
    result = Value(dtype, (tiling.positions, tiling.tiles, tiling.groups, tiling.filters))
    start = Node("constant", dtype, payload=0.0)
    spec = ("kgtfc", ("ktgc", "kgfc", "ktgf"), "c")
    return sum_of_products(spec, (data, weights), result, start, {})


def _transformed_output(tiling: Tiling, products: Value, items: list[Item]) -> Value:
    """Append A^T M A of each tile and filter; return the results of all tiles, channels last."""
    loops = (*tiling.counts, tiling.images, tiling.computed[3])
    strides = row_major(tiling.computed)
    steps = (tiling.results * strides[0], tiling.results * strides[1], *strides[2:])
    each = tiling.tiles * tiling.computed[3]
    return transform(
        products,
        loops,
        row_major(loops),
        [k * each for k in range(tiling.positions)],
        transform_matrices(tiling.results)[0],
        Value(products.dtype, tiling.computed),
        [
            Strided(loops, steps, y * strides[0] + x * strides[1])
            for y, x in product(range(tiling.results), repeat=2)
        ],
        items,
    )


def _needs_request(operation: Statement, machine: MachineParameters) -> bool:
    """Return whether F(2 x 2) is too inaccurate, or its cost cannot be compared."""
    tiling = comparable_tiling(2, operation, machine)
    return tiling is None or tiling.channels > _MOST_CHANNELS


WINOGRAD_2X2 = Algorithm(
    "winograd-2x2",
    "Transform tiles of 2x2 results; 2.25 times fewer products.",
    partial(_cycles, 2),
    partial(_apply, 2),
    needs_request=_needs_request,
)

WINOGRAD_4X4 = Algorithm(
    "winograd-4x4",
    "Transform tiles of 4x4 results; 4 times fewer products, but less accurate.",
    partial(_cycles, 4),
    partial(_apply, 4),
    needs_request=lambda operation, machine: True,
)
