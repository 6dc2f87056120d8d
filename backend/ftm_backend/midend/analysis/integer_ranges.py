"""Analysis: integer ranges of index expressions, forward and backward.

Indices of gathers and scatters are small expressions of loop indices, constants, elements of
integer tensors, and selects. `Ranges.of` bounds such an expression. `Ranges.demand` goes backward:
if an expression lies in bounds (because a gather did not fault), it bounds the tensors' elements.
Example: if ``idx + 1`` lies in [0, 9], then ``idx`` lies in [-1, 8].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from ftm_backend.dtypes import MACHINE
from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Node, Operand
from ftm_backend.symbolic import (
    SymInt,
    guarded_equal,
    guarded_less,
    size_hint,
    statically_known_ge,
    sym_max,
)

Range = tuple[int, int]
"""Least and greatest value, both inclusive."""

Bounds = dict[int, tuple[Node, Range]]
"""Known ranges of nodes, by the node's id."""

_WIDTHS = {facts.token: facts.bits for facts in MACHINE if facts.kind == "int" and facts.signed}
_MOST_NODES = 400
"""Most nodes to visit for one index; hand-written indices are smaller."""

_MIRRORED = {2: 4, 3: 5, 4: 2, 5: 3, 0: 0, 1: 1}
"""Predicates of arith.cmpi (eq ne slt sle sgt sge) with exchanged operands."""

_NEGATED = {0: 1, 1: 0, 2: 5, 3: 4, 4: 3, 5: 2}


def type_range_of(dtype: str) -> Range:
    """Return the range of a type; a boolean is 0 or 1."""
    bits = _WIDTHS.get(dtype)
    return (0, 1) if bits is None else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def span(index: Affine, loops: Sequence[int]) -> Range:
    """Return the range of an affine expression over non-empty loops."""
    ends = [c * (n - 1) for c, n in zip(index.coeffs, loops, strict=True)]
    return index.const + sum(-sym_max(-end, 0) for end in ends), index.const + sum(
        sym_max(end, 0) for end in ends
    )


class _TooLarge(Exception):
    """The expression has too many nodes."""


