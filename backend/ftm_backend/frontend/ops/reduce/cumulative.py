"""Op records of scans: cumsum, cumprod, cummax, cummin, logcumsumexp."""

from __future__ import annotations

from ftm_backend.dtypes import ALL, FLOATS
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.cumulative import extreme_scan, scan
from ftm_backend.frontend.oplib.op_registry import EXACT, Lower, lowering
from ftm_backend.frontend.oplib.op_traits import recorded

recorded("aten::cumsum aten::cumprod", takes_no_bools=True)
recorded("aten::cummax aten::cummin aten::logcumsumexp", composite="whole")

_SUMS = {"f64": (1e-11, 1e-11), "f32": (1e-5, 1e-5), "f16": (4e-3, 4e-3), "bf16": (2e-2, 2e-2)}


def _plain(kind: str) -> Lower:
    def lower(b: LinalgBuilder, self: StridedValue, dim: int) -> StridedValue:
        if b.result.dtype == "i1":
            raise TypeError("PyTorch has no running sum or product of bools")
        return scan(b, kind, b.cast(self, b.result.dtype), dim)

    return lower


lowering("aten::cumsum", ALL, "scan", _SUMS)(_plain("sum"))
lowering("aten::cumprod", ALL, "scan", _SUMS)(_plain("prod"))
lowering("aten::logcumsumexp", FLOATS, "scan", _SUMS)(_plain("lse"))


def _extreme(kind: str) -> Lower:
    def lower(b: LinalgBuilder, self: StridedValue, dim: int) -> tuple[StridedValue, StridedValue]:
        if not self.rank or not self.type.numel:
            return self, b.full(0, "i64", self.shape)
        return extreme_scan(b, kind, self, dim % self.rank)

    return lower


lowering("aten::cummax", ALL, "scan_extreme", EXACT)(_extreme("max"))
lowering("aten::cummin", ALL, "scan_extreme", EXACT)(_extreme("min"))
