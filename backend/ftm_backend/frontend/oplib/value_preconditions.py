"""What an op demands of the elements that it is given, where eager refuses others by looking at
them."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.index_scatter import inside, typed
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.scalar_math import ScalarExpr

__all__ = ["checked"]


def checked(
    b: LinalgBuilder, tensor: StridedValue, demand: Callable[[ScalarExpr], ScalarExpr]
) -> StridedValue:
    """0, in a tensor without dimensions; where an element is not as demanded, a fault, as it is an
    error on the CPU.

    What it gives has to have a part in the op's result, or it is not computed; the op's record says
    ``may_fail``.
    """
    met = reduce(b, "and", [tensor], range(tensor.rank), "i1", demand)
    zero = b.pointwise(lambda: b.index(0), [], typed("i64", (1,)))

    def check(met: ScalarExpr) -> ScalarExpr:
        return b.extract(zero, [inside(met.to("i64") - 1, 1)])

    return b.pointwise(check, [b.reshape(met, ())], typed("i64", ()))
