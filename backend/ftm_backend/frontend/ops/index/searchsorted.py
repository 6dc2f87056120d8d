"""Op records of binary search: searchsorted and bucketize."""

from __future__ import annotations

from ftm_backend.dtypes import NUMBERS
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.binary_search import search_sorted
from ftm_backend.frontend.oplib.op_registry import EXACT, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.scalar_math import Number

recorded("aten::bucketize", tried=("always",))
recorded("aten::searchsorted", tried=("always",), may_fail=True)


@lowering("aten::searchsorted.Tensor aten::searchsorted.Scalar", NUMBERS, "search", EXACT)
def _searchsorted(
    b: LinalgBuilder,
    sorted_sequence: StridedValue,
    self: StridedValue | Number,
    right: bool = False,
    side: str | None = None,
    sorter: StridedValue | None = None,
) -> StridedValue:
    right = right or side == "right"
    return search_sorted(b, sorted_sequence, self, right, b.result.dtype, sorter)


@lowering("aten::bucketize.Tensor aten::bucketize.Scalar", NUMBERS, "search", EXACT)
def _bucketize(
    b: LinalgBuilder, self: StridedValue | Number, boundaries: StridedValue, right: bool = False
) -> StridedValue:
    return search_sorted(b, boundaries, self, right, b.result.dtype)
