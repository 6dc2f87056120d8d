"""The input of a convolution without its zero padding, for algorithms that pad it themselves."""

from __future__ import annotations

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import Tensor, Update
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.midend.transforms.tensor.fold_pad_into_load import border_of

__all__ = ["unpadded"]


def unpadded(x: Tensor) -> tuple[Tensor, tuple[int, int]] | None:
    """Return the part of an input that is not padding, and where that starts.

    Args:
        x: The input [N, C, H, W], or [N, G, C, H, W] with the channels in groups. Its sizes are
            constant.

    Returns:
        The part [N, C, H, W], and the rows and columns of zeros before it. It is all of ``x`` if
        the padding is not visible. None if ``x`` is not in memory.
    """
    value, before = x.value, (0, 0)
    border = value.border
    if border is None and isinstance(value.producer, Update):
        border = border_of(value.producer)
    outer, inner = x.view.sizes[:1], x.view.sizes[-2:]
    is_whole = x.is_whole and (*outer, *inner) == (*value.shape[:1], *value.shape[2:])
    if border is not None and is_whole and not any(border.low[:2]):
        x = Tensor(border.inside, Strided.whole(border.sizes))
        before = border.low[-2], border.low[-1]
    elif value.border is not None or value.splat is not None:
        return None
    images, *channels, rows, columns = x.view.sizes
    view = x.view.reshape((images, volume(channels), rows, columns))
    return None if view is None else (Tensor(x.value, view), before)
