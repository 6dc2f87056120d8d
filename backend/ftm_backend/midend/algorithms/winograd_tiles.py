"""Winograd's transforms of feature maps: which tiles a convolution has, and loop nests over them.

A feature map [N, C, H, W] is cut into tiles. Transformed tiles are stored as [position, tile,
channel], so that the products of a convolution are matrices, one for each position and group.

The innermost loops are over images and channels, so that they move long runs. The map is transposed
for that when it is padded. All machines run these loop nests; no kernel is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf

from ftm_backend.ir.linalg.affine import Affine, row_major, volume
from ftm_backend.ir.linalg.function import (
    FunctionResult,
    Node,
    Operand,
    SequentialLoop,
    Statement,
    Tensor,
    Update,
    Value,
    WindowPart,
    copy_statement,
)
from ftm_backend.ir.linalg.named_ops import NAMED
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.midend.algorithms.unpadded_input import unpadded
from ftm_backend.midend.algorithms.winograd_transform import (
    WINDOW,
    Matrix,
    combinations,
    transform_matrices,
)
from ftm_backend.midend.schedule.cost import product_cycles, traffic_cycles
from ftm_backend.symbolic import ceildiv
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = [
    "Item",
    "Tiling",
    "comparable_tiling",
    "cycles",
    "gradient_tiles",
    "input_tiles",
    "tiling_of",
    "transform",
]

_COPYING = 5
"""Time of a transform over that of its traffic, on a machine whose cores copy data themselves.

