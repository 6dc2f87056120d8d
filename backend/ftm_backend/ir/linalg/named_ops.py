"""Linalg's named operations: their loops, and how each operand is indexed by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ftm_backend.ir.linalg.affine import Affine, dot, row_major
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, Tensor, Value

__all__ = ["NAMED", "named_statement"]

_PRODUCTS = {
    # name: loops, dimensions of the two operands and of the result, reduced loops
    "linalg.matmul": ("mnk", ("mk", "kn", "mn"), "k"),
    "linalg.batch_matmul": ("bmnk", ("bmk", "bkn", "bmn"), "k"),
    "linalg.matvec": ("mk", ("mk", "k", "m"), "k"),
    "linalg.vecmat": ("nk", ("k", "kn", "n"), "k"),
    "linalg.dot": ("k", ("k", "k", ""), "k"),
}
_CONVOLUTIONS = {
    # name: loops, dimensions of input, weights and result; h and w of the input follow the window
    "linalg.conv_2d_nchw_fchw": ("nfhwcyx", ("nchw", "fcyx", "nfhw"), "cyx"),
    "linalg.conv_2d_ngchw_gfchw": ("ngfhwcyx", ("ngchw", "gfcyx", "ngfhw"), "cyx"),
    "linalg.depthwise_conv_2d_nchw_chw": ("nchwyx", ("nchw", "cyx", "nchw"), "yx"),
}

NAMED = (*_PRODUCTS, *_CONVOLUTIONS)
"""The named operations that the midend reads; each is a sum of products of two operands."""

_WIDENING = {"f": "arith.extf", "i": "arith.extsi"}

Indices = tuple[Affine, ...]


def named_maps(
    name: str, attributes: Mapping[str, Sequence[int]]
) -> tuple[list[Indices], tuple[bool, ...]]:
    """Return the indexing maps of a named operation.

    Args:
        name: One of `NAMED`.
        attributes: ``strides`` and ``dilations`` of a convolution.

    Returns:
        The index of each operand and of the result as functions of the loops, and which loops are
        reduced.

    Raises:
        ValueError: The midend does not read this operation.
    """
    if name in _PRODUCTS:
        loops, operands, reduced = _PRODUCTS[name]
        unit = {c: Affine.loop(k, len(loops)) for k, c in enumerate(loops)}
        return [tuple(unit[c] for c in dims) for dims in operands], tuple(
            c in reduced for c in loops
        )
    if name not in _CONVOLUTIONS:
        raise ValueError(f"{name} is not among the named operations that the midend reads")
    loops, (x, weight, output), reduced = _CONVOLUTIONS[name]
    unit = {c: Affine.loop(k, len(loops)) for k, c in enumerate(loops)}
    strides, dilations = attributes.get("strides", (1, 1)), attributes.get("dilations", (1, 1))
    windows = {
        "h": unit["h"].scaled(strides[0]) + unit["y"].scaled(dilations[0]),
        "w": unit["w"].scaled(strides[1]) + unit["x"].scaled(dilations[1]),
    }
    return [
        tuple(windows.get(c, unit[c]) for c in x),
        tuple(unit[c] for c in weight),
        tuple(unit[c] for c in output),
    ], tuple(c in reduced for c in loops)


def named_statement(
    name: str,
    operands: tuple[Tensor, Tensor],
    result: Value,
    start: Node | Tensor,
    attributes: Mapping[str, tuple[int, ...]],
) -> Statement:
    """Make the statement of a named operation.

    Args:
        name: One of `NAMED`.
        operands: The two tensors that are multiplied.
        result: The value that it computes; its ``producer`` is set.
        start: What the sum of products is added to: a number or a tensor.
        attributes: ``strides`` and ``dilations`` of a convolution.
    """
    maps, reduced = named_maps(name, attributes)
    rank = len(reduced)
    shapes = [t.view.sizes for t in operands] + [result.shape]
    loops = _extents(maps, shapes, rank, name)
    reads, multiplied = [], []
    for tensor, indices in zip(operands, maps, strict=False):
        if tensor.value.splat is not None:
            node = tensor.value.splat
        else:
            reads.append(
                Operand(tensor.value, dot(indices, tensor.view.strides, tensor.view.offset, rank))
            )
            node = Node("in", tensor.value.dtype, payload=reads[-1])
        if node.dtype != result.dtype:
            node = Node(_WIDENING[result.dtype[0]], result.dtype, (node,))
        multiplied.append(node)
    kind = "arith.mulf" if "f" in result.dtype else "arith.muli"
    output = FunctionResult(
        result,
        dot(maps[2], row_major(result.shape), 0, rank),
        maps[2],
        Node(kind, result.dtype, tuple(multiplied)),
        "sum",
    )
    if isinstance(start, Node):
        output.init = start
    else:
        output.init = start.value.splat or Operand(
            start.value, dot(maps[2], start.view.strides, start.view.offset, rank)
        )
    statement = Statement(
        name, loops, reduced, reads, [output], attributes=dict(attributes), tensors=operands
    )
    result.producer = statement
    return statement


def _extents(
    maps: Sequence[Indices], shapes: Sequence[Sequence[int]], rank: int, name: str
) -> tuple[int, ...]:
    """Find the loop extents from the operands that are indexed by a single loop counter."""
    loops: list[int | None] = [None] * rank
    for indices, shape in zip(maps, shapes, strict=True):
        for index, extent in zip(indices, shape, strict=True):
            if index.const == 0 and sum(map(abs, index.coeffs)) == 1 and max(index.coeffs) == 1:
                loops[index.coeffs.index(1)] = extent
    if None in loops:
        raise ValueError(
            f"{name}: loop {loops.index(None)} has no operand that is indexed by it alone"
        )
    return tuple(n for n in loops if n is not None)
