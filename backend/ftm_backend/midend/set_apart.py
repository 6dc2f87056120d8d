"""Pass ``set-apart``: elements that are written one by one into a tensor of one number are written with those between them.

DMA moves a granule for each element of a row that is written with gaps.  Where the gaps hold one number, rows of it are put beside the
elements, and a copy that is turned on chip interleaves the two (``turn-copies``).  That is for machines on which DMA works beside the core.
"""

from __future__ import annotations

from math import prod

from ftm_backend.linalg.affine import row_major
from ftm_backend.linalg.ir import Function, Part, Repeat, Statement, Tensor, Update, Value, copy_statement
from ftm_backend.linalg.strided import Strided, contiguous_strides
from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.turn import match_turn
from ftm_backend.sizes import is_integer

__all__ = ["set_apart"]

FEWEST = 4
"""Elements of a row for which interleaving pays."""


def set_apart(function: Function, machine: MachineParameters) -> Function:
    """``function``, rewritten in place; what is in a repeat stays as it is."""
    if not machine.dma_overlaps:
        return function
    body: list[Statement | Update | Repeat] = []
    for item in function.body:
        body += _interleaved(item, machine) if isinstance(item, Update) else []
        body.append(item)
    function.body = body
    return function


def _interleaved(update: Update, machine: MachineParameters) -> list[Statement | Update | Repeat]:
    """What comes before an update whose one part is now elements with what is between them; nothing if it stays."""
    number = update.base.value.splat
    if number is None or len(update.parts) != 1:
        return []
    (part,) = update.parts
    place, shape = part.place, update.result.shape
    if not place.sizes or not shape or not all(is_integer(n) for n in (*shape, *place.sizes, *place.strides, place.offset)):
        return []
    gap, width = place.strides[-1], shape[-1]
    first = place.offset % width if width else 0
    # Rows of elements with gaps stay inside of rows of the tensor, so that what is between them is of nobody else.
    inside = gap > 1 and first + place.sizes[-1] * gap <= width
    rows = zip(place.sizes[:-1], place.strides[:-1], strict=True)
    if not inside or 0 in place.sizes or place.sizes[-1] < FEWEST or any(n != 1 and stride % width for n, stride in rows):
        return []
    count = prod(place.sizes)
    beside = Value(update.result.dtype, (gap, *place.sizes))
    base = Tensor.whole(Value(beside.dtype, beside.shape, splat=number))
    beside.producer = Update(beside, base, [Part(part.value, Strided(part.value.view.sizes, contiguous_strides(place.sizes)))])
    copy = copy_statement(Tensor(beside, Strided((*place.sizes, gap), (*row_major(place.sizes), count))))
    (made,) = copy.results
    if match_turn(copy, machine, [made.index]) is None:
        return []
    update.parts = [Part(Tensor.whole(made.value), Strided((*place.sizes, gap), (*place.strides, 1), place.offset))]
    return [beside.producer, copy]
