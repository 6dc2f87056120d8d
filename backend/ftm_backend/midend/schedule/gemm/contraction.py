"""Canonical form of a contraction: loops in groups batch, m, n and k; accesses as affine functions.

A statement with the body ``sum(a * b)`` is a contraction. Its loops are classified by use:

====== =============================== =========================================
group  loop is used by                 example ``C[b, i, j] = sum_k A[b, i, k] * B[b, k, j]``
====== =============================== =========================================
batch  A, B and C                      b
m      A and C                         i
n      B and C                         j
k      A and B (reduced)               k
====== =============================== =========================================

Transposed and broadcast operands, batches, convolutions and their gradients differ only in the
strides of A, B and C along these loops.

An *axis* is one loop, or several loops that every access traverses with a common stride: ``n, oh,
ow`` of a 1x1 convolution are one axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Node, Operand, Statement
from ftm_backend.midend.schedule.gemm.tiling_problem import OperandTraffic
from ftm_backend.midend.schedule.loop_nest.capacity_check import ONE_CORE_WORK
from ftm_backend.symbolic import guarded_equal, may_exceed_one, size_hint
from ftm_backend.target.element_types import ACCUMULATORS

__all__ = [
    "Contraction",
    "ContractionForm",
    "axes_of",
    "contraction_index",
    "match",
    "merge_loops",
    "overlaps",
]

_WIDENING = {"arith.extf", "arith.extsi"}

# The least matrix that the matrix unit multiplies by a vector faster than a row reduction does.
# Measured on the host: 12 x (200 x 64) takes 0.33 of its time, 3072 x 768 takes 0.46, 8 x 4 takes
# 1.8. With less than `ONE_CORE_WORK` in all, several row reductions can share a kernel.
_MATRIX_ROWS, _MATRIX_ELEMENTS = 16, 4096


@dataclass(frozen=True, eq=False)
class Contraction:
    """A statement for the matrix unit: ``result[index] = init + sum(a * b)``."""

    statement: Statement
    a: Operand
    b: Operand

    @property
    def accumulator(self) -> str:
        """Element type of the sums and of the result."""
        return ACCUMULATORS[self.a.value.dtype]

    @property
    def init(self) -> Node | Operand:
        """Initial value of the sum."""
        init = self.statement.results[0].init
        assert init is not None, "a sum starts from something"
        return init

    @property
    def starts_at_zero(self) -> bool:
        """Whether the initial value is the constant 0."""
        return self.statement.results[0].starts_at_zero

    def group_of(self, loop: int) -> str:
        """Return the group of a loop: ``"batch"``, ``"m"``, ``"n"`` or ``"k"``."""
        if self.statement.reduced[loop]:
            return "k"
        in_a, in_b = self.a.index.coeffs[loop] != 0, self.b.index.coeffs[loop] != 0
        if in_a and in_b:
            return "batch"
        return "m" if in_a else "n"


def _matrix_operand(node: Node) -> Operand | None:
    """Return the operand that ``node`` loads, looking through a widening cast.

    The matrix unit widens its operands itself. None: ``node`` is something else.
    """
    inner = node.operands[0] if node.op in _WIDENING else node
    if inner.op != "in":
        return None
    return inner.payload if ACCUMULATORS.get(inner.dtype) == node.dtype else None


def match(statement: Statement) -> Contraction | None:
    """Match a statement that the matrix unit should execute.

    Returns:
        The contraction, or None. None for other bodies than a sum of products, for element types
        that the matrix unit lacks, and for sums that a row reduction computes faster: dot
        products, and products of a vector and a small matrix that is contiguous along k.
    """
    product = _summed_product(statement)
    if product is None:
        return None
    a, b = (_matrix_operand(node) for node in product.operands)
    if a is None or b is None or a.value.dtype != b.value.dtype:
        return None
    contraction = Contraction(statement, a, b)
    return contraction if 0 in statement.loops or not _is_row_reduction(contraction) else None


def _summed_product(statement: Statement) -> Node | None:
    """Return the product that a statement sums up; None for other bodies."""
    if len(statement.results) != 1 or not statement.is_reduction:
        return None
    result = statement.results[0]
    is_product = result.yields.op in ("arith.mulf", "arith.muli")
    return result.yields if is_product and result.combine == "sum" else None


def contraction_index(statements: Sequence[Statement]) -> int:
    """Return the index of the first contraction in ``statements``, which must contain one."""
    return next(
        number for number, statement in enumerate(statements) if match(statement) is not None
    )


def _is_row_reduction(contraction: Contraction) -> bool:
    """Whether the sums are dot products, or those of a small matrix and a vector, row by row."""
    extents = {"m": 1, "n": 1, "k": 1}
    axes = [
        (contraction.group_of(loop), loop, size_hint(extent))
        for loop, extent in enumerate(contraction.statement.loops)
        if not guarded_equal(extent, 1)
    ]
    for group, _, extent in axes:
        if group in extents:
            extents[group] *= extent
    rows = extents["m"] * extents["n"]
    if rows == 1 or min(extents["m"], extents["n"]) > 1:
        return rows == 1
    is_large = rows >= _MATRIX_ROWS and rows * extents["k"] >= _MATRIX_ELEMENTS
    if is_large and size_hint(contraction.statement.volume) >= ONE_CORE_WORK:
        return False
    matrix = contraction.a if extents["m"] > 1 else contraction.b
    return any(
        group == "k" and guarded_equal(matrix.index.coeffs[loop], 1) for group, loop, _ in axes
    )


@dataclass(frozen=True)
class ContractionForm:
    """Axes in groups, and accesses as functions of the axes.

    Attributes:
        extents: Extent of each axis.
        batch: Axes of the group, outermost first; likewise ``m``, ``n`` and ``k``.
        accesses: A, B, C, then the further accesses that ``axes_of`` was given, in its order.
    """

    extents: tuple[int, ...]
    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    accesses: tuple[Affine, ...]

    def sizes(self, group: Sequence[int]) -> tuple[int, ...]:
        """Return the extents of a group's axes, outermost first."""
        return tuple(self.extents[axis] for axis in group)

    def swapped(self) -> ContractionForm:
        """Return the transposed contraction: A and B exchanged, and m and n."""
        a, b, *others = self.accesses
        return ContractionForm(self.extents, self.batch, self.n, self.m, self.k, (b, a, *others))

    def run(self, access: Affine, group: Sequence[int]) -> int:
        """Return the contiguous elements of ``access`` along ``group``, from its innermost axis.

        0 if the innermost axis does not have stride 1.
        """
        length = 1
        for steps, axis in enumerate(reversed(group)):
            if not guarded_equal(access.coeffs[axis], length):
                return length if steps else 0
            length *= self.extents[axis]
        return length if group else 0

    def _adjacent_run(self, access: Affine, group: Sequence[int]) -> int:
        """Return the same as ``run`` for strides of either sign, with the sizes' hints."""
        length = 1
        for axis in reversed(group):
            if abs(size_hint(access.coeffs[axis])) != length:
                break
            length *= size_hint(self.extents[axis])
        return length

    def operand(
        self, access: Affine, dtype: str, outer: Sequence[int], inner: Sequence[int]
    ) -> OperandTraffic:
        """Describe an operand to the cost model.

        Args:
            access: The operand's access.
            dtype: Its element type.
            outer: The group of its rows.
            inner: The group of its columns.
        """
        batched = any(access.coeffs[axis] for axis in self.batch)
        runs = self.run(access, outer), self.run(access, inner)
        coalesces = [
            not group or guarded_equal(access.coeffs[group[-1]], run)
            for group, run in ((inner, runs[0]), (outer, runs[1]))
        ]
        adjacent = max(self._adjacent_run(access, outer), self._adjacent_run(access, inner))
        return OperandTraffic(dtype, runs, batched, (coalesces[0], coalesces[1]), adjacent)


