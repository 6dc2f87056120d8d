"""Reads types, slices and indexing maps of MLIR as extents, strides and affine functions."""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.body_reader import token
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.mlir import ir
from ftm_backend.mlir_stubs import Operation


def tensor_type(kind: ir.Type) -> tuple[str, tuple[int, ...]]:
    """Return dtype token and shape of a ranked tensor type."""
    ranked = ir.RankedTensorType(kind)
    if not ranked.has_static_shape:
        raise ValueError(f"{kind}: the midend takes static shapes only")
    return token(ranked.element_type), tuple(ranked.shape)


def sliced(op: Operation, whole: Strided, part: Sequence[int]) -> Strided:
    """Return the view that an ``extract_slice`` or ``insert_slice`` addresses.

    Args:
        op: The operation.
        whole: View of the tensor that is sliced.
        part: Shape of the slice, possibly without dimensions of size 1.
    """
    offsets, sizes, steps = (
        tuple(op.attributes[f"static_{k}"]) for k in ("offsets", "sizes", "strides")
    )
    if min((*offsets, *sizes), default=0) < 0:
        raise ValueError(f"{op.operation.name} with dynamic offsets or sizes cannot be lowered")
    offset = whole.offset + sum(o * s for o, s in zip(offsets, whole.strides, strict=True))
    # Dropped extents of 1 do not affect the address, so any matching of the others is right.
    steps_flat = [a * b for a, b in zip(steps, whole.strides, strict=True)]
    strides, k = [], len(sizes) - 1
    for extent in reversed(part):
        while sizes[k] != extent:
            k -= 1
        strides.append(steps_flat[k])
        k -= 1
    return Strided(tuple(part), tuple(reversed(strides)), offset)


def extents(
    maps: Sequence[Sequence[Affine]], shapes: Sequence[Sequence[int]], rank: int
) -> tuple[int, ...]:
    """Find the loop extents from the operands that are indexed by a single loop counter."""
    loops: list[int | None] = [None] * rank
    for indices, shape in zip(maps, shapes, strict=True):
        for index, extent in zip(indices, shape, strict=True):
            if index.const == 0 and sum(map(abs, index.coeffs)) == 1 and max(index.coeffs) == 1:
                loops[index.coeffs.index(1)] = extent
    if None in loops:
        raise ValueError(
            f"linalg.generic: loop {loops.index(None)} has no operand that is indexed by it alone"
        )
    return tuple(int(n) for n in loops if n is not None)


def indices_of(affine_map: ir.AffineMap) -> tuple[Affine, ...]:
    """Return the results of a map as functions of its dimensions.

    Raises:
        ValueError: The map contains a floordiv, a mod or a symbol.
    """
    return tuple(_expression(e, affine_map.n_dims) for e in affine_map.results)


def _expression(expr: ir.AffineExpr, rank: int) -> Affine:
    if isinstance(expr, ir.AffineDimExpr):
        return Affine.loop(expr.position, rank)
    if isinstance(expr, ir.AffineConstantExpr):
        return Affine.constant(expr.value, rank)
    if isinstance(expr, ir.AffineAddExpr):
        return _expression(expr.lhs, rank) + _expression(expr.rhs, rank)
    if isinstance(expr, ir.AffineMulExpr):
        left, right = _expression(expr.lhs, rank), _expression(expr.rhs, rank)
        if left.is_constant:
            return right.scaled(left.const)
        if right.is_constant:
            return left.scaled(right.const)
    raise ValueError(
        f"indexing map with {expr}: only sums of constant multiples of loops can be lowered"
    )
