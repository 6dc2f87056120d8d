"""Op records of grid sampling in two and three dimensions, with gradients.

Each grid point reads a few neighbours of the input ("corners"): one, two or four per dimension. A
table has the position and weight of each corner of each grid point, and the weight's derivative by
each coordinate. All else is a sum over corners.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import scatter_rows
from ftm_backend.frontend.oplib.concat import concat
from ftm_backend.frontend.oplib.op_registry import lowering
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.trace.trace import TensorType

_SAMPLED = {"f64": (1e-9, 1e-10), "f32": (2e-4, 2e-5), "f16": (5e-2, 5e-2), "bf16": (2e-1, 3e-1)}
"""PyTorch's CPU kernels round coordinates and weights to the half types."""

_LINEAR, _NEAREST, _CUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2


class _Grid:
    """Shapes and modes of one call.

    Grid coordinates are in the order width, height, depth, i.e. dimensions reversed.
    """

    def __init__(
        self,
        b: LinalgBuilder,
        x: StridedValue,
        grid: StridedValue,
        mode: int,
        padding: int,
        align: bool,
    ) -> None:
        self.b, self.x, self.mode, self.padding, self.align = b, x, mode, padding, align
        self.dims = x.rank - 2
        self.dtype = compute_dtype(x.dtype)
        self.batch, self.channels, self.size = x.shape[0], x.shape[1], x.shape[2:]
        self.points = grid.type.numel // max(1, self.dims * self.batch)
        self.grid = b.reshape(grid, (self.batch, self.points, self.dims))
        self.reach = {_LINEAR: 2, _NEAREST: 1, _CUBIC: 4}[mode]
        self.corners = self.reach**self.dims

    def unnormalized(self, position: ScalarExpr, size: int) -> ScalarExpr:
        """Map [-1, 1] to input positions."""
        return (position + 1) * ((size - 1) / 2) if self.align else ((position + 1) * size - 1) / 2

    @property
    def rates(self) -> list[float]:
        """Derivative of that map, in the order of the grid's coordinates."""
        return [(n - 1) / 2 if self.align else n / 2 for n in reversed(self.size)]

    def bounded(self, position: ScalarExpr, size: int) -> tuple[ScalarExpr, ScalarExpr]:
        """Apply the padding mode to a position; return it and its derivative.

        Padding with zeros leaves positions unchanged.
        """
        one = position.const(1)
        if self.padding == _ZEROS:
            return position, one
        slope = one
        if self.padding == _REFLECTION:
            low, span = (0.0, float(size - 1)) if self.align else (-0.5, float(size))
            if span <= 0:
                return position * 0, one * 0
            away = position - low
            slope = e.where(away < 0, -one, one)
            away = abs(away)
            flips = e.floor(away / span)
            rest = away - flips * span
            odd = (flips - e.floor(flips * 0.5) * 2).ne(0)
            position = e.where(odd, rest * -1 + (span + low), rest + low)
            slope = e.where(odd, -slope, slope)
        limit = float(size - 1)
        inside = (position > 0) & (position < limit)
        slope = e.where(inside, slope, 0)
        return e.minimum(e.where(position > 0, position, 0), limit), slope  # NaN becomes 0

    def corner(
        self, position: ScalarExpr, number: ScalarExpr, size: int
    ) -> tuple[ScalarExpr, ScalarExpr, ScalarExpr]:
        """Return position (a float), weight, and weight's derivative of a corner in a dimension."""
        coordinate = self.unnormalized(position, size)
        step = number.to(self.dtype)
        if self.mode == _CUBIC:
            base = e.floor(coordinate)
            share = coordinate - base
            weight, slope = _cubic(share, number)
            return self.bounded(base + step - 1, size)[0], weight, slope
        coordinate, slope = self.bounded(coordinate, size)
        if self.mode == _NEAREST:
            return e.round_even(coordinate), coordinate.const(1), coordinate * 0
        base = e.floor(coordinate)
        upper = coordinate - base
        return (
            base + step,
            e.where(number.eq(0), base + 1 - coordinate, upper),
            e.where(number.eq(0), -slope, slope),
        )

    def table(self, slopes: bool) -> list[StridedValue]:
        """Return positions and weights of all corners, [N, P, K] each.

        Positions are i64, -1 outside. With `slopes`, also return the weight's derivative by each
        coordinate.
        """
        b, dims = self.b, self.dims
        shape = (self.batch, self.points, self.corners)
        coordinates = [
            b.reshape(self.grid.slice(2, k, 1), (self.batch, self.points, 1)).expand(shape)
            for k in range(dims)
        ]
        strides = row_major(self.size)

        def body(*values: ScalarExpr) -> tuple[ScalarExpr, ...]:
            number = b.index(2)
            flat: list[ScalarExpr] = []
            inside: list[ScalarExpr] = []
            weights, rates = [], []
            for k, value in enumerate(values):
                size, divisor = self.size[dims - 1 - k], self.reach**k
                digit = number if dims == 1 else _digit(number, divisor, self.reach, k == dims - 1)
                position, weight, slope = self.corner(value.to(self.dtype), digit, size)
                within = (position >= 0) & (position < size)
                term = e.where(within, position, 0).to("i64") * strides[dims - 1 - k]
                flat.append(flat[-1] + term if flat else term)
                inside.append(inside[-1] & within if inside else within)
                weights.append(weight)
                rates.append(slope)
            result = [e.where(inside[-1], flat[-1], -1), _product(weights)]
            if slopes:
                result += [
                    _product([rates[j] if j == k else w for j, w in enumerate(weights)])
                    for k in range(dims)
                ]
            return tuple(result)

        types = [TensorType("i64", shape)] + [TensorType(self.dtype, shape)] * (1 + dims * slopes)
        return list(b.pointwise_all(body, coordinates, types))

    def read(self, source: StridedValue, position: ScalarExpr, channel: ScalarExpr) -> ScalarExpr:
        """In a body over (batch, ...): read the input at `position`, 0 outside."""
        value = self.b.extract(source, [self.b.index(0), channel, e.maximum(position, 0)]).to(
            self.dtype
        )
        return e.where(position < 0, 0, value)

    @property
    def flat(self) -> StridedValue:
        """The input as [N, C, positions]."""
        count = 1
        for n in self.size:
            count *= n
        return self.b.reshape(self.x, (self.batch, self.channels, count))