def axes_of(
    contraction: Contraction, others: Sequence[Affine], window_boxes: bool = False
) -> ContractionForm:
    """Sort the loops into groups, outermost first, and merge loops with a common stride.

    Args:
        contraction: Gives the accesses of A, B and C.
        others: Further accesses over the same loops (stores, operands of the epilogue).
        window_boxes: Whether overlapping windows are loaded as one box. The taps of a window then
            stay in one block of k.
    """
    loops = contraction.statement.loops
    accesses = [
        contraction.a.index,
        contraction.b.index,
        contraction.statement.results[0].index,
        *others,
    ]
    groups: dict[str, list[int]] = {"batch": [], "m": [], "n": [], "k": []}
    for loop, extent in enumerate(loops):
        if may_exceed_one(extent) or not extent:  # keep extents other than 1, and 0
            groups[contraction.group_of(loop)].append(loop)

    overlapping = [x for x in accesses[:2] if window_boxes and overlaps(x, loops)]
    reduced_by = overlapping if len(overlapping) == 1 else accesses[:2]

    def reach_of(loop: int) -> int:
        # Result loops are sorted by the strides of C. Reduced loops are sorted by the larger stride
        # of A and B, or by the operand whose windows overlap.
        reduced = contraction.statement.reduced[loop]
        return (
            max(abs(size_hint(x.coeffs[loop])) for x in reduced_by)
            if reduced
            else abs(size_hint(accesses[2].coeffs[loop]))
        )

    for members in groups.values():
        members.sort(key=reach_of, reverse=True)
    extents, axes, over_axes = merge_loops(loops, groups, accesses)
    return ContractionForm(extents, **axes, accesses=over_axes)


def overlaps(access: Affine, loops: Sequence[int]) -> bool:
    """Whether two different indices of the loops access the same element."""
    steps = sorted(
        (abs(size_hint(c)), size_hint(n))
        for c, n in zip(access.coeffs, loops, strict=True)
        if size_hint(c) and size_hint(n) > 1
    )
    reach = 0
    for stride, extent in steps:
        if stride <= reach:
            return True
        reach += stride * (extent - 1)
    return False


def merge_loops(
    loops: Sequence[int], groups: dict[str, list[int]], accesses: Sequence[Affine]
) -> tuple[tuple[int, ...], dict[str, tuple[int, ...]], tuple[Affine, ...]]:
    """Merge neighbouring loops of a group into one axis if every access has a common stride.

    Args:
        loops: Extents.
        groups: Loops of each group, outermost first. Loops of extent 1 may be left out.
        accesses: Affine functions of the loops.

    Returns:
        The extents of the axes, the groups in terms of axes, and the accesses as functions of the
        axes.
    """
    extents: list[int] = []
    inner_loops: list[int] = []
    merged: dict[str, tuple[int, ...]] = {}
    for name, members in groups.items():
        axes: list[int] = []
        for loop in members:
            if axes and all(
                guarded_equal(x.coeffs[inner_loops[-1]], x.coeffs[loop] * loops[loop])
                for x in accesses
            ):
                extents[-1] *= loops[loop]
                inner_loops[-1] = loop
            else:
                axes.append(len(extents))
                extents.append(loops[loop])
                inner_loops.append(loop)
        merged[name] = tuple(axes)
    return tuple(extents), merged, tuple(x.over(inner_loops) for x in accesses)
