"""Record of collectives."""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.dtypes import DTYPES
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.op_registry import EXACT, lowering
from ftm_backend.frontend.scalar_math import ScalarExpr

_DTYPES = tuple(token for token, facts in DTYPES.items() if facts.kind in ("float", "int", "bool"))


@lowering("ftm::collective", _DTYPES, "collective", EXACT)
def collective(
    b: LinalgBuilder,
    *,
    self: StridedValue,
    token: StridedValue,
    kind: str,
    reduction: str,
    size: Sequence[int],
    call: ScalarExpr,
) -> tuple[StridedValue, StridedValue]:
    """Communicate with the other processes of a group; ``size`` is the result's shape.

    ``token`` and the second result order collectives in the trace. Here they start in program
    order, so the token has no meaning.
    """
    result = b.collective(self, size, call, {"kind": kind, "reduction": reduction})
    return result, b.full(0, token.dtype, token.shape)