def _digit(number: ScalarExpr, divisor: int, base: int, last: bool) -> ScalarExpr:
    number = (
        number
        if divisor == 1
        else number.emitter.emit("arith.divsi", "i64", number, number.const(divisor))
    )
    return number if last else number % base


def _product(factors: Sequence[ScalarExpr]) -> ScalarExpr:
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def _cubic(share: ScalarExpr, number: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
    """Return weight and derivative of one of four neighbours.

    `share` is the distance from the second neighbour.
    """
    a = -0.75

    def inner(x: ScalarExpr) -> ScalarExpr:
        return (x * (a + 2) - (a + 3)) * x * x + 1

    def inner_slope(x: ScalarExpr) -> ScalarExpr:
        return (x * (3 * (a + 2)) - 2 * (a + 3)) * x

    def outer(x: ScalarExpr) -> ScalarExpr:
        return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a

    def outer_slope(x: ScalarExpr) -> ScalarExpr:
        return (x * (3 * a) - 10 * a) * x + 8 * a

    left = number < 2
    x = e.where(left, share, share.const(1) - share)
    far = number.eq(0) | number.eq(3)
    weight = e.where(far, outer(x + 1), inner(x))
    slope = e.where(far, outer_slope(x + 1), inner_slope(x))
    return weight, e.where(left, slope, -slope)


@lowering("aten::grid_sampler_2d aten::grid_sampler_3d", FLOATS, "grid_sampler", _SAMPLED)
def _grid_sampler(
    b: LinalgBuilder,
    input: StridedValue,
    grid: StridedValue,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> StridedValue:
    if not b.result.numel:
        return b.full(0, input.dtype, b.result.shape)
    g = _Grid(b, input, grid, interpolation_mode, padding_mode, align_corners)
    positions, weights = g.table(slopes=False)
    source, shape = g.flat, (g.batch, g.channels, g.points)
    (result,) = b.generic(
        (*shape, g.corners),
        [LoopInput(positions, [0, 2, 3]), LoopInput(weights, [0, 2, 3])],
        [LoopOutput(g.dtype, shape, range(3), 0)],
        lambda position, w, carried: (
            carried + e.where(position < 0, 0, g.read(source, position, b.index(1)) * w)
        ),
        reduced=(3,),
    )
    return b.cast(b.reshape(result, b.result.shape), input.dtype)


@lowering(
    "aten::grid_sampler_2d_backward aten::grid_sampler_3d_backward",
    FLOATS,
    "grid_sampler_backward",
    _SAMPLED,
)
def _grid_sampler_backward(
    b: LinalgBuilder,
    grad_output: StridedValue,
    input: StridedValue,
    grid: StridedValue,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> tuple[StridedValue | None, ...]:
    g = _Grid(b, input, grid, interpolation_mode, padding_mode, align_corners)
    results: list[StridedValue | None] = [None, None]
    if not grad_output.type.numel or not input.type.numel:
        return tuple(None if t is None else b.full(0, t.dtype, t.shape) for t in b.results)
    positions, weights, *slopes = g.table(slopes=True)
    grad = b.reshape(grad_output, (g.batch, g.channels, g.points))
    if b.results[0] is not None:
        results[0] = b.cast(_input_gradient(b, g, grad, positions, weights), input.dtype)
    if b.results[1] is not None:
        result = [_grid_gradient(b, g, grad, positions, slope) for slope in slopes]
        rates = b.constant_vector(g.rates, g.dtype)
        columns = b.reshape(concat(b, [column.unsqueeze(2) for column in result], 2), grid.shape)
        results[1] = b.pointwise(lambda v, r: v * r, [columns, rates], grid.type)
    return tuple(results)


def _input_gradient(
    b: LinalgBuilder, g: _Grid, grad: StridedValue, positions: StridedValue, weights: StridedValue
) -> StridedValue:
    """Add grad * weight at each corner; one row of the sum has all channels of a position."""
    count = g.flat.shape[2]
    shape = (g.batch, g.points, g.corners, g.channels)

    def update(position: ScalarExpr, w: ScalarExpr, v: ScalarExpr) -> ScalarExpr:
        return e.where(position < 0, 0, v.to(g.dtype) * w)

    spread = (g.batch, g.points, g.corners, 1)
    wide = b.reshape(grad.permute((0, 2, 1)), (g.batch, g.points, 1, g.channels))
    updates = b.pointwise(
        update,
        [
            b.reshape(positions, spread).expand(shape),
            b.reshape(weights, spread).expand(shape),
            wide.expand(shape),
        ],
        TensorType(g.dtype, shape),
    )
    rows = b.pointwise(lambda position: e.maximum(position, 0) + b.index(0) * count, [positions])
    zeros = b.full(0, g.dtype, (g.batch * count, g.channels))
    result = scatter_rows(
        b,
        zeros,
        b.reshape(rows, (rows.type.numel,)),
        b.reshape(updates, (rows.type.numel, g.channels)),
        "add",
    )
    return b.reshape(b.reshape(result, (g.batch, count, g.channels)).permute((0, 2, 1)), g.x.shape)


def _grid_gradient(
    b: LinalgBuilder, g: _Grid, grad: StridedValue, positions: StridedValue, slope: StridedValue
) -> StridedValue:
    """Sum grad * input * slope over channels and corners, [N, P]."""
    source, shape = g.flat, (g.batch, g.points)

    def body(v: ScalarExpr, position: ScalarExpr, s: ScalarExpr, carried: ScalarExpr) -> ScalarExpr:
        return carried + e.where(
            position < 0, 0, g.read(source, position, b.index(2)) * v.to(g.dtype) * s
        )

    (result,) = b.generic(
        (*shape, g.channels, g.corners),
        [LoopInput(grad, [0, 2, 1]), LoopInput(positions, [0, 1, 3]), LoopInput(slope, [0, 1, 3])],
        [LoopOutput(g.dtype, shape, range(2), 0)],
        body,
        reduced=(2, 3),
    )
    return result
