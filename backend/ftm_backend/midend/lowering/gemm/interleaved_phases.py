"""Merge of two products of the same input whose results are interleaved (sub-pixel phases).

The merged product has the columns of both; see the pass ``merge_conv_transpose_phases``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ftm_backend.ir.linalg.affine import Affine, row_major
from ftm_backend.ir.linalg.function import (
    FunctionResult,
    Node,
    Operand,
    Statement,
    Value,
    united_origins,
)
from ftm_backend.midend.schedule.cost import contraction_cycles
from ftm_backend.midend.schedule.gemm.contraction import Contraction
from ftm_backend.target.presets import MachineParameters

__all__ = ["PhaseTaps", "Products", "cheapest"]

MOST_COLUMNS = 512
"""Most columns of a block of both phases."""

Products = tuple[Contraction, Contraction]
"""Two products that differ only in their weights, and in the number of taps along one loop."""


@dataclass(frozen=True)
class PhaseTaps:
    """Weights of both phases.

    Attributes:
        value: The tensor.
        index: Index of phase 0.
        phase: Offset of phase 1.
        count: Number of taps along ``tap``.
        first: Access of the input at the first tap.
        tap: Loop of the taps; -1: there is one tap.
    """

    value: Value
    index: Affine
    phase: int
    count: int
    first: Affine
    tap: int


def cheapest(
    products: Products, taps: PhaseTaps, machine: MachineParameters
) -> tuple[float, Statement] | None:
    """Return the cheapest merged product, with result ``[..., 2]``, and its modelled cycles.

    None if there is none.
    """
    priced = [
        (contraction_cycles(made, machine), made) for made in _candidates(products, taps, machine)
    ]
    return min(priced, key=lambda each: each[0], default=None)


def _candidates(
    products: Products, taps: PhaseTaps, machine: MachineParameters
) -> Iterator[Statement]:
    one, _ = products
    columns = [k for k, n in enumerate(one.statement.loops) if n > 1 and one.group_of(k) == "n"]
    rows = [k for k, n in enumerate(one.statement.loops) if n > 1 and one.group_of(k) == "m"]
    result = one.statement.results[0].index
    if len(columns) > 1 or not rows or min(result.coeffs[k] for k in rows) != 1:
        return
    extent = one.statement.loops[columns[0]] if columns else 1
    widths = [n for n in range(1, extent + 1) if extent % n == 0 and 2 * n <= MOST_COLUMNS]
    wide = machine.mm_widths(one.accumulator)[0]
    for width in dict.fromkeys(
        (widths[-1], *(n for n in reversed(widths) if 2 * n in (wide, 2 * wide)))
    ):
        yield _product(products, taps, columns[0] if columns else -1, width)


def _product(products: Products, taps: PhaseTaps, column: int, width: int) -> Statement:
    """Return the merged product.

    Its loops are those of the products, with ``column`` split into blocks of ``width``, and the
    phase.
    """
    one, other = products
    old, (result,), tap = one.statement, one.statement.results, taps.tap
    longest = tuple(map(max, old.loops, other.statement.loops))
    free = [k for k, reduced in enumerate(old.reduced) if not reduced]
    sums = [k for k, reduced in enumerate(old.reduced) if reduced]
    # Extents; for each, the loop of the product and its step.
    loops, source = [], []
    for k in free:
        if k == column:
            loops += [longest[k] // width, width]
            source += [(k, width), (k, 1)]
        else:
            loops.append(longest[k])
            source.append((k, 1))
    loops.append(2)
    phase = len(loops) - 1
    source.append((-1, 0))
    loops += [taps.count if k == tap else longest[k] for k in sums]
    source += [(k, 1) for k in sums]

    def over(index: Affine, moved: int) -> Affine:
        return Affine(
            index.const, tuple(moved if k < 0 else index.coeffs[k] * step for k, step in source)
        )

    longer = one if tap < 0 or old.loops[tap] >= other.statement.loops[tap] else other
    a_index = Affine(taps.first.const, longer.a.index.coeffs)
    operands = [
        Operand(one.a.value, over(a_index, 0)),
        Operand(taps.value, over(taps.index, taps.phase)),
    ]
    product = result.yields
    product_operands = []
    for node, wanted in zip(product.operands, (one.a, one.b), strict=True):
        made = Node(
            "in", wanted.value.dtype, payload=operands[0] if wanted is one.a else operands[1]
        )
        product_operands.append(
            made if node.op == "in" else Node(node.op, node.dtype, (made,), node.payload)
        )
    shape = tuple(loops[: phase + 1])
    value = Value(result.value.dtype, shape)
    indices = tuple(Affine.loop(k, len(loops)) for k in range(len(shape)))
    index = Affine(0, (*row_major(shape), *(0 for _ in sums)))
    joined = FunctionResult(
        value,
        index,
        indices,
        Node(product.op, product.dtype, tuple(product_operands), product.payload),
        result.combine,
        result.init,
    )
    reduced = tuple(k > phase for k in range(len(loops)))
    return Statement(
        "linalg.generic",
        tuple(loops),
        reduced,
        operands,
        [joined],
        origins=united_origins(one.statement, other.statement),
    )
