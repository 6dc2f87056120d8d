"""Lowerings of sorting: packing elements into the keys of ``ftm.sort``, and unpacking them.

The machine sorts i64. The upper half of a packed number is a key with the order of the elements
(NaN greatest, -0.0 equal to 0.0); the lower half is the element's index, which makes the sort
stable and yields the permutation. The elements are recovered from the keys. Types of 64 bits are
sorted twice, by the lower half of their keys and then, stably, by the upper half; their elements
are gathered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ftm_backend.dtypes import info
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

_PLACE_BITS = 31  # bits of an index; the bit below them distinguishes -0.0 from 0.0
_NAN = 0x7FFFFFFF
_NAN_WIDE = 2**63 - 1


@dataclass(frozen=True)
class SortedRows:
    """A sorted tensor.

    Attributes:
        packed: Packed numbers in the tensor's layout, sorted along `dim`; for types of 64 bits, the
            indices.
        dtype: The elements' dtype.
        dim: The sorted dimension.
        descending: Whether the order is descending.
        source: The unsorted tensor, for types of 64 bits.
    """

    packed: StridedValue
    dtype: str
    dim: int
    descending: bool
    source: StridedValue | None = None

    def part(self, start: int, length: int) -> SortedRows:
        """Return ranks `start` to ``start + length``."""
        return replace(self, packed=self.packed.slice(self.dim, start, length))

    def at(self, b: LinalgBuilder, ranks: StridedValue) -> SortedRows:
        """Return the elements of given ranks, an i64 tensor with extent 1 along ``dim``."""
        packed = self.packed

        def body(rank: ScalarExpr) -> ScalarExpr:
            return b.extract(
                packed, [rank if k == self.dim else b.index(k) for k in range(packed.rank)]
            )

        return replace(self, packed=b.pointwise(body, [ranks]))

    def indices(self, b: LinalgBuilder) -> StridedValue:
        """Return the indices along ``dim`` into the unsorted tensor, i64."""
        if self.source is not None:
            return self.packed
        return b.pointwise(_place, [self.packed])

    def values(self, b: LinalgBuilder) -> StridedValue:
        """Return the sorted elements."""
        return b.pointwise(self._element(b), [self.packed])

    def both(self, b: LinalgBuilder) -> tuple[StridedValue, StridedValue]:
        """Return values and indices."""
        if self.source is not None:
            return self.values(b), self.packed
        element, shape = self._element(b), self.packed.shape
        results = TensorType(self.dtype, shape), TensorType("i64", shape)
        values, indices = b.pointwise_all(lambda p: (element(p), _place(p)), [self.packed], results)
        return values, indices

    def _element(self, b: LinalgBuilder) -> Callable[[ScalarExpr], ScalarExpr]:
        if self.source is not None:
            source = self.source
            return lambda p: b.extract(
                source, [p if k == self.dim else b.index(k) for k in range(source.rank)]
            )
        return lambda p: _from_key(p, self.dtype, self.descending)


def sort_rows(
    b: LinalgBuilder, x: StridedValue, dim: int, descending: bool = False, most: int | None = None
) -> SortedRows:
    """Sort a nonempty tensor stably along `dim`.

    Args:
        b: The builder.
        x: The tensor.
        dim: The dimension.
        descending: Sort in descending order.
        most: Number of leading ranks to keep; all by default.

    Raises:
        TypeError: A row is longer than 2^31 - 1 elements.
    """
    dim %= x.rank
    most = x.shape[dim] if most is None else most
    if x.shape[dim] >= 1 << _PLACE_BITS:
        raise TypeError(f"a row of {x.shape[dim]} elements is too long for indices of 31 bits")
    if info(x.dtype).bits == 64:
        return _order_wide(b, x, dim, descending, most)

    def pack(value: ScalarExpr) -> ScalarExpr:
        key, flag = _to_key(value)
        return _packed(b, ~key if descending else key, dim) | flag

    return SortedRows(_sorted(b, pack, x, dim, most), x.dtype, dim, descending)


def sort(
    b: LinalgBuilder, x: StridedValue, dim: int, descending: bool = False
) -> tuple[StridedValue, StridedValue]:
    """Sort `x` stably along `dim`, NaN greatest; return values and indices."""
    if not x.rank or not x.type.numel:
        return x, b.full(0, "i64", x.shape)
    return sort_rows(b, x, dim, descending).both(b)


def sort_indices(
    b: LinalgBuilder, x: StridedValue, dim: int, descending: bool = False
) -> StridedValue:
    """Return the permutation that sorts `x` stably along `dim`."""
    if not x.rank or not x.type.numel:
        return b.full(0, "i64", x.shape)
    return sort_rows(b, x, dim, descending).indices(b)


def _sorted(
    b: LinalgBuilder, pack: Callable[[ScalarExpr], ScalarExpr], x: StridedValue, dim: int, most: int
) -> StridedValue:
    """Sort ``pack(element)`` along `dim` and keep the first `most`, in x's layout.

    `pack` may use ``b.index(k)``.
    """
    # the sorted dimension becomes the innermost
    dims_last = [*(k for k in range(x.rank) if k != dim), dim]
    *outer, length = (x.shape[k] for k in dims_last)
    (numbers,) = b.generic(
        x.shape,
        [LoopInput(x, range(x.rank))],
        [LoopOutput("i64", (*outer, length), dims_last)],
        pack,
    )
    rows = math.prod(outer)
    result = b.create(
        "ftm.sort", "i64", (rows, most), [b.tensor(b.reshape(numbers, (rows, length)))]
    )
    return b.reshape(result, (*outer, most)).permute([dims_last.index(k) for k in range(x.rank)])


def _packed(b: LinalgBuilder, key: ScalarExpr, dim: int) -> ScalarExpr:
    """Pack a 32-bit key above the index along `dim`."""
    return (key << 32) | (b.index(dim) << 1)


def _place(packed: ScalarExpr) -> ScalarExpr:
    return (packed & 0xFFFFFFFF) >> 1


def _to_key(value: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
    """Return a 32-bit key with the order of the elements, as i64, and 1 for -0.0 else 0."""
    if not value.is_float:
        key = value.to("i64")
        return key, key.const(0)
    number = value.to("f32")
    bits = number.bitcast("i32")
    key = e.where(bits < 0, bits ^ _NAN, bits)  # reverses the order of negative numbers
    key = e.where(number.eq(0), 0, e.where(e.isnan(number), _NAN, key))
    return key.to("i64"), (number.eq(0) & (bits < 0)).to("i64")


def _from_key(packed: ScalarExpr, dtype: str, descending: bool) -> ScalarExpr:
    key = packed >> 32
    if descending:
        key = ~key
    if info(dtype).kind != "float":
        return key.to(dtype)
    key = key.to("i32")
    number = e.where(key < 0, key ^ _NAN, key).bitcast("f32")  # the greatest key is a NaN
    return e.where((packed & 1).ne(0), -0.0, number).to(dtype)


def _order_wide(
    b: LinalgBuilder, x: StridedValue, dim: int, descending: bool, most: int
) -> SortedRows:
    def key_of(value: ScalarExpr) -> ScalarExpr:
        key = value
        if value.is_float:
            bits = value.bitcast("i64")
            key = e.where(bits < 0, bits ^ _NAN_WIDE, bits)
            key = e.where(value.eq(0), 0, e.where(e.isnan(value), _NAN_WIDE, key))
        return ~key if descending else key

    source = x

    def lower(value: ScalarExpr) -> ScalarExpr:
        return _packed(b, (key_of(value) & 0xFFFFFFFF) - (1 << 31), dim)

    def extract(tensor: StridedValue, index: ScalarExpr) -> ScalarExpr:
        return b.extract(tensor, [index if k == dim else b.index(k) for k in range(x.rank)])

    def upper(packed: ScalarExpr) -> ScalarExpr:
        return _packed(b, key_of(extract(source, _place(packed))) >> 32, dim)

    first = _sorted(b, lower, x, dim, x.shape[dim])
    second = _sorted(b, upper, first, dim, most)
    whole = first
    indices = b.pointwise(lambda p: _place(extract(whole, _place(p))), [second])
    return SortedRows(indices, x.dtype, dim, descending, source)
