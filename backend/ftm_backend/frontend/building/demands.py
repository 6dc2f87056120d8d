"""What an op demands of the elements that it is given, where eager refuses others by looking at them."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.frontend.builder import Builder, Value
from ftm_backend.frontend.building.places import inside, typed
from ftm_backend.frontend.building.reduce import reduce
from ftm_backend.frontend.elements import Elem

__all__ = ["checked"]


def checked(b: Builder, tensor: Value, demand: Callable[[Elem], Elem]) -> Value:
    """0, in a tensor without dimensions; where an element is not as demanded, a fault, as it is an error on the CPU.

    What it gives has to have a part in the op's result, or it is not computed; the op's record says ``may_fail``.
    """
    met = reduce(b, "and", [tensor], range(tensor.rank), "i1", demand)
    zero = b.pointwise(lambda: b.index(0), [], typed("i64", (1,)))

    def check(met: Elem) -> Elem:
        return b.extract(zero, [inside(met.to("i64") - 1, 1)])

    return b.pointwise(check, [b.reshape(met, ())], typed("i64", ()))
