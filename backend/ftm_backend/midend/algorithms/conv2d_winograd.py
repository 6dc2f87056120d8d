"""Convolution with 3x3 windows by Winograd's algorithm F(m x m, 3 x 3).

Example: F(2 x 2) computes tiles of 2 x 2 results from tiles of 4 x 4 inputs with 16 products for
each pair of channels, where the windows need 36:

    V[k] = (B^T x B)[k]    for each of the 16 positions k, tile and channel
    U[k] = (G w G^T)[k]    for each position, filter and channel
    M[k] = V[k] U[k]^T     a batch of 16 products of matrices
    y    = A^T M A         for each tile and filter

F(4 x 4) needs 36 products instead of 144, but its error is larger. See `winograd_transform` for the
matrices.

The transforms are loop nests whose innermost loops are over images and channels, so that they move
long runs. The input is transposed for that when it is padded, and the result when it is stored. All
machines run these; no kernel is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import inf

from ftm_backend.ir.linalg.affine import Affine, dot, row_major, volume
from ftm_backend.ir.linalg.function import (
    FunctionResult,
    LinalgFunction,
    Node,
    Operand,
    SequentialLoop,
    Statement,
    Tensor,
    Update,
    Value,
    WindowPart,
    constant,
    copy_statement,
)
from ftm_backend.ir.linalg.named_ops import named_statement
from ftm_backend.ir.linalg.strided_layout import Strided
from ftm_backend.midend.algorithms.algorithm import Algorithm, replace_operation
from ftm_backend.midend.algorithms.unpadded_input import unpadded
from ftm_backend.midend.algorithms.winograd_transform import (
    WINDOW,
    Matrix,
    combinations,
    transform_matrices,
)
from ftm_backend.midend.schedule.cost import contraction_cycles, traffic_cycles
from ftm_backend.symbolic import ceildiv
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["WINOGRAD_2X2", "WINOGRAD_4X4"]

_COPYING = 5
"""Time of a transform over that of its traffic, on a machine whose cores copy data themselves.

