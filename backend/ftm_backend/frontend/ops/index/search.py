"""Binary search in sorted rows: searchsorted, bucketize, and what is built on them."""

from __future__ import annotations

from typing import Any

from ftm_backend.dtypes import NUMBERS
from ftm_backend.frontend.building.record import EXACT, lowering
from ftm_backend.frontend.building.recording import recorded
from ftm_backend.frontend.building.search import search_sorted

recorded("aten::bucketize", tried=("always",))
recorded("aten::searchsorted", tried=("always",), may_fail=True)


@lowering("aten::searchsorted.Tensor aten::searchsorted.Scalar", NUMBERS, "search", EXACT)
def _searchsorted(
    b: Any, sorted_sequence: Any, self: Any, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Any = None
) -> Any:
    right = right or side == "right"
    return search_sorted(b, sorted_sequence, self, right, b.result.dtype, sorter)


@lowering("aten::bucketize.Tensor aten::bucketize.Scalar", NUMBERS, "search", EXACT)
def _bucketize(b: Any, self: Any, boundaries: Any, out_int32: bool = False, right: bool = False) -> Any:
    return search_sorted(b, boundaries, self, right, b.result.dtype)
