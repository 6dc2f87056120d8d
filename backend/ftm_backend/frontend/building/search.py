"""Binary search in sorted rows."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.dtypes import compute_dtype
from ftm_backend.frontend import elements as e
from ftm_backend.frontend.builder import Builder, Output, Value
from ftm_backend.frontend.building.places import inside, typed
from ftm_backend.frontend.elements import Elem, Number
from ftm_backend.sizes import enough_bits

__all__ = ["count_before", "search_sorted"]


def count_before(b: Builder, size: int, element: Callable[[Elem], Elem], value: Elem, right: bool) -> Elem:
    """In a body: how many of ``size`` sorted elements come before ``value``, as i64.

    Args:
        element: from a place in [0, size), an i64 Elem, to the element there.
        right: also count the elements that equal ``value``.

    A NaN comes after everything, as PyTorch has it.
    """
    found = b.constant(0, "i64")
    step = 1 << enough_bits(size) >> 1
    while step:
        further = found + step
        at = element(e.minimum(further, size) - 1)
        before = ~(at > value) if right else ~(at >= value)
        found = e.where(before & (further <= size), further, found)
        step >>= 1
    return found


def search_sorted(b: Builder, rows: Value, values: Value | Number, right: bool, dtype: str = "i64", sorter: Value | None = None) -> Value:
    """For each of ``values`` [.., m] where it belongs in its row of ``rows`` [.., n].

    One row serves values of any shape.  ``values`` may be a scalar Elem.  sorter: the order of unsorted rows.
    """
    common = compute_dtype(b.promoted([rows, values]))
    size, shape = rows.shape[-1], values.shape if isinstance(values, Value) else ()
    if not size:
        return b.full(0, dtype, shape)
    table = rows
    order = None if sorter is None else sorter
    outer = rows.rank - 1

    def body(*value: Elem) -> Elem:
        row = [b.index(k) for k in range(outer)]

        def element(place: Elem) -> Elem:
            if order is not None:
                place = inside(b.extract(order, [*row, place]), size)
            return b.extract(table, [*row, place]).to(common)

        wanted = value[0].to(common) if isinstance(values, Value) else b.inline(values, common)
        return count_before(b, size, element, wanted, right).to(dtype)

    if isinstance(values, Value):
        return b.pointwise(body, [values], typed(dtype, shape))
    return b.generic((), [], [Output(dtype, (), ())], body)[0]
