"""Named sums of products: their loops, and how each operand is indexed by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ftm_backend.ir.linalg.affine import Affine, dot, row_major
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, Tensor, Value

WEIGHT_GRADIENT = "ftm.conv_2d_weight_gradient"
"""The gradient of a convolution's weights: that of its result times the windows of its input."""

CONV_TRANSPOSE = "ftm.conv_transpose"
"""A transposed convolution: the gradient of a convolution's input."""

Spec = tuple[str, tuple[str, str, str], str]
"""Loops, dimensions of the two operands and of the result, and reduced loops."""

_PRODUCTS: dict[str, Spec] = {
    "linalg.matmul": ("mnk", ("mk", "kn", "mn"), "k"),
    "linalg.batch_matmul": ("bmnk", ("bmk", "bkn", "bmn"), "k"),
    "linalg.matvec": ("mk", ("mk", "k", "m"), "k"),
    "linalg.vecmat": ("nk", ("k", "kn", "n"), "k"),
    "linalg.dot": ("k", ("k", "k", ""), "k"),
}
_CONVOLUTIONS: dict[str, Spec] = {
    # H and W are the row and column that tap (y, x) of window (h, w) reads
    "linalg.conv_2d_nchw_fchw": ("nfhwcyx", ("ncHW", "fcyx", "nfhw"), "cyx"),
    "linalg.conv_2d_ngchw_gfchw": ("ngfhwcyx", ("ngcHW", "gfcyx", "ngfhw"), "cyx"),
    "linalg.depthwise_conv_2d_nchw_chw": ("nchwyx", ("ncHW", "cyx", "nchw"), "yx"),
    WEIGHT_GRADIENT: ("gfcyxnhw", ("ngfhw", "ngcHW", "gfcyx"), "nhw"),
}

NAMED = _PRODUCTS | _CONVOLUTIONS
"""The named operations that the midend reads; each is a sum of products of two operands.

Those of linalg are printed by their names, `WEIGHT_GRADIENT` as a ``linalg.generic`` whose
``library_call`` is its name.
"""

_WIDENING = {"f": "arith.extf", "i": "arith.extsi"}

Indices = tuple[Affine, ...]


def named_maps(spec: Spec, attributes: Mapping[str, Sequence[int]]) -> list[Indices]:
    """Return the index of each operand and of the result as functions of the loops.

    Args:
        spec: One of `NAMED`.
        attributes: ``strides`` and ``dilations`` of a convolution.
    """
    loops, operands, _ = spec
    unit = {c: Affine.loop(k, len(loops)) for k, c in enumerate(loops)}
    steps = zip(attributes.get("strides", (1, 1)), attributes.get("dilations", (1, 1)), strict=True)
    for window, tap, (stride, dilation) in zip("hw", "yx", steps, strict=True):
        if window in unit and tap in unit:
            unit[window.upper()] = unit[window].scaled(stride) + unit[tap].scaled(dilation)
    return [tuple(unit[c] for c in dims) for dims in operands]


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
    statement = sum_of_products(NAMED[name], operands, result, start, attributes, name)
    statement.attributes, statement.tensors = dict(attributes), operands
    return statement


def sum_of_products(
    spec: Spec,
    operands: tuple[Tensor, Tensor],
    result: Value,
    start: Node | Tensor,
    attributes: Mapping[str, tuple[int, ...]],
    name: str = "linalg.generic",
) -> Statement:
    """Make a statement that sums products of two tensors, as ``einsum``.

    Args:
        spec: The loops, the dimensions of the operands and of the result, and the reduced loops.
            Example: ``("mnk", ("mk", "kn", "mn"), "k")``.
        operands: The two tensors that are multiplied.
        result: The value that it computes; its ``producer`` is set.
        start: What the sum of products is added to: a number or a tensor.
        attributes: ``strides`` and ``dilations`` of a convolution.
        name: The statement's operation.
    """
    maps = named_maps(spec, attributes)
    reduced = tuple(c in spec[2] for c in spec[0])
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
    statement = Statement(name, loops, reduced, reads, [output])
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
