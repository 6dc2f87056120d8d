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
from dataclasses import dataclass
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
from ftm_backend.midend.lowering.gemm.interleaved_phases import (
    PhaseTaps,
    Products,
    cheapest,
)
from ftm_backend.midend.schedule.cost import contraction_cycles, traffic_cycles
from ftm_backend.midend.schedule.gemm.contraction import Contraction, match
from ftm_backend.symbolic import is_integer
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["merge_conv_transpose_phases"]

MOST_SIDES = 4
"""Largest number of dimensions in which ``DLB`` takes a border."""

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
    if least > copying + sum(each.statement.volume for each in pair.products) / peak:
        separate = copying + sum(
            contraction_cycles(each.statement, machine) for each in pair.products
        )
        if least >= separate:
            return None
    (result,) = best.results
    result.value.producer = best
    return best


def _taps(products: Products) -> PhaseTaps | None:
    """Return the weights of both phases, if the phases differ only in the taps of one loop."""
    one, other = products
    loops, others = one.statement.loops, other.statement.loops
    if (
        one.statement.reduced != other.statement.reduced
        or one.statement.results[0].indices != other.statement.results[0].indices
    ):
        return None
    if (
        one.a.value is not other.a.value
        or one.b.value is not other.b.value
        or one.b.value.border is not None
    ):
        return None
    every = (one.a.index, other.a.index, one.b.index, other.b.index)
    if not all(
        map(
            is_integer,
            (
                *loops,
                *others,
                *(n for x in every for n in (x.const, *x.coeffs)),
                *one.b.value.shape,
            ),
        )
    ):
        return None
    differ = [k for k, (n, m) in enumerate(zip(loops, others, strict=True)) if n != m]
    if (
        len(differ) > 1
        or (differ and not one.statement.reduced[differ[0]])
        or one.b.value.splat is not None
    ):
        return None
    offset = other.a.index.const - one.a.index.const
    tap = differ[0] if differ else _tap_loop(one, offset)
    longer = one if tap < 0 or loops[tap] >= others[tap] else other
    same = [k for k, n in enumerate(loops) if n > 1 and k != tap]
    if any(
        x.coeffs[k] != y.coeffs[k]
        for x, y in ((one.a.index, other.a.index), (one.b.index, other.b.index))
        for k in same
    ):
        return None
    step = (longer.a.index.coeffs[tap], longer.b.index.coeffs[tap]) if tap >= 0 else (0, 0)
    if offset if step[0] == 0 else offset % step[0]:
        return None
    distance = offset // step[0] if step[0] else 0
    start = (max(-distance, 0), max(distance, 0))  # first tap of each phase among all taps
    counts = (loops[tap], others[tap]) if tap >= 0 else (1, 1)
    count = max(a + n for a, n in zip(start, counts, strict=True))
    consts = [x.b.index.const - a * step[1] for x, a in zip(products, start, strict=True)]
    phase = consts[1] - consts[0]
    first = (one if start[0] == 0 else other).a.index
    coeffs = tuple(step[1] if k == tap else c for k, c in enumerate(longer.b.index.coeffs))
    wanted = {(r, a + t) for r in (0, 1) for a, t in [(start[r], t) for t in range(counts[r])]}
    index = Affine(consts[0], coeffs)
    if wanted == {(r, t) for r in (0, 1) for t in range(count)}:
        return PhaseTaps(one.b.value, index, phase, count, first, tap)
    shape = tuple(n if k != tap else 1 for k, n in enumerate(loops))
    return _bordered(one.b.value, index, shape, tap, phase, count, wanted, first)


def _tap_loop(product: Contraction, offset: int) -> int:
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
    value: Value,
    index: Affine,
    loops: tuple[int, ...],
    tap: int,
    phase: int,
    count: int,
    wanted: set[tuple[int, int]],
    first: Affine,
) -> PhaseTaps | None:
    """Return the weights with zeros where a phase has no tap.

    Args:
        value: The weights.
        index: Access of the first tap of the first phase.
        loops: Extents of the loops, 1 for the loop over taps.
        tap: The loop over taps.
        phase: Distance of the phases in the weights, in elements.
        count: Taps of the merged convolution.
        wanted: Pairs of phase and tap that exist.
        first: Access of the input.

    Returns:
        None if the zeros are no border of one dimension.
    """
    strides, step = row_major(value.shape), index.coeffs[tap]
    side = next(
        (
            d
            for d, stride in enumerate(strides)
            if step % stride == 0 and phase % stride == 0 and value.shape[d] > 1
        ),
        None,
    )
    if side is None or len(value.shape) - side > MOST_SIDES or phase == 0:
        return None
    stride, size = strides[side], value.shape[side]
    outer = stride * size
    inside = [(k, n) for k, n in enumerate(loops) if n > 1 and index.coeffs[k] % outer]
    r, t = min(wanted)
    known = index.const + r * phase + t * step  # position of an element that exists
    if (
        any(index.coeffs[k] < 0 for k, _ in inside)
        or known % stride + sum(index.coeffs[k] * (n - 1) for k, n in inside) >= stride
    ):
        return None
    at = known % outer // stride

    def place(r: int, t: int) -> int:
        return at + ((r - min(wanted)[0]) * phase + (t - min(wanted)[1]) * step) // stride

    every = [(r, t) for r in (0, 1) for t in range(count)]
    if any((0 <= place(*each) < size) != (each in wanted) for each in every):
        return None
    low, high = (
        max(0, -min(place(*x) for x in every)),
        max(0, max(place(*x) for x in every) - size + 1),
    )
    shape = (*value.shape[:side], size + low + high, *value.shape[side + 1 :])
    border = Border(value, value.shape, tuple(low if d == side else 0 for d in range(len(shape))))
    wider = stride * shape[side]
    const = known // outer * wider + (place(0, 0) + low) * stride + known % stride
    coeffs = tuple(
        c // outer * wider if k != tap and c % outer == 0 else c for k, c in enumerate(index.coeffs)
    )
    return PhaseTaps(
        Value(value.dtype, shape, border=border), Affine(const, coeffs), phase, count, first, tap
    )
