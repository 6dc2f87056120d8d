"""The input of a convolution without its zero padding, for algorithms that pad it themselves."""

from __future__ import annotations

from ftm_backend.ir.linalg.function import Tensor, Update
from ftm_backend.ir.linalg.strided_layout import Strided
from ftm_backend.midend.transforms.tensor.fold_pad_into_load import border_of

__all__ = ["unpadded"]


def unpadded(x: Tensor) -> tuple[Tensor, tuple[int, int]] | None:
    """Return the part of an input [N, C, H, W] that is not padding, and where that starts.

    Returns:
        The part, and the rows and columns of zeros before it. It is all of ``x`` if the padding is
        not visible. None if ``x`` is not in memory.
    """
    value = x.value
    border = value.border
    if border is None and isinstance(value.producer, Update):
        border = border_of(value.producer)
    if border is not None and x.view == Strided.whole(value.shape) and not any(border.low[:2]):
        rows, columns = border.low[2:]
        return Tensor(border.inside, Strided.whole(border.sizes)), (rows, columns)
    return None if value.border is not None or value.splat is not None else (x, (0, 0))