Measured on the host, in milliseconds of products and transforms of 16 images: 2.6 and 1.6 with 128
channels of 16x16, 3.0 and 4.6 with 64 channels of 32x32. Products take half their modelled time.
"""

_MOST_CHANNELS = 512
"""Most channels for which the error of F(2 x 2) is below 4 times that of eager's convolution: 1.2
times with 64 channels, 3.5 times with 512 (root mean square, against float64)."""

_MOST_BYTES = 64 * 1024 * 1024
"""Most memory for the transformed input and the products, which take 4 times that of both maps."""

Item = Statement | Update | SequentialLoop


@dataclass(frozen=True)
class _Tiling:
    """How a convolution's result is cut into tiles.

    Attributes:
        results: Rows and columns of a tile of results.
        images: Number of images.
        channels: Number of input channels.
        filters: Number of filters.
        counts: Number of tiles along rows and columns; the last ones may be incomplete.
    """

    results: int
    images: int
    channels: int
    filters: int
    counts: tuple[int, int]

    @property
    def inputs(self) -> int:
        """Rows and columns of a tile of inputs."""
        return self.results + WINDOW - 1

    @property
    def positions(self) -> int:
        """Elements of a tile of inputs: the batch of the products."""
        return self.inputs**2

    @property
    def tiles(self) -> int:
        """Number of tiles of all images."""
        return self.images * volume(self.counts)

    @property
    def padded(self) -> tuple[int, int, int, int]:
        """Shape of the padded input: rows, columns, images and channels."""
        rows, columns = (n * self.results + WINDOW - 1 for n in self.counts)
        return rows, columns, self.images, self.channels

    @property
    def computed(self) -> tuple[int, int, int, int]:
        """Shape of the results of all tiles: rows, columns, images and filters."""
        rows, columns = (n * self.results for n in self.counts)
        return rows, columns, self.images, self.filters


def _tiling(operation: Statement, results: int) -> _Tiling | None:
    """Return the tiling of a convolution, or None if it is no dense one with 3x3 windows."""
    (result,), (x, weight) = operation.results, operation.tensors
    numbers = [
        n for view in (x.view, weight.view) for n in (*view.sizes, *view.strides, view.offset)
    ]
    if not all(type(n) is int for n in numbers) or 0 in operation.loops:
        return None
    is_dense = all(
        tuple(operation.attributes.get(name, (1, 1))) == (1, 1) for name in ("strides", "dilations")
    )
    starts_at_zero = (
        isinstance(result.init, Node) and result.init.op == "constant" and not result.init.payload
    )
    has_one_type = result.value.dtype in ("f32", "f64") and all(
        t.value.dtype == result.value.dtype for t in operation.tensors
    )
    if not (is_dense and starts_at_zero and has_one_type and weight.view.sizes[2:] == (3, 3)):
        return None
    if unpadded(x) is None or weight.value.splat is not None:
        return None
    images, channels = x.view.sizes[:2]
    if 1 in (channels, weight.view.sizes[0]):
        return None  # its products are not products of matrices
    rows, columns = (ceildiv(n, results) for n in result.value.shape[2:])
    return _Tiling(results, images, channels, weight.view.sizes[0], (rows, columns))


def _cycles(results: int, operation: Statement, machine: MachineParameters, limit: float) -> float:
    """Return the cycles of the batch of products, and of moving what the transforms move."""
    tiling = _tiling(operation, results)
    if tiling is None:
        return inf
    dtype = operation.results[0].value.dtype
    weights = Value(dtype, (tiling.positions, tiling.filters, tiling.channels))
    data = Value(dtype, (tiling.positions, tiling.tiles, tiling.channels))
    batch = _products(tiling, data, weights)
    elements = (
        volume(weights.shape)
        + volume(data.shape)
        + volume(batch.results[0].value.shape)
        + 2 * (volume(tiling.padded) + volume(tiling.computed))
    )
    transforming = traffic_cycles(machine, elements * ELEMENT_BYTES[dtype])
    if not machine.dma_overlaps:
        transforming *= _COPYING
    return (
        transforming if transforming > limit else transforming + contraction_cycles(batch, machine)
    )


def _apply(results: int, function: LinalgFunction, operation: Statement) -> None:
    """Replace the convolution by the transforms and the batch of products."""
    tiling = _tiling(operation, results)
    assert tiling is not None, "the algorithm was estimated"
    (result,) = operation.results
    dtype = result.value.dtype
    items: list[Item] = []
    data = _transformed_input(tiling, operation.tensors[0], dtype, items)
    weights = _transformed_weight(tiling, operation.tensors[1], dtype, items)
    products = _products(tiling, data, weights)
    items.append(products)
    computed = _transformed_output(tiling, products.results[0].value, items)
    _, _, rows, columns = result.value.shape
    view = Strided.whole(tiling.computed).slice(0, 0, rows).slice(1, 0, columns)
    replace_operation(function, operation, items, Tensor(computed, view.permute((2, 3, 0, 1))))


def _transformed_input(tiling: _Tiling, x: Tensor, dtype: str, items: list[Item]) -> Value:
    """Append B1 x B2^T of each tile and channel; return it as [position, tile, channel]."""
    found = unpadded(x)
    assert found is not None
    inner, low = found
    padded = Value(inner.value.dtype, tiling.padded)
    strides = row_major(padded.shape)
    zeros = Value(padded.dtype, padded.shape, splat=Node("constant", padded.dtype, payload=0.0))
    view = inner.view
    for dim, (whole, before) in enumerate(zip(padded.shape, low, strict=False), start=2):
        view = view.slice(dim, 0, min(view.sizes[dim], whole - before))  # the rest is not read
    moved = copy_statement(Tensor(inner.value, view.permute((2, 3, 0, 1))))
    place = Strided(moved.loops, strides, low[0] * strides[0] + low[1] * strides[1])
    update = Update(
        padded, Tensor.whole(zeros), [WindowPart(Tensor.whole(moved.results[0].value), place)]
    )
    padded.producer = update
    items += [moved, update]
    loops = (*tiling.counts, tiling.images, tiling.channels)
    each = tiling.tiles * tiling.channels
    return _transform(
        padded,
        loops,
        (tiling.results * strides[0], tiling.results * strides[1], *strides[2:]),
        [y * strides[0] + x * strides[1] for y, x in product(range(tiling.inputs), repeat=2)],
        transform_matrices(tiling.results)[2],
        Value(dtype, (tiling.positions, tiling.tiles, tiling.channels)),
        [Strided(loops, row_major(loops), k * each) for k in range(tiling.positions)],
        items,
    )


def _transformed_weight(tiling: _Tiling, weight: Tensor, dtype: str, items: list[Item]) -> Value:
    """Append G1 w G2^T of each filter and channel; return it as [position, filter, channel]."""
    _, rows, _ = transform_matrices(tiling.results)
    taps = [float(a * b) for y, x in product(rows, repeat=2) for a, b in product(y, x)]
    matrix = constant(taps, dtype)
    result = Value(dtype, (tiling.positions, tiling.filters, tiling.channels))
    # loops: position, filter, channel, row and column of the window
    rank = 5
    loops = (*result.shape, WINDOW, WINDOW)
    unit = [Affine.loop(k, rank) for k in range(rank)]
    index = dot((unit[0], unit[3], unit[4]), (WINDOW * WINDOW, WINDOW, 1), 0, rank)
    factor = Operand(matrix, index)
    taken = Operand(weight.value, dot(unit[1:], weight.view.strides, weight.view.offset, rank))
    term = Node(
        "arith.mulf",
        dtype,
        (Node("in", dtype, payload=factor), Node("in", dtype, payload=taken)),
    )
    output = FunctionResult(
        result,
        dot(unit[:3], row_major(result.shape), 0, rank),
        tuple(unit[:3]),
        term,
        "sum",
        Node("constant", dtype, payload=0.0),
    )
    statement = Statement(
        "linalg.generic", loops, (False,) * 3 + (True,) * 2, [factor, taken], [output]
    )
    result.producer = statement
    items.append(statement)
    return result


def _products(tiling: _Tiling, data: Value, weights: Value) -> Statement:
    """Return the products of all positions, [position, tile, filter]."""
    shape = (tiling.positions, tiling.tiles, tiling.filters)
    transposed = Tensor(weights, Strided.whole(weights.shape).permute((0, 2, 1)))
    return named_statement(
        "linalg.batch_matmul",
        (Tensor.whole(data), transposed),
        Value(data.dtype, shape),
        Node("constant", data.dtype, payload=0.0),
        {},
    )


def _transformed_output(tiling: _Tiling, products: Value, items: list[Item]) -> Value:
    """Append A1^T M A2 of each tile and filter; return the results of all tiles, channels last."""
    loops = (*tiling.counts, tiling.images, tiling.filters)
    strides = row_major(tiling.computed)
    steps = (tiling.results * strides[0], tiling.results * strides[1], *strides[2:])
    each = tiling.tiles * tiling.filters
    return _transform(
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


def _transform(
    source: Value,
    loops: tuple[int, ...],
    strides: tuple[int, ...],
    offsets: Sequence[int],
    matrix: Matrix,
    result: Value,
    places: Sequence[Strided],
    items: list[Item],
) -> Value:
    """Append ``L t L^T`` of each tile t, as one loop nest that stores each element separately.

    Args:
        source: The tensor with the tiles.
        loops: Loops over tiles, images and channels.
        strides: Of the loops in ``source``.
        offsets: Where the elements of the first tile are in ``source``, row by row.
        matrix: L.
        result: The tensor to fill.
        places: Where each element of the transformed tiles is stored, row by row.
        items: The operations to append to.
    """
    reads = [Operand(source, Affine(at, strides)) for at in offsets]
    nodes = [Node("in", source.dtype, payload=operand) for operand in reads]
    width = len(matrix[0])
    columns = [combinations(matrix, nodes[k::width]) for k in range(width)]
    yields = [node for row in zip(*columns, strict=True) for node in combinations(matrix, row)]
    rank = len(loops)
    indices = tuple(Affine.loop(k, rank) for k in range(rank))
    index = Affine(0, row_major(loops))
    results = [FunctionResult(Value(result.dtype, loops), index, indices, node) for node in yields]
    statement = Statement("linalg.generic", loops, (False,) * rank, reads, results)
    for each in results:
        each.value.producer = statement
    parts = [
        WindowPart(Tensor.whole(each.value), place)
        for each, place in zip(results, places, strict=True)
    ]
    update = Update(result, Tensor.whole(Value(result.dtype, result.shape)), parts)
    result.producer = update
    items += [statement, update]
    return result


def _needs_request(operation: Statement, machine: MachineParameters) -> bool:
    """Return whether F(2 x 2) is too inaccurate or too large, or its cost cannot be compared.

    The cost lacks the kernels that a machine whose DMA overlaps compute fuses with a convolution.
    """
    tiling = _tiling(operation, 2)
    if tiling is None or machine.dma_overlaps or tiling.channels > _MOST_CHANNELS:
        return True
    elements = tiling.positions * tiling.tiles * (tiling.channels + tiling.filters)
    return elements * ELEMENT_BYTES[operation.results[0].value.dtype] > _MOST_BYTES


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