class Ranges:
    """Ranges of the nodes of one statement."""

    def __init__(self, loops: Sequence[int], element: Callable[[Operand], Range]):
        """Set the statement.

        Args:
            loops: Extents of its loops; none is 0.
            element: Returns the range of the elements that an operand reads.
        """
        self._loops, self._element = loops, element
        self._left = _MOST_NODES

    def of(self, node: Node, known: Bounds | None = None) -> Range:
        """Return the range of a node, given ranges of some nodes below it."""
        self._left = _MOST_NODES
        try:
            return self._of(node, known or {})
        except _TooLarge:
            return type_range_of(node.dtype)

    def demand(self, node: Node, low: int, high: int) -> Bounds:
        """Return the ranges of the loads below ``node`` if its values lie in ``[low, high]``."""
        self._left = _MOST_NODES
        try:
            found = self._demand(node, (low, high), {})
        except _TooLarge:
            return {}
        return {key: bound for key, bound in found.items() if bound[0].op == "in"}

    # --- forward

    def _of(self, node: Node, known: Bounds) -> Range:
        self._left -= 1
        if self._left < 0:
            raise _TooLarge
        result_range = _within(self._computed(node, known), type_range_of(node.dtype))
        bound = known.get(id(node))
        return result_range if bound is None else _meet(result_range, bound[1])

    def _computed(self, node: Node, known: Bounds) -> Range:
        anything = type_range_of(node.dtype)
        if node.dtype != "i1" and node.dtype not in _WIDTHS:
            return anything
        if node.op == "constant":
            return _number(node), _number(node)
        if node.op == "index":
            return span(node.payload, self._loops)
        if node.op == "in":
            return self._element(node.payload)
        if node.op == "arith.select":
            return self._select(node, known)
        if node.op == "arith.cmpi":
            return self._compare(node, known)
        if node.op == "gather":
            return self._element(Operand(node.payload, Affine(0, ())))
        rule = _RULES.get(node.op)
        if rule is None or (
            any(n.dtype == "i1" for n in node.operands) and node.op not in _ON_BOOLEANS
        ):
            return anything
        if node.op == "arith.extui" and self._of(node.operands[0], known)[0] < 0:
            return 0, (1 << _WIDTHS[node.operands[0].dtype]) - 1
        return rule(*(self._of(operand, known) for operand in node.operands))

    def _select(self, node: Node, known: Bounds) -> Range:
        condition, yes, no = node.operands
        holds = self._of(condition, known)
        parts = []
        if holds[1]:
            parts.append(self._of(yes, self._assume(condition, True, known)))
        if not holds[0]:
            parts.append(self._of(no, self._assume(condition, False, known)))
        return min(p[0] for p in parts), max(p[1] for p in parts)

    def _compare(self, node: Node, known: Bounds) -> Range:
        kind = _predicate(node)
        if kind not in _NEGATED or node.operands[0].dtype == "i1":
            return 0, 1
        a, b = (self._of(operand, known) for operand in node.operands)
        if _always(kind, a, b):
            return 1, 1
        return (0, 0) if _always(_NEGATED[kind], a, b) else (0, 1)

    # --- backward

    def _assume(self, condition: Node, holds: bool, known: Bounds) -> Bounds:
        """Return ``known`` together with the ranges that a condition implies."""
        assumed = dict(known)
        if condition.op == ("arith.andi" if holds else "arith.ori"):
            for operand in condition.operands:
                assumed = self._assume(operand, holds, assumed)
        elif (
            condition.op == "arith.cmpi"
            and _predicate(condition) in _NEGATED
            and condition.operands[0].dtype != "i1"
        ):
            kind = _predicate(condition) if holds else _NEGATED[_predicate(condition)]
            left, right = condition.operands
            a, b = self._of(left, known), self._of(right, known)
            _narrow(assumed, left, a, _allowed(kind, b))
            _narrow(assumed, right, b, _allowed(_MIRRORED[kind], a))
        return assumed

    def _demand(self, node: Node, need: Range, known: Bounds) -> Bounds:
        bound = _meet(self._of(node, known), need)
        found: Bounds = {**known, id(node): (node, bound)}
        if node.op in ("arith.extsi", "arith.index_cast"):
            return self._demand(node.operands[0], bound, found)
        if node.op == "arith.addi":
            left, right = node.operands
            a, b = self._of(left, known), self._of(right, known)
            if (
                a[0] + b[0] < type_range_of(node.dtype)[0]
                or a[1] + b[1] > type_range_of(node.dtype)[1]
            ):
                return found  # it may wrap around
            found = self._demand(left, (need[0] - b[1], need[1] - b[0]), found)
            return self._demand(right, (need[0] - a[1], need[1] - a[0]), found)
        if (
            node.op == "arith.muli"
            and node.operands[1].op == "constant"
            and node.operands[1].payload > 0
        ):
            factor, inner = node.operands[1].payload, self._of(node.operands[0], known)
            if (
                inner[0] * factor < type_range_of(node.dtype)[0]
                or inner[1] * factor > type_range_of(node.dtype)[1]
            ):
                return found
            return self._demand(node.operands[0], (-(-need[0] // factor), need[1] // factor), found)
        if node.op == "arith.select":
            return self._demand_select(node, need, found)
        return found

    def _demand_select(self, node: Node, need: Range, known: Bounds) -> Bounds:
        """Return what follows if a select lies in ``need``.

        A branch outside of ``need`` was not selected. Otherwise the ranges are the union of both.
        """
        condition, yes, no = node.operands
        sides = []
        for holds, branch in ((True, yes), (False, no)):
            inside = self._assume(condition, holds, known)
            got = self._of(branch, inside)
            if not (guarded_less(need[1], got[0]) or guarded_less(got[1], need[0])):
                sides.append(self._demand(branch, need, inside))
        if len(sides) == 1:
            return sides[0]
        if not sides:
            return known
        both = sides[0].keys() & sides[1].keys()
        return {
            key: (
                sides[0][key][0],
                (
                    min(sides[0][key][1][0], sides[1][key][1][0]),
                    max(sides[0][key][1][1], sides[1][key][1][1]),
                ),
            )
            for key in both
        }


def _number(node: Node) -> int:
    """Return the payload of a constant; booleans are 0 and 1."""
    return int(node.payload) if isinstance(node.payload, bool) else node.payload


def _predicate(node: Node) -> int:
    return int(node.payload)


def _narrow(known: Bounds, node: Node, now: Range, allowed: Range) -> None:
    known[id(node)] = (node, _meet(now, allowed))
    while node.op in ("arith.extsi", "arith.index_cast"):
        node = node.operands[0]
        known[id(node)] = (
            node,
            _meet(known[id(node)][1] if id(node) in known else type_range_of(node.dtype), allowed),
        )


def _meet(a: Range, b: Range) -> Range:
    """Return the intersection; if it is empty (in dead code), the first range.

    Of two valid bounds either may be taken. So comparing their hints needs no guard.
    """
    low, high = max(a[0], b[0], key=size_hint), min(a[1], b[1], key=size_hint)
    return (low, high) if size_hint(low) <= size_hint(high) else a


def _within(result_range: Range, type_range: Range) -> Range:
    """Return the whole type's range if a result may overflow."""
    fits = guarded_less(type_range[0], result_range[0] + 1) and guarded_less(
        result_range[1], type_range[1] + 1
    )
    return result_range if fits else type_range


def _allowed(kind: int, other: Range) -> Range:
    """Return the values that satisfy predicate ``kind`` with some value of ``other``."""
    low, high = type_range_of("i64")
    return {
        0: other,
        1: (low, high),
        2: (low, other[1] - 1),
        3: (low, other[1]),
        4: (other[0] + 1, high),
        5: (other[0], high),
    }[kind]


def _always(kind: int, a: Range, b: Range) -> bool:
    """Whether a comparison is true for all values, and for all sizes."""
    if kind == 0:
        return guarded_equal(a[0], a[1]) and guarded_equal(a[1], b[0]) and guarded_equal(b[0], b[1])
    if kind == 1:
        return _less(a[1], b[0]) or _less(b[1], a[0])
    if kind in (4, 5):
        kind, a, b = _MIRRORED[kind], b, a
    return _less(a[1], b[0] if kind == 2 else b[0] + 1)


def _less(left: int, right: int) -> bool:
    """Whether ``left < right``; guards the upper bound of a symbolic size only.

    Lower bounds would exclude small sizes, for which the steps of a search hold, too.
    """
    return (
        guarded_less(left, right)
        if isinstance(left, SymInt)
        else statically_known_ge(right, left + 1)
    )


def _product(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _minimum(a: Range, b: Range) -> Range:
    """Return the range of a minimum.

    Both upper bounds are valid. A symbolic one is preferred: it is the tighter one for indices,
    and the choice needs no guard.
    """
    (low, high), (other_low, other_high) = a, b
    if statically_known_ge(high, other_high) or (
        isinstance(other_high, SymInt) and not statically_known_ge(other_high, high)
    ):
        high = other_high
    if statically_known_ge(low, other_low):
        low = other_low
    elif not statically_known_ge(other_low, low):
        low = min(_floor(low), _floor(other_low))
    return low, high


def _floor(number: int) -> int:
    """Return a lower bound for all sizes."""
    return (
        max(type_range_of("i64")[0], int(number.bounds[0]))
        if isinstance(number, SymInt) and number.bounds[0] > -inf
        else number
    )


def _and(a: Range, b: Range) -> Range:
    masks = [side[1] for side in (a, b) if side[0] >= 0]
    if not masks:
        return type_range_of("i64")
    both_true = a == b == (1, 1)
    return int(both_true), min(masks)


def _or(a: Range, b: Range) -> Range:
    if min(a[0], b[0]) < 0 or max(a[1], b[1]) > 1:
        return type_range_of("i64")
    return max(a[0], b[0]), max(a[1], b[1])


def _remainder(a: Range, b: Range) -> Range:
    limit = max(abs(b[0]), abs(b[1]), 1) - 1  # division by zero gives 0
    return (0 if a[0] >= 0 else max(-limit, a[0])), (0 if a[1] <= 0 else min(limit, a[1]))


def _quotient(a: Range, b: Range) -> Range:
    if b[0] <= 0:
        return type_range_of("i64")
    ends = [_truncated(x, y) for x in a for y in b]
    return min(ends), max(ends)


def _truncated(x: int, y: int) -> int:
    return x // y if x >= 0 else -(-x // y)


_RULES: dict[str, Callable[..., Range]] = {
    "arith.addi": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "arith.subi": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "arith.muli": _product,
    "arith.maxsi": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "arith.minsi": _minimum,
    "arith.andi": _and,
    "arith.ori": _or,
    "arith.remsi": _remainder,
    "arith.divsi": _quotient,
    "arith.extsi": lambda a: a,
    "arith.trunci": lambda a: a,
    "arith.index_cast": lambda a: a,
    "arith.extui": lambda a: a,
}

_ON_BOOLEANS = ("arith.andi", "arith.ori", "arith.extui")
"""Operations whose rules hold for booleans. Others would treat true as -1."""
