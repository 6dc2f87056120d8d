"""Pass ``pad-by-dma``: where products alone read a tensor with a border of zeros, no copy with that border is made.

What is written into the middle of zeros and read by nobody but matrix products and convolutions becomes a value with a
*border*: it has no memory, and ``DLB`` fetches its elements from those of the tensor inside.  That is for machines on which DMA
works beside the core.
"""

from __future__ import annotations

from ftm_backend.linalg.affine import row_major
from ftm_backend.linalg.ir import Border, Function, Statement, Update, Value
from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.contractions.form import match
from ftm_backend.sizes import is_integer

__all__ = ["pad_by_dma"]

MOST_SIDES = 4
"""Dimensions that ``DLB`` takes a border of."""


def pad_by_dma(function: Function, machine: MachineParameters) -> Function:
    """``function``, rewritten in place."""
    if not machine.dma_overlaps:
        return function
    readers: dict[Value, list[object]] = {t.value: [t] for t in function.results}
    for item in function.body:
        for value in item.reads():
            readers.setdefault(value, []).append(item)
    for item in list(function.body):
        if not isinstance(item, Update) or not all(_multiplies(reader, item.result) for reader in readers.get(item.result, [None])):
            continue
        border = _border(item)
        if border is not None:
            function.body.remove(item)
            item.result.producer, item.result.border = None, border
    return function


def _multiplies(reader: object, value: Value) -> bool:
    """Whether ``reader`` is a contraction that reads ``value`` as a factor alone."""
    if not isinstance(reader, Statement) or 0 in reader.loops:
        return False
    found = match(reader)
    return found is not None and reader.reads().count(value) == sum(o.value is value for o in (found.a, found.b))


def _border(update: Update) -> Border | None:
    """The border that an update writes a whole tensor into; None if it does something else."""
    splat = update.base.value.splat
    if splat is None or splat.op != "constant" or str(splat.payload) not in ("0", "0.0") or len(update.parts) != 1:
        return None
    (part,) = update.parts
    inside, value, shape = part.value, part.value.value, update.result.shape
    if not inside.is_whole or value.splat is not None or value.border is not None or len(part.place.sizes) != len(shape):
        return None
    if not all(is_integer(n) for n in (*shape, *part.place.sizes, part.place.offset)) or 0 in part.place.sizes:
        return None
    strides = row_major(shape)
    if any(n != 1 and have != want for n, have, want in zip(part.place.sizes, part.place.strides, strides, strict=True)):
        return None
    low, left = [], part.place.offset
    for stride in strides:
        low.append(left // stride)
        left %= stride
    high = [whole - n - before for whole, n, before in zip(shape, part.place.sizes, low, strict=True)]
    sides = [k for k in range(len(shape)) if low[k] or high[k]]
    if left or min(high) < 0 or not sides or len(shape) - sides[0] > MOST_SIDES:
        return None
    return Border(value, part.place.sizes, tuple(low))
