"""The linear form of a contraction: its loops sorted into batch, m, n and k, every access a sum of
strides.

A statement whose body is ``sum(a * b)`` is a contraction whatever its indexing maps: a loop that
only A and the result use is an *m* loop, one that only B and the result use is *n*, one that all
use is *batch*, and a reduced one is *k*. Transposed and broadcast operands, batches, convolutions
and their gradients differ only in these strides.

An *axis* is a loop, or several loops that every access walks as one (``n, oh, ow`` of a 1x1
convolution).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Node, Operand, Statement
from ftm_backend.midend.schedule.gemm.tiling import OperandTraffic as TiledOperand
from ftm_backend.symbolic import at_hand, is_walked, seen_equal
from ftm_backend.target.element_types import ACCUMULATORS

__all__ = [
    "Contraction",
    "ContractionForm",
    "axes_of",
    "match",
    "merge_loops",
    "overlaps",
    "product_in",
    "volume",
]

_WIDENING = {"arith.extf", "arith.extsi"}


@dataclass(frozen=True, eq=False)
class Contraction:
    """A statement that the matrix unit can execute: ``result[index] = init + sum(a * b)``."""

    statement: Statement
    a: Operand
    b: Operand

    @property
    def accumulator(self) -> str:
        """Type of the sums, and of the result."""
        return ACCUMULATORS[self.a.value.dtype]

    @property
    def init(self) -> Node | Operand:
        """What the products are added to."""
        init = self.statement.results[0].init
        assert init is not None, "a sum starts from something"
        return init

    @property
    def starts_at_zero(self) -> bool:
        """Whether the sum has no other initial value."""
        init = self.init
        return isinstance(init, Node) and init.op == "constant" and init.payload == 0

    def group_of(self, loop: int) -> str:
        """``"batch"``, ``"m"``, ``"n"`` or ``"k"``."""
        if self.statement.reduced[loop]:
            return "k"
        in_a, in_b = self.a.index.coeffs[loop] != 0, self.b.index.coeffs[loop] != 0
        if in_a and in_b:
            return "batch"
        return "m" if in_a else "n"


def _factor(node: Node) -> Operand | None:
    """The tensor element that ``node`` is, seen through the widening that the matrix unit does
    itself."""
    inner = node.operands[0] if node.op in _WIDENING else node
    if inner.op != "in":
        return None
    return inner.payload if ACCUMULATORS.get(inner.dtype) == node.dtype else None


def match(statement: Statement) -> Contraction | None:
    """``statement`` as a contraction, or None when the matrix unit cannot or should not execute it.

    Not taken: other bodies than a sum of products, types the matrix unit lacks, and what a
    reduction along rows does better: dot products, and matrix by vector where the matrix lies along
    the sum.
    """
    if len(statement.results) != 1 or not statement.is_reduction:
        return None
    result = statement.results[0]
    product = result.yields
    if result.combine != "sum" or product.op not in ("arith.mulf", "arith.muli"):
        return None
    a, b = (_factor(node) for node in product.operands)
    if a is None or b is None or a.value.dtype != b.value.dtype:
        return None
    found = Contraction(statement, a, b)
    return found if 0 in statement.loops or not _is_reduction(found) else None


def product_in(statements: Sequence[Statement]) -> int:
    """The number of the first of them that is a contraction; there is one."""
    return next(
        number for number, statement in enumerate(statements) if match(statement) is not None
    )


def _is_reduction(found: Contraction) -> bool:
    """Whether it is one long row-wise sum for each element of the result."""
    loops = [k for k, extent in enumerate(found.statement.loops) if not seen_equal(extent, 1)]
    groups = {loop: found.group_of(loop) for loop in loops}
    free = {group for group in groups.values() if group in ("m", "n")}
    if len(free) != 1:
        return not free
    matrix = found.a if free == {"m"} else found.b
    return any(groups[loop] == "k" and seen_equal(matrix.index.coeffs[loop], 1) for loop in loops)


@dataclass(frozen=True)
class ContractionForm:
    """Axes in groups, and accesses over the axes.

    ``accesses`` are in the order that they were given to ``axes_of``; the first three are A, B and
    C.
    """

    extents: tuple[int, ...]
    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    accesses: tuple[Affine, ...]

    def sizes(self, group: Sequence[int]) -> tuple[int, ...]:
        """Extents of a group's axes, outermost first."""
        return tuple(self.extents[axis] for axis in group)

    @property
    def interleaved(self) -> int | None:
        """The axis of n, of two steps, that lies innermost in C, between the steps of m's innermost
        axis; None if there is none."""
        c = self.accesses[2].coeffs
        if not self.m or len(self.n) < 2 or at_hand(c[self.m[-1]]) != 2:
            return None
        return next(
            (k for k in self.n if at_hand(c[k]) == 1 and at_hand(self.extents[k]) == 2), None
        )

    def zipped(self) -> ContractionForm:
        """The same with the interleaved axis just outside of n's innermost one: a block's columns
        are those of two halves."""
        between = self.interleaved
        others = [k for k in self.n if k != between]
        return self if between is None else replace(self, n=(*others[:-1], between, *others[-1:]))

    def swapped(self) -> ContractionForm:
        """The same contraction with A and B, and m and n, exchanged."""
        a, b, *others = self.accesses
        return ContractionForm(self.extents, self.batch, self.n, self.m, self.k, (b, a, *others))

    def run(self, access: Affine, group: Sequence[int]) -> int:
        """Contiguous elements of ``access`` along ``group`` from its innermost axis; 0 if that has
        no stride 1."""
        length = 1
        for walked, axis in enumerate(reversed(group)):
            if not seen_equal(access.coeffs[axis], length):
                return length if walked else 0
            length *= self.extents[axis]
        return length if group else 0

    def _beside(self, access: Affine, group: Sequence[int]) -> int:
        """As ``run``, in either direction, of the sizes at hand."""
        length = 1
        for axis in reversed(group):
            if abs(at_hand(access.coeffs[axis])) != length:
                break
            length *= at_hand(self.extents[axis])
        return length

    def operand(
        self, access: Affine, dtype: str, outer: Sequence[int], inner: Sequence[int]
    ) -> TiledOperand:
        """What the cost model must know of an operand that lies along the groups ``outer`` and
        ``inner``."""
        batched = any(access.coeffs[axis] for axis in self.batch)
        runs = self.run(access, outer), self.run(access, inner)
        whole = [
            not group or seen_equal(access.coeffs[group[-1]], run)
            for group, run in ((inner, runs[0]), (outer, runs[1]))
        ]
        beside = max(self._beside(access, outer), self._beside(access, inner))
        return TiledOperand(dtype, runs, batched, (whole[0], whole[1]), beside)


