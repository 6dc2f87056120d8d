"""Pass ``fill-pad-border``: fill only the border of a padded tensor.

Example: ``pad(x, 1, value=-inf)``. The frontend fills the whole result and then copies ``x`` into
it, so the inside is written twice. Here the border is filled in up to two boxes per dimension. DMA
moves a whole granule for each short row of the border, so this pays if rows are long. A tensor with
a symbolic size is filled as a whole.

Changes the function in place.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from ftm_backend.midend.schedule.choose_by_cost import choose
from ftm_backend.midend.schedule.cost import traffic_cycles
from ftm_backend.midend.transforms.tensor.fold_pad_into_load import around
from ftm_backend.symbolic import SymInt
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["fill_pad_border"]


def fill_pad_border(function: LinalgFunction, machine: MachineParameters) -> LinalgFunction:
    """Rewrite padded tensors, also inside of sequential loops."""
    body: list[Statement | Update | SequentialLoop] = []
    for item in function.body:
        if isinstance(item, Update):
            body += _border(item, machine)
        elif isinstance(item, SequentialLoop):
            fill_pad_border(item.body, machine)
        body.append(item)
    function.body = body
    return function


def _border(update: Update, machine: MachineParameters) -> list[Statement]:
    """Return the statements that fill the border of an update's part; empty if filling all pays."""
    number, result = update.base.value.splat, update.result
    # The border's boxes and their costs depend on all sizes: guards would fix symbolic ones.
    is_dynamic = any(isinstance(size, SymInt) for size in (*result.shape, *_sizes(update)))
    sides = None if number is None or is_dynamic else around(update)
    if sides is None:
        return []
    boxes = list(_boxes(update.parts[0].place.sizes, *sides, result.shape))
    item = ELEMENT_BYTES[result.dtype]
    costs = {
        "keep": _cycles(Strided.whole((prod(result.shape),)), item, machine),
        "border": sum(_cycles(box, item, machine) for box in boxes),
    }
    if choose(machine, "fill-pad-border", "x".join(map(str, result.shape)), costs) == "keep":
        return []
    update.base = Tensor.whole(Value(result.dtype, result.shape))
    fills = [
        copy_statement(Tensor.whole(Value(result.dtype, box.sizes, splat=number))) for box in boxes
    ]
    update.parts += [
        WindowPart(Tensor.whole(fill.results[0].value), box)
        for fill, box in zip(fills, boxes, strict=True)
    ]
    return fills


def _sizes(update: Update) -> Iterator[int]:
    for part in update.parts:
        yield from (*part.place.sizes, *part.place.strides, part.place.offset)


def _boxes(
    inside: tuple[int, ...], low: list[int], high: list[int], shape: tuple[int, ...]
) -> Iterator[Strided]:
    """Yield the boxes of a border.

    For each dimension: the part before and after the inside. It spans the inside in outer
    dimensions, and everything in inner ones.
    """
    strides = row_major(shape)
    for k, whole in enumerate(shape):
        start = sum(n * stride for n, stride in zip(low[:k], strides, strict=False))
        for first, count in ((0, low[k]), (whole - high[k], high[k])):
            if count:
                yield Strided(
                    (*inside[:k], count, *shape[k + 1 :]), strides, start + first * strides[k]
                )


def _cycles(places: Strided, item: int, machine: MachineParameters) -> float:
    """Return the cycles of a kernel that writes elements of ``item`` bytes on all cores."""
    run, rows = 1, list(zip(places.sizes, places.strides, strict=True))
    while rows and (rows[-1][1] == run or rows[-1][0] == 1):
        run *= rows.pop()[0]
    count = prod(n for n, _ in rows)
    moved = traffic_cycles(machine, count * cost_rules.granules(machine, run * item))
    single = count * machine.dma_element_cycles * (run == 1) / machine.cores
    return cost_rules.transfer_cycles(machine, moved, 0.0, single) + machine.barrier_cycles
