"""Op records of pairwise distances between rows, with gradients, and of trilinear products."""

from __future__ import annotations

import math
from collections.abc import Callable

from ftm_backend.dtypes import NUMBERS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.op_registry import lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.reductions import broadcast_shapes, reduce
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

recorded("aten::_cdist_forward", constants=("p",), tried=("mixed",))

_DISTANCES = {"f64": (1e-9, 1e-10), "f32": (1e-4, 1e-4), "f16": (1e-2, 1e-2), "bf16": (5e-2, 5e-2)}


def _norm(
    b: LinalgBuilder, x1: StridedValue, x2: StridedValue, p: float, dtype: str
) -> StridedValue:
    """Return the p-norm of x1 - x2 over the last dimension, with extent 1; the shapes broadcast."""
    shape = broadcast_shapes(x1.shape, x2.shape)
    pair = [x1.expand(shape), x2.expand(shape)]
    dims = [len(shape) - 1]
    if not shape[-1]:
        return b.full(0, dtype, (*shape[:-1], 1))

    def of(element: Callable[[ScalarExpr], ScalarExpr], kind: str = "sum") -> StridedValue:
        return reduce(
            b, kind, pair, dims, dtype, lambda x, y: element(abs(x.to(dtype) - y.to(dtype)))
        )

    if p == 0:
        return of(lambda d: d.ne(0).to(dtype))
    if p == 1:
        return of(lambda d: d)
    if math.isinf(p):
        return of(lambda d: d, "max")
    if p == 2:
        total = of(lambda d: d * d)
        return b.pointwise(e.sqrt, [total])
    total = of(lambda d: e.pow_(d, d.const(p)))
    return b.pointwise(lambda s: e.pow_(s, s.const(1 / p)), [total])


def _slope(difference: ScalarExpr, distance: ScalarExpr, p: float) -> ScalarExpr:
    """Return d distance / d x1."""
    size = abs(difference)
    sign = (difference > 0).to(difference.dtype) - (difference < 0).to(difference.dtype)
    if p == 0:
        return difference * 0
    if p == 1:
        return sign
    if math.isinf(p):
        return e.where(size.eq(distance), sign, 0)
    if p == 2:
        return e.where(distance.eq(0), 0, difference / distance)
    # PyTorch neither divides by a distance of 0 nor raises a difference of 0 to a negative power
    power = e.pow_(size, size.const(p - 1)) / e.pow_(distance, distance.const(p - 1))
    return e.where(distance.eq(0) | (size.eq(0) if p < 1 else distance.eq(0)), 0, sign * power)


def _gradient(
    b: LinalgBuilder,
    x1: StridedValue,
    x2: StridedValue,
    grad: StridedValue,
    distance: StridedValue,
    p: float,
    dims: list[int],
    dtype: str,
) -> StridedValue:
    """Sum grad * d distance / d x1 over `dims`; the operands broadcast."""
    shape = broadcast_shapes(x1.shape, x2.shape, grad.shape)

    def element(x: ScalarExpr, y: ScalarExpr, g: ScalarExpr, d: ScalarExpr) -> ScalarExpr:
        return g.to(dtype) * _slope(x.to(dtype) - y.to(dtype), d.to(dtype), p)

    return reduce(
        b, "sum", [v.expand(shape) for v in (x1, x2, grad, distance)], dims, dtype, element
    )


@lowering("aten::_cdist_forward", ("f32", "f64"), "cdist", _DISTANCES)
def _cdist(b: LinalgBuilder, x1: StridedValue, x2: StridedValue, p: float) -> StridedValue:
    dtype = x1.dtype
    result = _norm(b, x1.unsqueeze(x1.rank - 1), x2.unsqueeze(x2.rank - 2), p, dtype)
    return b.reshape(result, b.result.shape)


@lowering("aten::_cdist_backward", ("f32", "f64"), "cdist_backward", _DISTANCES)
def _cdist_backward(
    b: LinalgBuilder,
    grad_output: StridedValue,
    x1: StridedValue,
    x2: StridedValue,
    p: float,
    cdist: StridedValue,
) -> StridedValue:
    if not b.result.numel or not grad_output.type.numel:
        return b.full(0, x1.dtype, b.result.shape)
    rank = grad_output.rank
    result = _gradient(
        b,
        x1.unsqueeze(x1.rank - 1),
        x2.unsqueeze(x2.rank - 2),
        grad_output.unsqueeze(rank),
        cdist.unsqueeze(rank),
        p,
        [rank - 1],
        x1.dtype,
    )
    return b.reshape(result, b.result.shape)


def _pairs(rows: int) -> tuple[list[int], list[int]]:
    """Return the two rows of each pair i < j, in PyTorch's order."""
    pairs = [(i, j) for i in range(rows) for j in range(i + 1, rows)]
    return [i for i, _ in pairs], [j for _, j in pairs]


@lowering("aten::_pdist_forward", ("f32", "f64"), "pdist", _DISTANCES)
def _pdist(b: LinalgBuilder, self: StridedValue, p: float = 2.0) -> StridedValue:
    from ftm_backend.frontend.oplib.resampling import gather_grid

    if not b.result.numel or not self.type.numel:
        return b.full(0, self.dtype, b.result.shape)
    first, second = (gather_grid(b, self, [rows, None]) for rows in _pairs(self.shape[0]))
    return b.reshape(_norm(b, first, second, p, self.dtype), b.result.shape)


@lowering("aten::_pdist_backward", ("f32", "f64"), "pdist_backward", _DISTANCES)
def _pdist_backward(
    b: LinalgBuilder, grad_output: StridedValue, self: StridedValue, p: float, pdist: StridedValue
) -> StridedValue:
    rows = self.shape[0]
    if not grad_output.type.numel or not self.type.numel:
        return b.full(0, self.dtype, self.shape)
    # (i, j) and (j, i) share an entry; a row with itself has slope 0
    number = {pair: k for k, pair in enumerate(zip(*_pairs(rows), strict=True))}
    positions = b.constant_vector(
        [number.get((min(i, j), max(i, j)), 0) for i in range(rows) for j in range(rows)], "i64"
    )
    square = b.reshape(positions, (rows, rows))

    def spread(x: StridedValue, diagonal: float) -> StridedValue:
        flat = b.reshape(x, (x.type.numel,))
        result = b.pointwise(
            lambda k: e.where(b.index(0).eq(b.index(1)), diagonal, b.extract(flat, [k])),
            [square],
            TensorType(self.dtype, (rows, rows)),
        )
        return b.reshape(result, (rows, rows, 1))

    result = _gradient(
        b,
        self.unsqueeze(1),
        self.unsqueeze(0),
        spread(grad_output, 0),
        spread(pdist, 1),
        p,
        [1],
        self.dtype,
    )
    return b.reshape(result, self.shape)


@lowering("aten::_trilinear", NUMBERS, "trilinear", _DISTANCES)
def _trilinear(
    b: LinalgBuilder,
    i1: StridedValue,
    i2: StridedValue,
    i3: StridedValue,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
) -> StridedValue:
    dtype = compute_dtype(i1.dtype)
    operands = []
    for x, dims in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for dim in sorted(dims):
            x = x.unsqueeze(dim)
        operands.append(x)
    shape = broadcast_shapes(*(x.shape for x in operands))
    result = reduce(
        b,
        "sum",
        [x.expand(shape) for x in operands],
        sorted(sumdim),
        dtype,
        lambda x, y, z: x.to(dtype) * y.to(dtype) * z.to(dtype),
    )
    return b.as_type(result)
