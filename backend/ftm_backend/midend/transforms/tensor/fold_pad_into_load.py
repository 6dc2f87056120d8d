"""Pass ``fold-pad-into-load``: let DMA pad the input of convolutions and poolings with zeros.

Example: ``conv(pad(x, 1), w)``. If only matmuls, convolutions and poolings read ``pad(x, 1)``, it
becomes a value with a *border* (`Border`). It has no memory; the transfer ``DLB`` loads its inside
from ``x`` and writes zeros around it.

Changes the function in place.
"""

from __future__ import annotations

from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.function import Border, LinalgFunction, Statement, Update, Value
from ftm_backend.midend.analysis.use_def import FunctionUses, Item
from ftm_backend.midend.schedule.gemm.contraction import match, overlaps
from ftm_backend.symbolic import is_integer
from ftm_backend.target.presets import MachineParameters

__all__ = ["around", "border_of", "fold_pad_into_load"]

MOST_SIDES = 4
"""Largest number of dimensions in which ``DLB`` takes a border."""


def fold_pad_into_load(function: LinalgFunction, machine: MachineParameters) -> LinalgFunction:
    """Replace padded copies by values with a border."""
    uses = FunctionUses(function)
    for item in list(function.body):
        if not isinstance(item, Update) or item.result in uses.results:
            continue
        readers = uses.readers(item.result)
        can_load = bool(readers) and all(_fetches(reader, item.result) for reader in readers)
        border = border_of(item) if can_load else None
        if border is not None:
            function.body.remove(item)
            item.result.producer, item.result.border = None, border
    return function


def _fetches(reader: Item, value: Value) -> bool:
    """Return whether ``reader`` can load ``value`` with a border.

    It must be a contraction that reads ``value`` only as an operand, or reduce overlapping windows.
    """
    if not isinstance(reader, Statement) or 0 in reader.loops:
        return False
    found = match(reader)
    if found is None:
        read = [operand for operand in reader.operands if operand.value is value]
        return (
            reader.is_reduction
            and not reader.gathers
            and all(overlaps(o.index, reader.loops) for o in read)
        )
    return reader.reads().count(value) == sum(o.value is value for o in (found.a, found.b))


def border_of(update: Update) -> Border | None:
    """Return the border of zeros around the tensor that an update writes; None otherwise."""
    splat = update.base.value.splat
    if splat is None or splat.op != "constant" or str(splat.payload) not in ("0", "0.0"):
        return None
    found = around(update)
    if found is None:
        return None
    value = update.parts[0].value.value
    if value.splat is not None or value.border is not None:
        return None
    sides = [k for k, both in enumerate(zip(*found, strict=True)) if any(both)]
    if len(update.result.shape) - sides[0] > MOST_SIDES:
        return None
    return Border(value, update.parts[0].place.sizes, tuple(found[0]))


def around(update: Update) -> tuple[list[int], list[int]] | None:
    """Return how many elements an update leaves before and after its one part.

    Returns:
        The number of elements before the part in each dimension, and after it; None if the part is
        no box in the result, or all of it.
    """
    shape = update.result.shape
    if len(update.parts) != 1 or not update.parts[0].value.is_whole:
        return None
    place = update.parts[0].place
    if (
        len(place.sizes) != len(shape)
        or not all(is_integer(n) for n in (*shape, *place.sizes, place.offset))
        or 0 in place.sizes
    ):
        return None
    strides = row_major(shape)
    if any(
        n != 1 and have != want
        for n, have, want in zip(place.sizes, place.strides, strides, strict=True)
    ):
        return None
    low, left = [], place.offset
    for stride in strides:
        low.append(left // stride)
        left %= stride
    high = [whole - n - before for whole, n, before in zip(shape, place.sizes, low, strict=True)]
    return (low, high) if not left and min(high) >= 0 and any(low + high) else None
