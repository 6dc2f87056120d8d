"""Pass ``fuse-interior-padding``: store elements together with the constant between them.

Example: the gradient of a 1x1 convolution with stride 2 has zeros between its elements, ``y[::2,
::2] = dx``. DMA moves one granule for each element that is stored with a gap. There are two ways to
store whole rows instead:

- The matmul computes the zeros as additional columns, from weights that are padded with zeros; rows
  of zeros between them are filled by themselves.
- The constant is placed next to the elements, and a copy that is transposed on chip interleaves
  both (``lower-transposes``).

Changes the function in place.
"""

from __future__ import annotations

from math import prod

from ftm_backend.ir.linalg.affine import row_major, volume
from ftm_backend.ir.linalg.function import (
    Border,
    LinalgFunction,
    SequentialLoop,
    Statement,
    Tensor,
    Update,
    Value,
    WindowPart,
    copy_statement,
)
from ftm_backend.ir.linalg.strided_layout import Strided
from ftm_backend.midend.analysis.use_def import FunctionUses
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.lowering.gemm.interleaved_phases import PhaseTaps, cheapest
from ftm_backend.midend.lowering.loop_nest.transpose import match_transpose
from ftm_backend.midend.schedule.cost import estimate, traffic_cycles
from ftm_backend.midend.schedule.gemm.contraction import Contraction, match
from ftm_backend.midend.transforms.tensor.fold_pad_into_load import MOST_SIDES
from ftm_backend.symbolic import is_integer
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["fuse_interior_padding"]

FEWEST = 4
"""Smallest number of elements in a row for which interleaving pays."""


def fuse_interior_padding(function: LinalgFunction, machine: MachineParameters) -> LinalgFunction:
    """Rewrite such updates, except inside of sequential loops."""
    body: list[Statement | Update | SequentialLoop] = []
    uses = FunctionUses(function)
    for item in function.body:
        if isinstance(item, Update):
            found = _in_product(item, uses, machine)
            if found is not None:
                body[body.index(found[0])] = found[1]
                body += _zero_rows(item)
            else:
                body += _interleaved(item, machine)
        body.append(item)
    function.body = body
    return function


def _in_product(
    update: Update, uses: FunctionUses, machine: MachineParameters
) -> tuple[Statement, Statement] | None:
    """Return the product whose result an update stores two apart, and the one with zeros.

    None if the second one is not cheaper.
    """
    found = _product(update, uses)
    if found is None:
        return None
    (part,), weights = update.parts, found.b.value
    value, place = part.value.value, part.place
    sizes = (2 * weights.shape[0], *weights.shape[1:])
    bordered = Value(weights.dtype, sizes, border=Border(weights, weights.shape, (0,) * len(sizes)))
    best = cheapest(
        (found, found),
        PhaseTaps(bordered, found.b.index, volume(weights.shape), 1, found.a.index, -1),
        machine,
    )
    # the other way reads and writes zeros and elements
    moved = 5 * volume(place.sizes) * ELEMENT_BYTES[value.dtype]
    copying = traffic_cycles(machine, moved)
    if best is None or best[0] >= copying + estimate(
        KernelKind.CONTRACTION, [found.statement], machine
    ):
        return None
    made = best[1].results[0].value
    made.producer, shape = best[1], (*place.sizes, 2)
    update.parts = [
        WindowPart(
            Tensor(made, Strided(shape, row_major(shape))),
            Strided(shape, (*place.strides, 1), place.offset),
        )
    ]
    return found.statement, best[1]


def _product(update: Update, uses: FunctionUses) -> Contraction | None:
    """Return the contraction that computes an update's part, if it can compute the zeros too.

    The update must store rows of the part into zeros, with stride 2, and nothing else may read the
    part.
    """
    if not _stores_in_zeros(update):
        return None
    (part,) = update.parts
    value, product = part.value.value, part.value.value.producer
    is_read_once = isinstance(product, Statement) and uses.count(value) == 1
    found = match(product) if is_read_once and isinstance(product, Statement) else None
    if found is None or not found.statement.volume or not found.starts_at_zero:
        return None
    weights = found.b.value
    is_plain = weights.border is None and weights.splat is None
    is_small = 0 < len(weights.shape) <= MOST_SIDES and all(map(is_integer, weights.shape))
    return found if is_plain and is_small else None


def _stores_in_zeros(update: Update) -> bool:
    """Return whether an update stores rows of one tensor into zeros, with stride 2."""
    number = update.base.value.splat
    is_zero = number is not None and number.op == "constant" and number.payload == 0
    if not is_zero or len(update.parts) != 1:
        return False
    (part,), shape = update.parts, update.result.shape
    value, place = part.value.value, part.place
    numbers = (*shape, *value.shape, *place.strides, place.offset)
    if not part.value.is_whole or value.shape != place.sizes or not place.sizes:
        return False
    if not shape or not all(map(is_integer, numbers)) or 0 in shape:
        return False
    width, rows = shape[-1], zip(place.sizes[:-1], place.strides[:-1], strict=True)
    is_inside = place.offset % width + 2 * place.sizes[-1] <= width
    return (
        place.strides[-1] == 2
        and is_inside
        and all(n == 1 or step % width == 0 for n, step in rows)
    )


def _zero_rows(update: Update) -> list[Statement]:
    """Return the statements that fill the rows between those of an update's part.

    Then nothing is written twice. Empty if the rows are not whole or not evenly spaced.
    """
    (part,), shape = update.parts, update.result.shape
    place, number = part.place, update.base.value.splat
    *_, rows, columns, _ = place.sizes
    spacing = place.strides[-3] // shape[-1] if len(shape) > 1 else 1
    outer = len(shape) - 2
    if (
        len(shape) < 2
        or spacing < 2
        or 2 * columns != shape[-1]
        or rows * spacing != shape[-2]
        or place.offset
    ):
        return []
    if (place.sizes[:outer], place.strides[:outer]) != (
        shape[:outer],
        row_major(shape)[:outer],
    ) or number is None:
        return []
    between = (*place.sizes[:outer], rows, spacing - 1, shape[-1])
    fill = copy_statement(Tensor.whole(Value(update.result.dtype, between, splat=number)))
    strides = (*place.strides[:outer], place.strides[-3], shape[-1], 1)
    update.parts = [
        part,
        WindowPart(Tensor.whole(fill.results[0].value), Strided(between, strides, shape[-1])),
    ]
    update.base = Tensor.whole(Value(update.result.dtype, shape))
    return [fill]


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
