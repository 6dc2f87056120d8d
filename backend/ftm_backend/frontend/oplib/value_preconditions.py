"""Runtime checks of elements that eager mode rejects."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import checked_index, tensor_type
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.scalar_math import ScalarExpr


def fault_unless(
    b: LinalgBuilder, tensor: StridedValue, demand: Callable[[ScalarExpr], ScalarExpr]
) -> StridedValue:
    """Return a 0-dim i64 zero; its computation faults if an element violates `demand`.

    The result must contribute to the op's result, or it is not computed. Annotate the op with
    ``may_fail``.
    """
    met = reduce(b, "and", [tensor], range(tensor.rank), "i1", demand)
    zero = b.pointwise(lambda: b.index(0), [], tensor_type("i64", (1,)))

    def check(met: ScalarExpr) -> ScalarExpr:
        return b.extract(zero, [checked_index(met.to("i64") - 1, 1)])

    return b.pointwise(check, [b.reshape(met, ())], tensor_type("i64", ()))
