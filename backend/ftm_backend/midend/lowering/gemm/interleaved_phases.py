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
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.cost import estimate
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
        (estimate(KernelKind.CONTRACTION, [made], machine), made)
        for made in _candidates(products, taps, machine)
    ]
    return min(priced, key=lambda each: each[0], default=None)


def _candidates(
    products: Products, taps: PhaseTaps, machine: MachineParameters
) -> Iterator[Statement]:
    one, _ = products
    columns, rows = _long_loops(one, "n"), _long_loops(one, "m")
    result = one.statement.results[0].index
    if len(columns) > 1 or not rows or min(result.coeffs[k] for k in rows) != 1:
        return
    column = columns[0] if columns else -1
    for width in _widths(one.statement.loops[column] if columns else 1, machine, one.accumulator):
        yield _product(products, taps, column, width)


def _long_loops(product: Contraction, group: str) -> list[int]:
    """Return the loops of a group whose extent is above 1."""
    loops = enumerate(product.statement.loops)
    return [k for k, extent in loops if extent > 1 and product.group_of(k) == group]


def _widths(extent: int, machine: MachineParameters, accumulator: str) -> list[int]:
    """Return widths of blocks of columns: the largest, and those that fill the micro-kernel."""
    widths = [n for n in range(1, extent + 1) if extent % n == 0 and 2 * n <= MOST_COLUMNS]
    wide = machine.mm_widths(accumulator)[0]
    filling = (n for n in reversed(widths) if 2 * n in (wide, 2 * wide))
    return list(dict.fromkeys((widths[-1], *filling)))


def _product(products: Products, taps: PhaseTaps, column: int, width: int) -> Statement:
    """Return the merged product.

    Its loops are those of the products, with ``column`` split into blocks of ``width``, and the
    phase.
    """
    one, other = products
    (result,), tap = one.statement.results, taps.tap
    loops, source = _merged_loops(products, taps, column, width)
    phase = source.index((-1, 0))

    def over(index: Affine, moved: int) -> Affine:
        steps = (moved if k < 0 else index.coeffs[k] * step for k, step in source)
        return Affine(index.const, tuple(steps))

    longer = one if tap < 0 or one.statement.loops[tap] >= other.statement.loops[tap] else other
    a_index = Affine(taps.first.const, longer.a.index.coeffs)
    operands = [
        Operand(one.a.value, over(a_index, 0)),
        Operand(taps.value, over(taps.index, taps.phase)),
    ]
    product = result.yields
    wanted = zip(product.operands, (one.a, one.b), strict=True)
    product_operands = [_read(node, operands[operand is not one.a]) for node, operand in wanted]
    shape = tuple(loops[: phase + 1])
    value = Value(result.value.dtype, shape)
    indices = tuple(Affine.loop(k, len(loops)) for k in range(len(shape)))
    index = Affine(0, (*row_major(shape), *[0] * (len(loops) - len(shape))))
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


def _merged_loops(
    products: Products, taps: PhaseTaps, column: int, width: int
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the loops of the merged product: those of the result, the phase, then the sums.

    Returns:
        Their extents, and for each the loop of the products that it is a part of, with its step;
        (-1, 0) for the phase.
    """
    one, other = products[0].statement, products[1].statement
    longest = tuple(map(max, one.loops, other.loops))
    loops: list[int] = []
    source: list[tuple[int, int]] = []
    for k, extent in enumerate(longest):
        if one.reduced[k]:
            continue
        if k == column:
            loops.append(extent // width)
            source.append((k, width))
        loops.append(width if k == column else extent)
        source.append((k, 1))
    sums = [k for k in range(len(longest)) if one.reduced[k]]
    loops += [2, *(taps.count if k == taps.tap else longest[k] for k in sums)]
    return loops, [*source, (-1, 0), *((k, 1) for k in sums)]


def _read(node: Node, operand: Operand) -> Node:
    """Return the operand of a product that loads another operand, maybe through a cast."""
    made = Node("in", operand.value.dtype, payload=operand)
    return made if node.op == "in" else Node(node.op, node.dtype, (made,), node.payload)
