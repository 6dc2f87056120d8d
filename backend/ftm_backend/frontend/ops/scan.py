"""Running combinations along a dimension: cumsum, cumprod, cummax, cummin, logcumsumexp."""

from __future__ import annotations

import math
from typing import Any

from ftm_backend.dtypes import ALL, FLOATS
from ftm_backend.frontend import elements as e
from ftm_backend.frontend.ops.record import EXACT, lowering
from ftm_backend.frontend.ops.recording import recorded
from ftm_backend.frontend.trace import TensorType

__all__ = ["extreme_scan", "scan"]

recorded("aten::cummax aten::cummin aten::logcumsumexp", composite="whole")

_KINDS = {"sum": "add", "prod": "mul", "min": "min", "max": "max", "lse": "lse"}
_SUMS = {"f64": (1e-11, 1e-11), "f32": (1e-5, 1e-5), "f16": (4e-3, 4e-3), "bf16": (2e-2, 2e-2)}


def scan(b: Any, kind: str, x: Any, dim: int) -> Any:
    """Inclusive scan of ``x`` along ``dim`` in x's dtype: ``sum``, ``prod``, ``min``, ``max`` or ``lse``.

    Sums of floats are kept in f64 on the way; ``min`` and ``max`` propagate NaN.
    """
    if not x.rank or not x.type.numel:
        return x
    if x.dtype == "u8" and kind in ("min", "max"):  # the machine's bytes are signed
        return b.cast(scan(b, kind, b.cast(x, "i16"), dim), "u8")
    dim %= x.rank
    shape = (math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
    made = b.create("ftm.scan", x.dtype, shape, [b.tensor(b.reshape(x, shape))], {"kind": _KINDS[kind]})
    return b.reshape(made, x.shape)


def extreme_scan(b: Any, kind: str, x: Any, dim: int) -> tuple[Any, Any]:
    """(running extreme, its place along ``dim``): the last place of equals, and of NaN the last NaN."""
    values = scan(b, kind, x, dim)

    def place(element: Any, best: Any) -> Any:
        taken = element.eq(best)
        if element.is_float:
            taken = taken | e.isnan(element)
        return e.where(taken, b.index(dim), b.constant(0, "i64"))

    places = b.pointwise(place, [x, values], TensorType("i64", x.shape))
    return values, scan(b, "max", places, dim)


def _plain(kind: str) -> Any:
    def lower(b: Any, self: Any, dim: int, dtype: str | None = None) -> Any:
        if b.result.dtype == "i1":
            raise TypeError("PyTorch has no running sum or product of bools")
        return scan(b, kind, b.cast(self, b.result.dtype), dim)

    return lower


lowering("aten::cumsum", ALL, "scan", _SUMS)(_plain("sum"))
lowering("aten::cumprod", ALL, "scan", _SUMS)(_plain("prod"))
lowering("aten::logcumsumexp", FLOATS, "scan", _SUMS)(_plain("lse"))


def _extreme(kind: str) -> Any:
    def lower(b: Any, self: Any, dim: int) -> tuple[Any, Any]:
        if not self.rank or not self.type.numel:
            return self, b.full(0, "i64", self.shape)
        return extreme_scan(b, kind, self, dim % self.rank)

    return lower


lowering("aten::cummax", ALL, "scan_extreme", EXACT)(_extreme("max"))
lowering("aten::cummin", ALL, "scan_extreme", EXACT)(_extreme("min"))
