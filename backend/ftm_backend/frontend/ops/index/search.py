"""Binary search in sorted rows: searchsorted, bucketize, and what is built on them."""

from __future__ import annotations

from ftm_backend.dtypes import NUMBERS
from ftm_backend.frontend.builder import Builder, Value
from ftm_backend.frontend.building.record import EXACT, lowering
from ftm_backend.frontend.building.recording import recorded
from ftm_backend.frontend.building.search import search_sorted
from ftm_backend.frontend.elements import Number

recorded("aten::bucketize", tried=("always",))
recorded("aten::searchsorted", tried=("always",), may_fail=True)


@lowering("aten::searchsorted.Tensor aten::searchsorted.Scalar", NUMBERS, "search", EXACT)
def _searchsorted(
    b: Builder,
    sorted_sequence: Value,
    self: Value | Number,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    right = right or side == "right"
    return search_sorted(b, sorted_sequence, self, right, b.result.dtype, sorter)


@lowering("aten::bucketize.Tensor aten::bucketize.Scalar", NUMBERS, "search", EXACT)
def _bucketize(b: Builder, self: Value | Number, boundaries: Value, out_int32: bool = False, right: bool = False) -> Value:
    return search_sorted(b, boundaries, self, right, b.result.dtype)
