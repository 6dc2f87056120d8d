"""Pass ``merge-conv-transpose-phases``: merge two phases of a transposed convolution.

In a row of a transposed convolution with stride 2, every other element belongs to one *phase*: same
input, other taps. The frontend computes two convolutions, concatenates the results, and interleaves
them by a copy. As one convolution with twice as many columns, the input is loaded once, the columns
fill more of the micro-kernel, and ``TRANS.ZIP`` interleaves the phases as it transposes them. If a
phase has fewer taps than the other one, its weights get a border of zeros.

Changes the function in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ftm_backend.ir.linalg.affine import Affine, row_major, volume
from ftm_backend.ir.linalg.function import (
    Border,
    LinalgFunction,
    SequentialLoop,
    Statement,
    Tensor,
    Update,
    Value,
    WindowPart,
)
from ftm_backend.midend.analysis.use_def import FunctionUses
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.lowering.gemm.interleaved_phases import (
    PhaseTaps,
    Products,
    cheapest,
)
from ftm_backend.midend.schedule.choose import pays
from ftm_backend.midend.schedule.cost import estimate, traffic_cycles
from ftm_backend.midend.schedule.gemm.contraction import Contraction, match
from ftm_backend.midend.transforms.tensor.fold_pad_into_load import MOST_SIDES
from ftm_backend.symbolic import is_integer
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["merge_conv_transpose_phases"]


Item = Statement | Update | SequentialLoop


@dataclass(frozen=True)
class _Pair:
    """Two convolutions to merge.

    Attributes:
        copy: The copy that interleaves the results.
        stacked: The update that concatenates them.
        products: The convolutions; they differ in the taps of one loop.
    """

    copy: Statement
    stacked: Update
    products: Products


def merge_conv_transpose_phases(
    function: LinalgFunction, machine: MachineParameters
) -> LinalgFunction:
    """Merge pairs of phases, except inside of sequential loops."""
    uses = FunctionUses(function)
    for item in list(function.body):
        pair = _pair(item, uses) if isinstance(item, Statement) else None
        joined = _joined(pair, machine) if pair is not None else None
        if pair is None or joined is None:
            continue
        (old,), (made,) = pair.copy.results, joined.results
        for update in uses.readers(old.value):
            assert isinstance(update, Update)
            update.parts = [
                WindowPart(Tensor(made.value, p.value.view), p.place)
                if p.value.value is old.value
                else p
                for p in update.parts
            ]
        gone: list[Item] = [pair.stacked, *(found.statement for found in pair.products)]
        function.body[function.body.index(pair.copy)] = joined
        function.body = [each for each in function.body if each not in gone]
    return function


def _pair(copy: Statement, uses: FunctionUses) -> _Pair | None:
    """Return the convolutions that a copy interleaves; None if something else reads them."""
    stacked = _stacked(copy, uses)
    if stacked is None:
        return None
    first, second = (_product(stacked, number, uses) for number in (0, 1))
    return None if first is None or second is None else _Pair(copy, stacked, (first, second))


def _stacked(copy: Statement, uses: FunctionUses) -> Update | None:
    """Return the update that concatenates two tensors, if ``copy`` interleaves them.

    Only updates may read the copy, and only the copy may read the concatenated tensor.
    """
    moved, made = copy.copied_view(), copy.results[0].value
    readers = uses.readers(made)
    is_placed = all(isinstance(r, Update) and r.base.value is not made for r in readers)
    if moved is None or not readers or not is_placed or made in uses.results:
        return None
    stacked = moved.value.producer
    is_pair = isinstance(stacked, Update) and len(stacked.parts) == 2
    if not is_pair or not uses.is_read_only_by(moved.value, copy):
        return None
    sizes, strides = moved.view.sizes, moved.view.strides
    if sizes[-1:] != (2,) or copy.reads() != [moved.value] or moved.view.offset:
        return None
    if not all(map(is_integer, (*sizes, *strides))):
        return None
    half = volume(moved.value.shape) // 2
    interleaves = prod(sizes) == 2 * half and strides[-1] == half
    is_found = interleaves and _dense(sizes[:-1], strides[:-1])
    return stacked if is_found and isinstance(stacked, Update) else None


def _product(stacked: Update, number: int, uses: FunctionUses) -> Contraction | None:
    """Return the contraction that computes one half of a concatenation; None otherwise."""
    part, half = stacked.parts[number], volume(stacked.result.shape) // 2
    value, place = part.value.value, part.place
    is_whole = part.value.is_whole and volume(value.shape) == half
    is_placed = place.offset == number * half and _dense(place.sizes, place.strides)
    producer = value.producer
    if not is_whole or not is_placed or not isinstance(producer, Statement):
        return None
    if not uses.is_read_only_by(value, stacked) or not producer.volume:
        return None
    found = match(producer)
    return found if found is not None and found.starts_at_zero else None


def _dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    return all(
        n == 1 or have == want
        for n, have, want in zip(sizes, strides, row_major(sizes), strict=True)
    )


def _joined(pair: _Pair, machine: MachineParameters) -> Statement | None:
    """Return the merged convolution; None if there is none, or if it takes more cycles."""
    taps = _taps(pair.products)
    if taps is None:
        return None
    moved = 2 * volume(pair.copy.loops) * ELEMENT_BYTES[pair.copy.results[0].value.dtype]
    copying = traffic_cycles(machine, moved) + machine.barrier_cycles
    found = cheapest(pair.products, taps, machine)
    if found is None:
        return None
    least, best = found
    peak = machine.cores * machine.fma_units * machine.lanes(pair.products[0].accumulator)
    separate = copying + sum(each.statement.volume for each in pair.products) / peak
    if least > separate:  # at peak speed; else the products need no plan
        separate = copying + sum(
            estimate(KernelKind.CONTRACTION, [each.statement], machine) for each in pair.products
        )
    subject = str(pair.products[0].statement.loops)
    if not pays(machine, "merge-conv-transpose-phases", subject, separate, least):
        return None
    (result,) = best.results
    result.value.producer = best
    return best


def _taps(products: Products) -> PhaseTaps | None:
    """Return the weights of both phases, if the phases differ only in the taps of one loop."""
    one, other = products
    if not _are_same_phase(one, other):
        return None
    found = _tap_loop(one, other)
    if found is None:
        return None
    tap, distance = found
    loops, others = one.statement.loops, other.statement.loops
    longer = one if tap < 0 or loops[tap] >= others[tap] else other
    step = longer.b.index.coeffs[tap] if tap >= 0 else 0
    start = (max(-distance, 0), max(distance, 0))  # first tap of each phase among all taps
    counts = (loops[tap], others[tap]) if tap >= 0 else (1, 1)
    count = max(a + n for a, n in zip(start, counts, strict=True))
    consts = [x.b.index.const - a * step for x, a in zip(products, start, strict=True)]
    coeffs = tuple(step if k == tap else c for k, c in enumerate(longer.b.index.coeffs))
    first = (one if start[0] == 0 else other).a.index
    taps = PhaseTaps(
        one.b.value, Affine(consts[0], coeffs), consts[1] - consts[0], count, first, tap
    )
    wanted = {(r, start[r] + t) for r in (0, 1) for t in range(counts[r])}
    if len(wanted) == 2 * count:
        return taps
    return _bordered(taps, tuple(n if k != tap else 1 for k, n in enumerate(loops)), wanted)


def _tap_loop(one: Contraction, other: Contraction) -> tuple[int, int] | None:
    """Return the loop over taps (-1: one tap), and by how many taps the inputs are apart.

    None if the products differ otherwise.
    """
    loops, others = one.statement.loops, other.statement.loops
    differ = [k for k, (n, m) in enumerate(zip(loops, others, strict=True)) if n != m]
    if len(differ) > 1 or (differ and not one.statement.reduced[differ[0]]):
        return None
    offset = other.a.index.const - one.a.index.const
    tap = differ[0] if differ else _loop_along(one, offset)
    longer = one if tap < 0 or loops[tap] >= others[tap] else other
    step = longer.a.index.coeffs[tap] if tap >= 0 else 0
    is_apart = (offset % step if step else offset) != 0
    if is_apart or not _access_equally(one, other, tap):
        return None
    return tap, offset // step if step else 0


def _are_same_phase(one: Contraction, other: Contraction) -> bool:
    """Return whether two products read the same tensors, over constant loops of the same kinds."""
    first, second = one.statement, other.statement
    have_same_loops = first.reduced == second.reduced
    have_same_loops = have_same_loops and first.results[0].indices == second.results[0].indices
    have_same_operands = one.a.value is other.a.value and one.b.value is other.b.value
    weights = one.b.value
    is_plain = weights.border is None and weights.splat is None
    if not have_same_loops or not have_same_operands or not is_plain:
        return False
    accesses = (one.a.index, other.a.index, one.b.index, other.b.index)
    numbers = [n for index in accesses for n in (index.const, *index.coeffs)]
    return all(map(is_integer, (*first.loops, *second.loops, *numbers, *weights.shape)))


def _access_equally(one: Contraction, other: Contraction, tap: int) -> bool:
    """Return whether all loops but that over taps access both operands in the same way."""
    return all(
        x.coeffs[k] == y.coeffs[k]
        for x, y in ((one.a.index, other.a.index), (one.b.index, other.b.index))
        for k, n in enumerate(one.statement.loops)
        if n > 1 and k != tap
    )


def _loop_along(product: Contraction, offset: int) -> int:
    """Return the reduced loop along which the inputs of two phases are ``offset`` apart.

    -1 if there is none.
    """
    statement, coeffs = product.statement, product.a.index.coeffs
    sums = [
        k
        for k, reduced in enumerate(statement.reduced)
        if reduced and coeffs[k] and statement.loops[k] > 1
    ]
    found = [k for k in sums if offset % coeffs[k] == 0]
    return max(found, key=lambda k: abs(coeffs[k]), default=-1) if offset else -1


def _bordered(
    taps: PhaseTaps, loops: tuple[int, ...], wanted: set[tuple[int, int]]
) -> PhaseTaps | None:
    """Return the weights with zeros where a phase has no tap.

    Args:
        taps: Both phases with all taps.
        loops: Extents of the loops, 1 for the loop over taps.
        wanted: Pairs of phase and tap that exist.

    Returns:
        None if the zeros are no border of one dimension.
    """
    value, index, phase = taps.value, taps.index, taps.phase
    step, strides = index.coeffs[taps.tap], row_major(value.shape)
    side = _padded_side(value, step, phase)
    if side is None:
        return None
    stride, size = strides[side], value.shape[side]
    outer = stride * size
    r, t = min(wanted)
    known = index.const + r * phase + t * step  # position of an element that exists
    inside = [(k, n) for k, n in enumerate(loops) if n > 1 and index.coeffs[k] % outer]
    reach = sum(index.coeffs[k] * (n - 1) for k, n in inside)
    if any(index.coeffs[k] < 0 for k, _ in inside) or known % stride + reach >= stride:
        return None
    places = {
        (phase_number, tap): known % outer // stride
        + ((phase_number - r) * phase + (tap - t) * step) // stride
        for phase_number in (0, 1)
        for tap in range(taps.count)
    }
    if any((0 <= place < size) != (each in wanted) for each, place in places.items()):
        return None
    low, high = max(0, -min(places.values())), max(0, max(places.values()) - size + 1)
    shape = (*value.shape[:side], size + low + high, *value.shape[side + 1 :])
    border = Border(value, value.shape, tuple(low if d == side else 0 for d in range(len(shape))))
    wider = stride * shape[side]
    const = known // outer * wider + (places[0, 0] + low) * stride + known % stride
    coeffs = tuple(
        c // outer * wider if k != taps.tap and c % outer == 0 else c
        for k, c in enumerate(index.coeffs)
    )
    bordered = Value(value.dtype, shape, border=border)
    return replace(taps, value=bordered, index=Affine(const, coeffs))


def _padded_side(value: Value, step: int, phase: int) -> int | None:
    """Return the dimension of weights along which taps and phases follow each other."""
    for side, stride in enumerate(row_major(value.shape)):
        if step % stride == 0 and phase % stride == 0 and value.shape[side] > 1:
            can_pad = len(value.shape) - side <= MOST_SIDES and phase != 0
            return side if can_pad else None
    return None
