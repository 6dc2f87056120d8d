"""`StridedValue`: a tensor of the program under a strided access.

Views, permutations, broadcasts and transposed copies need no operation: consumers read the base
tensor through the access.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.ir.linalg import function
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.ir.trace.trace import TensorType


class StridedValue:
    """A tensor: a strided access into the flat buffer of a base tensor.

    Attributes:
        base: The tensor that is computed or passed in.
        access: Sizes, strides and offset into the flat buffer of `base`.
        dtype: Token of `dtypes`; distinguishes u8 from i8.
    """

    __slots__ = ("access", "base", "dtype")

    def __init__(self, base: function.Value, dtype: str, access: Strided | None = None) -> None:
        """Create a value; without `access`, the whole of `base`."""
        self.base, self.dtype = base, dtype
        self.access = access if access is not None else Strided.whole(base.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.access.sizes

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.access.sizes)

    @property
    def type(self) -> TensorType:
        """The dtype and shape."""
        return TensorType(self.dtype, self.shape)

    def at(self, access: Strided) -> StridedValue:
        """Return the same buffer under another access."""
        return StridedValue(self.base, self.dtype, access)

    def permute(self, order: Sequence[int]) -> StridedValue:
        """Permute dimensions; dimension k of the result is dimension ``order[k]``."""
        return self.at(self.access.permute(order))

    def transpose(self, a: int = -1, b: int = -2) -> StridedValue:
        """Exchange two dimensions."""
        order = list(range(self.rank))
        order[a], order[b] = order[b], order[a]
        return self.permute(order)

    def expand(self, sizes: Sequence[int]) -> StridedValue:
        """Broadcast to `sizes`."""
        return self.at(self.access.expand(sizes))

    def slice(self, dim: int, start: int, length: int, step: int = 1) -> StridedValue:
        """Return a slice of one dimension."""
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
