"""A tensor of the program under a strided access.

Views, permutations, broadcasts and copies in another order cost no operation: what reads a value
reads through its access.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.ir.linalg import function
from ftm_backend.ir.linalg.strided_layout import Strided
from ftm_backend.ir.trace.trace import TensorType

__all__ = ["StridedValue"]


class StridedValue:
    """A tensor: ``access`` into the flat buffer of ``base``.

    shape, dtype: of the value itself; dtype is a token of `dtypes`, which tells u8 from i8.
    """

    __slots__ = ("access", "base", "dtype")

    def __init__(self, base: function.Value, dtype: str, access: Strided | None = None) -> None:
        self.base, self.dtype = base, dtype
        self.access = access if access is not None else Strided.whole(base.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.access.sizes

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.access.sizes)

    @property
    def type(self) -> TensorType:
        """dtype and shape."""
        return TensorType(self.dtype, self.shape)

    def at(self, access: Strided) -> StridedValue:
        """The same buffer under another access."""
        return StridedValue(self.base, self.dtype, access)

    def permute(self, order: Sequence[int]) -> StridedValue:
        """Dimension k of the result is dimension ``order[k]``."""
        return self.at(self.access.permute(order))

    def transpose(self, a: int = -1, b: int = -2) -> StridedValue:
        """Two dimensions exchanged."""
        order = list(range(self.rank))
        order[a], order[b] = order[b], order[a]
        return self.permute(order)

    def expand(self, sizes: Sequence[int]) -> StridedValue:
        """Broadcast."""
        return self.at(self.access.expand(sizes))

    def slice(self, dim: int, start: int, length: int, step: int = 1) -> StridedValue:
        """Part of one dimension."""
        return self.at(self.access.slice(dim, start, length, step))

    def unsqueeze(self, dim: int) -> StridedValue:
        """A new dimension of extent 1 in front of ``dim``."""
        dim = dim % (self.rank + 1)
        a = self.access
        return self.at(
            Strided(
                (*a.sizes[:dim], 1, *a.sizes[dim:]),
                (*a.strides[:dim], 0, *a.strides[dim:]),
                a.offset,
            )
        )
