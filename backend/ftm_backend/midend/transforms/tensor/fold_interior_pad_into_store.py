"""Pass ``fold-interior-pad-into-store``: store elements together with the constant between them.

Example: the gradient of a 1x1x1 convolution with stride 2 has zeros between its elements, ``y[::2,
::2, ::2] = dx``. DMA moves one granule for each element that is stored with a gap. So the constant
is placed next to the elements, and a copy that is transposed on chip interleaves both
(``transpose-on-chip``). Then whole rows are stored.

Changes the function in place.
"""

from __future__ import annotations

from math import prod

from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.function import (
    LinalgFunction,
    SequentialLoop,
    Statement,
    Tensor,
    Update,
    Value,
    WindowPart,
    copy_statement,
)
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.midend.lowering.loop_nest.transpose import match_transpose
from ftm_backend.symbolic import is_integer
from ftm_backend.target.presets import MachineParameters

__all__ = ["fold_interior_pad_into_store"]

FEWEST = 4
"""Smallest number of elements in a row for which interleaving pays."""


def fold_interior_pad_into_store(
    function: LinalgFunction, machine: MachineParameters
) -> LinalgFunction:
    """Rewrite such updates, except inside of sequential loops."""
    body: list[Statement | Update | SequentialLoop] = []
    for item in function.body:
        if isinstance(item, Update):
            body += _interleaved(item, machine)
        body.append(item)
    function.body = body
    return function


def _interleaved(
    update: Update, machine: MachineParameters
) -> list[Statement | Update | SequentialLoop]:
    """Return the operations that interleave an update's part with the constant between.

    Empty if the update stays as it is.
    """
    number = update.base.value.splat
    if number is None or len(update.parts) != 1:
        return []
    (part,) = update.parts
    place, shape = part.place, update.result.shape
    if (
        not place.sizes
        or not shape
        or not all(is_integer(n) for n in (*shape, *place.sizes, *place.strides, place.offset))
    ):
        return []
    gap, width = place.strides[-1], shape[-1]
    first = place.offset % width if width else 0
    # each row with gaps is inside of a row of the tensor, so its gaps hold nothing else
    inside = gap > 1 and first + place.sizes[-1] * gap <= width
    rows = zip(place.sizes[:-1], place.strides[:-1], strict=True)
    if (
        not inside
        or 0 in place.sizes
        or place.sizes[-1] < FEWEST
        or any(n != 1 and stride % width for n, stride in rows)
    ):
        return []
    count = prod(place.sizes)
    stacked = Value(update.result.dtype, (gap, *place.sizes))
    base = Tensor.whole(Value(stacked.dtype, stacked.shape, splat=number))
    stacked.producer = Update(
        stacked,
        base,
        [WindowPart(part.value, Strided(part.value.view.sizes, row_major(place.sizes)))],
    )
    copy = copy_statement(
        Tensor(stacked, Strided((*place.sizes, gap), (*row_major(place.sizes), count)))
    )
    (made,) = copy.results
    if match_transpose(copy, machine, [made.index]) is None:
        return []
    update.parts = [
        WindowPart(
            Tensor.whole(made.value),
            Strided((*place.sizes, gap), (*place.strides, 1), place.offset),
        )
    ]
    return [stacked.producer, copy]