Measured on the host, in milliseconds of products and transforms of 16 images: 2.6 and 1.6 with 128
channels of 16x16, 3.0 and 4.6 with 64 channels of 32x32. Products take half their modelled time.
"""

_MOST_BYTES = 64 * 1024 * 1024
"""Most memory for the transformed tiles, which take 4 times that of both maps."""

Item = Statement | Update | SequentialLoop


@dataclass(frozen=True)
class Tiling:
    """How a convolution's result, or the gradient of it, is cut into tiles.

    Attributes:
        results: Rows and columns of a tile of results.
        images: Number of images.
        groups: Number of groups.
        channels: Number of input channels of a group.
        filters: Number of filters of a group.
        counts: Number of tiles along rows and columns; the last ones may be incomplete.
    """

    results: int
    images: int
    groups: int
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
        return rows, columns, self.images, self.groups * self.channels

    @property
    def computed(self) -> tuple[int, int, int, int]:
        """Shape of the results of all tiles: rows, columns, images and filters."""
        rows, columns = (n * self.results for n in self.counts)
        return rows, columns, self.images, self.groups * self.filters


def _is_constant(operation: Statement) -> bool:
    """Return whether sizes and strides are constant, and there is something to compute."""
    numbers = [
        n for t in operation.tensors for n in (*t.view.sizes, *t.view.strides, t.view.offset)
    ]
    return all(type(n) is int for n in numbers) and 0 not in operation.loops


def _is_plain(operation: Statement) -> bool:
    """Return whether a convolution of one type has no strides and no initial value."""
    (result,) = operation.results
    is_dense = all(
        tuple(operation.attributes.get(name, (1, 1))) == (1, 1) for name in ("strides", "dilations")
    )
    has_one_type = result.value.dtype in ("f32", "f64") and all(
        t.value.dtype == result.value.dtype for t in operation.tensors
    )
    return is_dense and result.starts_at_zero and has_one_type


def tiling_of(operation: Statement, results: int) -> Tiling | None:
    """Return the tiling of a convolution or of the gradient of its weights.

    Returns:
        The tiling; None if the windows are not 3x3 without strides and dilation, if a size is not
        constant, or if the products are no products of matrices.
    """
    loops, dims, _ = NAMED[operation.op]
    size = dict(zip(loops, operation.loops, strict=True))
    if not _is_constant(operation) or 1 in (size["c"], size["f"]) or not _is_plain(operation):
        return None
    if (size["y"], size["x"]) != (WINDOW, WINDOW):
        return None
    counts = ceildiv(size["h"], results), ceildiv(size["w"], results)
    tiling = Tiling(results, size["n"], size.get("g", 1), size["c"], size["f"], counts)
    are_stored = [
        unpadded(t) is not None if "n" in each else t.value.splat is None and t.value.border is None
        for t, each in zip(operation.tensors, dims, strict=False)
    ]
    return tiling if all(are_stored) else None


def comparable_tiling(
    results: int, operation: Statement, machine: MachineParameters
) -> Tiling | None:
    """Return the tiling of an operation, if the cost model may choose it without a request.

    Its cost lacks the kernels that a machine whose DMA overlaps compute fuses with a convolution.
    On other machines it may take too much memory.
    """
    tiling = None if machine.dma_overlaps else tiling_of(operation, results)
    if tiling is None:
        return None
    channels = tiling.groups * (tiling.channels + tiling.filters)
    size = ELEMENT_BYTES[operation.results[0].value.dtype]
    fits = tiling.positions * tiling.tiles * channels * size <= _MOST_BYTES
    return tiling if fits else None


def cycles(
    tiling: Tiling, products: Statement, machine: MachineParameters, limit: float = inf
) -> float:
    """Return the cycles of the batch of products, and of moving what the transforms move."""
    moved = products.reads() + products.writes()
    maps = volume(tiling.padded) + volume(tiling.computed)
    elements = sum(volume(value.shape) for value in moved) + 2 * maps
    size = ELEMENT_BYTES[moved[0].dtype]
    transforming = traffic_cycles(machine, elements * size)
    if not machine.dma_overlaps:
        transforming *= _COPYING
    if transforming > limit:
        return transforming
    return transforming + product_cycles(products, machine)


def input_tiles(tiling: Tiling, x: Tensor, items: list[Item]) -> Tensor:
    """Append B^T x B of each tile and channel; return it as [position, tile, group, channel]."""
    found = unpadded(x)
    assert found is not None, "the convolution has a tiling"
    padded = _channels_last(*found, tiling.padded, items)
    return _tiles(tiling, padded, transform_matrices(tiling.results)[2], items)


def gradient_tiles(tiling: Tiling, gradient: Tensor, items: list[Item]) -> Tensor:
    """Append A dy A^T of each tile and filter; return it as [position, tile, group, filter].

    It is the transpose of the transform that gives a tile of results.
    """
    found = unpadded(gradient)
    assert found is not None, "the convolution has a tiling"
    padded = _channels_last(*found, tiling.computed, items)
    transposed = tuple(zip(*transform_matrices(tiling.results)[0], strict=True))
    return _tiles(tiling, padded, transposed, items)


def _channels_last(
    x: Tensor, low: tuple[int, int], shape: tuple[int, ...], items: list[Item]
) -> Value:
    """Append a copy of [image, channel, row, column] as [row, column, image, channel].

    Args:
        x: The feature map.
        low: Rows and columns of zeros before it.
        shape: Shape of the copy; zeros fill what is left.
        items: The operations to append to.
    """
    view = x.view
    for dim, (whole, before) in enumerate(zip(shape, low, strict=False), start=2):
        view = view.slice(dim, 0, min(view.sizes[dim], whole - before))  # the rest is not read
    moved = copy_statement(Tensor(x.value, view.permute((2, 3, 0, 1))))
    items.append(moved)
    if moved.loops == shape:
        return moved.results[0].value
    padded = Value(x.value.dtype, shape)
    strides = row_major(shape)
    zeros = Value(padded.dtype, shape, splat=Node("constant", padded.dtype, payload=0.0))
    place = Strided(moved.loops, strides, low[0] * strides[0] + low[1] * strides[1])
    part = WindowPart(Tensor.whole(moved.results[0].value), place)
    padded.producer = Update(padded, Tensor.whole(zeros), [part])
    items.append(padded.producer)
    return padded


def _tiles(tiling: Tiling, padded: Value, matrix: Matrix, items: list[Item]) -> Tensor:
    """Append the transforms of all tiles of a map [row, column, image, channel]."""
    strides, channels = row_major(padded.shape), padded.shape[3]
    loops = (*tiling.counts, tiling.images, channels)
    each = tiling.tiles * channels
    tiles = transform(
        padded,
        loops,
        (tiling.results * strides[0], tiling.results * strides[1], *strides[2:]),
        [y * strides[0] + x * strides[1] for y, x in product(range(len(matrix[0])), repeat=2)],
        matrix,
        Value(padded.dtype, (tiling.positions, tiling.tiles, channels)),
        [Strided(loops, row_major(loops), k * each) for k in range(tiling.positions)],
        items,
    )
    shape = (tiling.positions, tiling.tiles, tiling.groups, channels // tiling.groups)
    return Tensor(tiles, Strided.whole(shape))


def transform(
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
