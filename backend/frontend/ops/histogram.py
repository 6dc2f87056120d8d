"""Histograms over evenly spaced bins."""

from __future__ import annotations

from typing import Any

from ftm_backend.frontend import elements as e
from ftm_backend.frontend.dtypes import FLOATS, INTS, compute_dtype
from ftm_backend.frontend.ops.places import NOWHERE, scatter_rows, typed
from ftm_backend.frontend.ops.record import EXACT, lowering
from ftm_backend.frontend.ops.reduce import reduce


@lowering("aten::histc", FLOATS + INTS, "histc", EXACT)
def _histc(b: Any, self: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    dtype, count = compute_dtype(self.dtype), self.type.numel
    wide = dtype if e.info(dtype).kind == "float" else "f64"
    flat = b.cast(b.reshape(self, (count,)), wide)
    if not count:
        return b.full(0, self.dtype, (bins,))
    low, high = (b.inline(x, wide) for x in (min, max))
    bounds = [reduce(b, kind, [flat], (0,), wide) for kind in ("min", "max")]

    def edges(least: Any, most: Any) -> tuple[Any, Any]:
        """Equal bounds mean those of the data; where these are equal too, one more to each side."""
        left, right = e.where(low.eq(high), least, low), e.where(low.eq(high), most, high)
        same = left.eq(right)
        return e.where(same, left - 1, left), e.where(same, right + 1, right)

    def place(x: Any, least: Any, most: Any) -> Any:
        left, right = edges(least, most)
        hit = (x >= left) & (x <= right)
        spot = (e.where(hit, x, left) - left) * bins / (right - left)
        bin_ = e.where(hit, e.minimum(spot.to("i64"), bins - 1), bins)  # the others go behind the last bin
        return e.where((left - left).eq(0) & (right - right).eq(0), bin_, NOWHERE)  # bounds must be finite

    rows = b.pointwise(place, [flat, *bounds], typed("i64", (count,)))
    ones = b.full(1, dtype, (count, 1))
    made = scatter_rows(b, b.full(0, dtype, (bins + 1, 1)), rows, ones, "add")
    return b.cast(b.reshape(made.slice(0, 0, bins), (bins,)), self.dtype)
