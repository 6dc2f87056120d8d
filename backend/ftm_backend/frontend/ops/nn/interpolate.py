"""Op records of interpolation in one to three dimensions, with gradients.

Modes: nearest, linear, cubic, antialiased. The positions that an output reads, and their weights,
depend only on shapes and scales. They are computed here, with PyTorch's precision, and become a
table (`oplib/resampling.py`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.op_registry import EXACT, SUMS, lowering
from ftm_backend.frontend.oplib.resampling import Taps, gather_grid, resample_dims, transpose_taps

_LINEAR = {"f64": (1e-10, 1e-11), "f32": (1e-4, 1e-5), "f16": (4e-3, 2e-3), "bf16": (3e-2, 1e-2)}

Rounding = Callable[[float], float]


def _single(value: float) -> float:
    """Round to f32."""
    return struct.unpack("f", struct.pack("f", value))[0]


def _rounding(dtype: str) -> Rounding:
    """Return how PyTorch rounds coordinates in an interpolation of `dtype`."""
    return float if dtype == "f64" else _single


def _scale(size: int, out: int, align: bool, scale_factor: float | None, r: Rounding) -> float:
    """Return the number of input positions per output position."""
    if align:
        return r((size - 1) / (out - 1)) if out > 1 else 0.0
    return r(1.0 / scale_factor) if scale_factor is not None and scale_factor > 0 else r(size / out)


def _source(scale: float, out: int, align: bool, cubic: bool, r: Rounding) -> float:
    """Return the input coordinate of output position `out`."""
    if align:
        return r(scale * out)
    position = r(r(scale * (out + 0.5)) - 0.5)
    return position if cubic or position >= 0 else 0.0


def _guarded(source: float, size: int, r: Rounding) -> tuple[int, float]:
    """Return the position, and the weight of the next position."""
    position = min(math.floor(source), size - 1)
    return position, min(max(r(source - position), 0.0), 1.0)


def nearest_indices(size: int, out: int, scale_factor: float | None, exact: bool) -> list[int]:
    """Return the input position that each output of a nearest interpolation copies."""
    if not exact and out in (size, 2 * size):
        return [o * size // out for o in range(out)]
    scale = _scale(size, out, False, scale_factor, _single)
    shift = 0.5 if exact else 0.0
    return [min(math.floor(_single((o + shift) * scale)), size - 1) for o in range(out)]


def linear_taps(size: int, out: int, align: bool, scale_factor: float | None, r: Rounding) -> Taps:
    """Return the table of a linear interpolation from `size` to `out` positions."""
    if size == out:
        return [[(o, 1.0)] for o in range(out)]
    scale = _scale(size, out, align, scale_factor, r)
    taps = []
    for o in range(out):
        position, share = _guarded(_source(scale, o, align, False, r), size, r)
        taps.append([(position, r(1.0 - share)), (min(position + 1, size - 1), share)])
    return taps


def cubic_weights(share: float, a: float) -> tuple[float, float, float, float]:
    """Return the weights of four positions around a coordinate `share` beyond the second."""

    def inner(x: float) -> float:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def outer(x: float) -> float:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return outer(share + 1), inner(share), inner(1 - share), outer(2 - share)


def cubic_taps(size: int, out: int, align: bool, scale_factor: float | None, r: Rounding) -> Taps:
    """Return the table of a cubic interpolation; positions beyond the border read the border."""
    scale = _scale(size, out, align, scale_factor, r)
    taps = []
    for o in range(out):
        position, share = _guarded(_source(scale, o, align, True, r), size, r)
        around = [min(max(position + k, 0), size - 1) for k in (-1, 0, 1, 2)]
        taps.append(list(zip(around, cubic_weights(share, -0.75), strict=True)))
    return taps


def _triangle(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def _smooth_cubic(x: float) -> float:
    x = abs(x)
    return cubic_weights(x, -0.5)[1] if x < 1 else cubic_weights(x - 1, -0.5)[0] if x < 2 else 0.0


def _smoothed(width: int, filter_: Callable[[float], float]) -> Callable[..., Taps]:
    """Return tables of antialiased interpolation: the filter is as wide as an output position."""

    def taps(size: int, out: int, align: bool, scale_factor: float | None, r: Rounding) -> Taps:
        if size == out:
            return [[(o, 1.0)] for o in range(out)]
        scale = _scale(size, out, align, scale_factor, r)
        support = r(width * 0.5 * scale) if scale >= 1 else width * 0.5
        inverse = r(1.0 / scale) if scale >= 1 else 1.0
        result = []
        for o in range(out):
            center = r(scale * (o + 0.5))
            low = max(int(r(r(center - support) + 0.5)), 0)
            high = min(int(r(r(center + support) + 0.5)), size)
            high = min(high, low + 2 * math.ceil(support) + 1)
            weights = [
                filter_(r(r(position - center + 0.5) * inverse)) for position in range(low, high)
            ]
            total = sum(weights)
            result.append(
                [
                    (position, w / total if total else w)
                    for position, w in zip(range(low, high), weights, strict=True)
                ]
            )
        return result

    return taps


def _scales(dims: int, scale_factors: dict[str, float | None]) -> list[float | None]:
    """Return the scale arguments in the order of dimensions; None if absent."""
    names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}[
        dims
    ]
    return [scale_factors.get(name) for name in names]


def _is_repetition(
    size: Sequence[int], out: Sequence[int], scales: Sequence[float | None], exact: bool
) -> bool:
    """Whether each position is just repeated."""
    return all(
        n and nearest_indices(n, m, s, exact) == [o * n // m for o in range(m)] and m % n == 0
        for n, m, s in zip(size, out, scales, strict=True)
    )


def _split(outer: Sequence[int], size: Sequence[int], out: Sequence[int]) -> tuple[int, ...]:
    return (*outer, *(k for n, m in zip(size, out, strict=True) for k in (n, m // n)))


def _nearest(dims: int, exact: bool) -> None:
    name = f"aten::{'_upsample_nearest_exact' if exact else 'upsample_nearest'}{dims}d"

    @lowering(name, (*FLOATS, "u8"), "interpolate", EXACT)
    def forward(
        b: LinalgBuilder, self: StridedValue, output_size: list[int], **scale_factors: float | None
    ) -> StridedValue:
        outer, size, scales = self.shape[:-dims], self.shape[-dims:], _scales(dims, scale_factors)
        if _is_repetition(size, output_size, scales, exact):
            split = b.reshape(self, _split(outer, size, size)).expand(
                _split(outer, size, output_size)
            )
            return b.reshape(split, b.result.shape)
        positions = [
            nearest_indices(n, m, s, exact)
            for n, m, s in zip(size, output_size, scales, strict=True)
        ]
        return gather_grid(b, self, [None, None, *positions])

    @lowering(f"{name}_backward", (*FLOATS, "u8"), "interpolate_backward", SUMS)
    def backward(
        b: LinalgBuilder,
        grad_output: StridedValue,
        output_size: list[int],
        input_size: list[int],
        **scale_factors: float | None,
    ) -> StridedValue:
        from ftm_backend.frontend.oplib.reductions import reduce

        outer, size, scales = input_size[:-dims], input_size[-dims:], _scales(dims, scale_factors)
        dtype = compute_dtype(grad_output.dtype)
        if _is_repetition(size, output_size, scales, exact):
            split = b.reshape(grad_output, _split(outer, size, output_size))
            total = reduce(b, "sum", [split], [len(outer) + 2 * k + 1 for k in range(dims)], dtype)
            return b.as_type(total)
        tables = [
            transpose_taps([[(p, 1.0)] for p in nearest_indices(n, m, s, exact)], n)
            for n, m, s in zip(size, output_size, scales, strict=True)
        ]
        return b.cast(resample_dims(b, grad_output, tables, dtype), b.result.dtype)


def _weighted(name: str, dims: int, table: Callable[..., Taps]) -> None:
    def tables(
        size: Sequence[int],
        out: Sequence[int],
        align: bool,
        scale_factors: dict[str, float | None],
        dtype: str,
    ) -> list[Taps]:
        return [
            table(n, m, align, s, _rounding(dtype))
            for n, m, s in zip(size, out, _scales(dims, scale_factors), strict=True)
        ]

    @lowering(f"aten::{name}", FLOATS, "interpolate", _LINEAR)
    def forward(
        b: LinalgBuilder,
        self: StridedValue,
        output_size: list[int],
        align_corners: bool,
        **scale_factors: float | None,
    ) -> StridedValue:
        result = tables(self.shape[-dims:], output_size, align_corners, scale_factors, self.dtype)
        return b.cast(resample_dims(b, self, result, compute_dtype(self.dtype)), self.dtype)

    @lowering(f"aten::{name}_backward", FLOATS, "interpolate_backward", _LINEAR)
    def backward(
        b: LinalgBuilder,
        grad_output: StridedValue,
        output_size: list[int],
        input_size: list[int],
        align_corners: bool,
        **scale_factors: float | None,
    ) -> StridedValue:
        size, dtype = input_size[-dims:], grad_output.dtype
        result = tables(size, output_size, align_corners, scale_factors, dtype)
        transposed_tables = [transpose_taps(t, n) for t, n in zip(result, size, strict=True)]
        return b.cast(resample_dims(b, grad_output, transposed_tables, compute_dtype(dtype)), dtype)


for _dims in (1, 2, 3):
    _nearest(_dims, exact=False)
    _nearest(_dims, exact=True)
_weighted("upsample_linear1d", 1, linear_taps)
_weighted("upsample_bilinear2d", 2, linear_taps)
_weighted("upsample_trilinear3d", 3, linear_taps)
_weighted("upsample_bicubic2d", 2, cubic_taps)
_weighted("_upsample_bilinear2d_aa", 2, _smoothed(2, _triangle))
_weighted("_upsample_bicubic2d_aa", 2, _smoothed(4, _smooth_cubic))