def axes_of(
    contraction: Contraction, others: Sequence[Affine], boxes: bool = False
) -> ContractionForm:
    """Sorts the loops into groups, outermost first, and merges neighbours that every access walks
    as one.

    Args:
        contraction: gives the accesses of A, B and C. others: further accesses over the same loops
        (stores, epilogue operands). boxes: whether windows that overlap are read where they lie
        together: the taps of one then stay in one block of k.
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
        if is_walked(extent) or not extent:  # a loop of no trips is one
            groups[contraction.group_of(loop)].append(loop)

    overlapping = [x for x in accesses[:2] if boxes and overlaps(x, loops)]
    sums = overlapping if len(overlapping) == 1 else accesses[:2]

    def far(loop: int) -> int:
        # Results are walked in their own order; reduced loops in the order of the operand they
        # stride most, or of that whose windows overlap.
        reduced = contraction.statement.reduced[loop]
        return (
            max(abs(at_hand(x.coeffs[loop])) for x in sums)
            if reduced
            else abs(at_hand(accesses[2].coeffs[loop]))
        )

    for members in groups.values():
        members.sort(key=far, reverse=True)
    extents, axes, over_axes = merge_loops(loops, groups, accesses)
    return ContractionForm(extents, **axes, accesses=over_axes)


def overlaps(access: Affine, loops: Sequence[int]) -> bool:
    """Whether different places of the loops are one element."""
    walked = sorted(
        (abs(at_hand(c)), at_hand(n))
        for c, n in zip(access.coeffs, loops, strict=True)
        if at_hand(c) and at_hand(n) > 1
    )
    reach = 0
    for stride, extent in walked:
        if stride <= reach:
            return True
        reach += stride * (extent - 1)
    return False


def merge_loops(
    loops: Sequence[int], groups: dict[str, list[int]], accesses: Sequence[Affine]
) -> tuple[tuple[int, ...], dict[str, tuple[int, ...]], tuple[Affine, ...]]:
    """Turns loops into axes: neighbours within a group that every access walks as one become one
    axis.

    Args:
        loops: extents.
        groups: which loops belong together, outermost first; loops of one trip may be left out.
        accesses: functions of the loops.

    Returns:
        Extents of the axes, the groups in terms of axes, the accesses as functions of the axes.
    """
    extents: list[int] = []
    kept: list[int] = []
    merged: dict[str, tuple[int, ...]] = {}
    for name, members in groups.items():
        axes: list[int] = []
        for loop in members:
            if axes and all(
                seen_equal(x.coeffs[kept[-1]], x.coeffs[loop] * loops[loop]) for x in accesses
            ):
                extents[-1] *= loops[loop]
                kept[-1] = loop
            else:
                axes.append(len(extents))
                extents.append(loops[loop])
                kept.append(loop)
        merged[name] = tuple(axes)
    over_axes = tuple(Affine(x.const, tuple(x.coeffs[loop] for loop in kept)) for x in accesses)
    return tuple(extents), merged, over_axes


def volume(form: ContractionForm, group: Sequence[int]) -> int:
    """Elements of a group."""
    return prod(form.sizes(group))
