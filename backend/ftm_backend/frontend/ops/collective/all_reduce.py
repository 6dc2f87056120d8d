"""Record of the all-reduce."""

from __future__ import annotations

from ftm_backend.dtypes import DTYPES
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.op_registry import EXACT, lowering
from ftm_backend.frontend.scalar_math import ScalarExpr

_DTYPES = tuple(token for token, facts in DTYPES.items() if facts.kind in ("float", "int", "bool"))


@lowering("ftm::all_reduce", _DTYPES, "collective", EXACT)
def all_reduce(
    b: LinalgBuilder, *, self: StridedValue, token: StridedValue, reduction: str, call: ScalarExpr
) -> tuple[StridedValue, StridedValue]:
    """Reduce a tensor over the processes of a group.

    ``token`` and the second result order collectives in the trace. Here they start in program
    order, so the token has no meaning.
    """
    started = b.collective("ftm.all_reduce", self, call, {"reduction": reduction})
    return b.collective("ftm.collective_wait", started, call), b.full(0, token.dtype, token.shape)
