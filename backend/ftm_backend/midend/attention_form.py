"""Attention as one computation: a product, the softmax of its rows, and the product with these.

``result[b, m, v] = sum_n weight(softmax_n(score(sum_d Q[b, m, d] * K[b, n, d]))) * V[b, n, v]``, where ``score`` and ``weight`` are
elementwise: scale, masks, dropout, casts.  All accesses are functions of the *axes*: those of the batch, then m, n, d and v.

Statements are followed from the product with V to what they read: each becomes part of one expression over the axes, in
which equal parts are one node, so that a softmax is recognised whatever statements it is spread over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from ftm_backend.linalg.affine import Affine
from ftm_backend.linalg.ir import Node, Operand, Statement, Value, walk
from ftm_backend.linalg.nodes import operation
from ftm_backend.midend.contraction_epilogue import Epilogue, read_epilogue
from ftm_backend.midend.contraction_form import Contraction, match
from ftm_backend.midend.reloop import align_all

__all__ = ["Attention", "read_attention"]

OEQ = 1
"""The predicate of a comparison of floats for equality."""

_LINEAR = {"arith.mulf": (0, 1), "arith.divf": (0,)}
"""Operations that are linear in these operands, given the other one."""

Loops = dict[int, tuple[int, ...]]
"""For each loop of a statement the axes that it walks, outermost first."""


class _Unfit(Exception):
    """The statements are no attention."""


@dataclass(frozen=True, eq=False)
class Attention:
    """What the lowering needs to know.

    extents: of all axes; the last four are m, n, d and v.  q, k, v: elements of the factors, as the matrix unit takes them.
    product: stands for the element of Q K', of type ``accumulator``; score: what the softmax is taken of.
    exponential, weight: ``exp(score - largest of its row)``, and what is multiplied by V, in terms of it and not yet divided by
    the sum of its row.  empty: stands for whether all scores of a row are -inf; given: whether ``weight`` says what such a row has.
    epilogue: what follows the second product; its indices are over loops that ``access`` knows.
    """

    extents: tuple[int, ...]
    q: Node
    k: Node
    v: Node
    product: Node
    score: Node
    exponential: Node
    weight: Node
    empty: Node
    given: bool
    accumulator: str
    epilogue: Epilogue
    access: Callable[[Affine], Affine]

    @property
    def axes(self) -> tuple[tuple[int, ...], int, int, int, int]:
        """Numbers of the axes: of the batch, m, n, d, v."""
        m = len(self.extents) - 4
        return tuple(range(m)), m, m + 1, m + 2, m + 3


def read_attention(statements: Sequence[Statement]) -> Attention | None:
    """The attention that these statements compute, of which the last product and what follows it have results; None if they
    compute another thing, or there are no elements, or sizes are not numbers."""
    products = [s for s in statements if match(s) is not None]
    if len(products) != 2 or not all(type(n) is int and n for s in statements for n in s.loops):
        return None
    first = statements.index(products[1])
    try:
        return _Reader(statements[:first], products[0], statements[first:]).read()
    except _Unfit:
        return None


class _Reader:
    def __init__(self, before: Sequence[Statement], scores: Statement, after: Sequence[Statement]) -> None:
        self.inside: Collection[Statement] = set(before)
        self.before, self.scores = before, scores
        try:
            self.after = align_all(after)
        except ValueError as error:
            raise _Unfit from error
        self.nodes: dict[tuple[Any, ...], Node] = {}
        self.product: Node | None = None
        self.factors: tuple[Node, Node] | None = None

    def read(self) -> Attention:
        values = match(self.after[0])
        if values is None or not values.starts_at_zero:
            raise _Unfit
        self.extents = self._axes(values)
        self.n = len(self.extents) - 3
        p, other, loops, whole = self._last_product(values)
        weight = whole(p)
        row = self._base(weight)
        numerator, total = row.operands
        score, _ = numerator.operands[0].operands
        if self.product is None or self.factors is None or {score.dtype, total.dtype} != {values.accumulator}:
            raise _Unfit
        empty = self._made("empty", "i1", ())
        given: list[Node] = []
        made = self._weight(weight, row, empty, score, given)
        v = whole(other)
        m, n = self.n - 1, self.n
        for node, without in ((self.factors[0], n), (self.factors[1], m), (v, m)):
            self._check_free(node, without)
        q, k = self.factors
        epilogue = read_epilogue(values, self.after[1:])
        if any(o.value.producer in self.inside for o in epilogue.operands):
            raise _Unfit  # nothing of the softmax is in memory
        return Attention(self.extents, q, k, v, self.product, score, numerator, made, empty, bool(given), values.accumulator,
                         epilogue, lambda index: self._over(index, loops))

    # --- axes -----------------------------------------------------------------------------------------

    def _axes(self, values: Contraction) -> tuple[int, ...]:
        """Extents of the axes: those of the reduction that finds the largest score; that of d is not known yet."""
        found = [s for s in self.before if s.is_reduction and s.results[0].combine == "max" and len(s.operands) == 1]
        if len(found) != 1:
            raise _Unfit
        (largest,) = found
        loops = [k for k, extent in enumerate(largest.loops) if extent != 1]
        reduced = [k for k in loops if largest.reduced[k]]
        if len(reduced) != 1 or len(loops) < 2:
            raise _Unfit
        order = [k for k in loops if k not in reduced] + reduced
        wide = [k for k, extent in enumerate(values.statement.loops) if extent != 1 and values.group_of(k) in ("m", "n")]
        sums = [k for k, extent in enumerate(self.scores.loops) if extent != 1 and self.scores.reduced[k]]
        if len(sums) != 1:
            raise _Unfit
        self.rank = len(order) + 2
        self.wide = wide
        return (*(largest.loops[k] for k in order), self.scores.loops[sums[0]], 0)

    def _last_product(self, values: Contraction) -> tuple[Operand, Operand, Loops, Callable[[Operand], Node]]:
        """P and V among the operands of the last product, its loops, and how an operand is followed."""
        statement = values.statement
        sides = [x for x in (values.a, values.b) if x.value.producer in self.inside and self._is_score(x.value)]
        if len(sides) != 1:
            raise _Unfit
        (p,) = sides
        other = values.b if p is values.a else values.a
        outside = [k for k in self.wide if not p.index.coeffs[k]]
        if len(outside) != 1:
            raise _Unfit
        (v,) = outside
        self.extents = (*self.extents[:-1], statement.loops[v])
        place = self._place_of(p.value)
        loops = self._loops(statement.loops, p.index, place, {v: (self.rank - 1,)})
        (k,) = [k for k, reduced in enumerate(statement.reduced) if reduced and statement.loops[k] != 1] or [-1]
        if k < 0 or loops[k] != (self.n,):
            raise _Unfit
        return p, other, loops, lambda operand: self._element(operand.value, self._over(operand.index, loops))

    def _is_score(self, value: Value) -> bool:
        """Whether a value has an element for each score: the one that is P."""
        return value.dtype != "i1" and _volume(value.shape) == _volume(self.extents[:-2])

    def _place_of(self, value: Value) -> Affine:
        """The elements of a dense tensor of all scores, in the order of the axes."""
        coeffs, step = [0] * self.rank, 1
        for axis in range(self.n, -1, -1):
            coeffs[axis], step = step, step * self.extents[axis]
        return Affine(0, tuple(coeffs))

    def _loops(self, extents: Sequence[int], index: Affine, place: Affine, known: Loops) -> Loops:
        """The axes of each loop of a statement that touches elements ``index`` of a tensor; the axes say ``place``."""
        if index.const != place.const:
            raise _Unfit
        loops = dict(known)
        free = [axis for axis, step in enumerate(place.coeffs) if step and not any(axis in taken for taken in known.values())]
        for loop, extent in enumerate(extents):
            if loop in loops or extent == 1:
                continue
            step, left = index.coeffs[loop], extent
            found: list[int] = []
            while left != 1:
                axis = next((a for a in free if place.coeffs[a] == step and left % self.extents[a] == 0), None)
                if axis is None:
                    raise _Unfit
                free.remove(axis)
                found.insert(0, axis)
                step, left = step * self.extents[axis], left // self.extents[axis]
            loops[loop] = tuple(found)
        if free:
            raise _Unfit
        return loops

    def _over(self, index: Affine, loops: Loops) -> Affine:
        """An index over a statement's loops as a function of the axes."""
        coeffs = [0] * self.rank
        for loop, axes in loops.items():
            step = index.coeffs[loop]
            for axis in reversed(axes):
                coeffs[axis] += step
                step *= self.extents[axis]
        return Affine(index.const, tuple(coeffs))

    # --- elements -------------------------------------------------------------------------------------

    def _made(self, op: str, dtype: str, operands: tuple[Node, ...], payload: Any = None) -> Node:
        """The one node of this kind."""
        shown = (id(payload.value), payload.index) if isinstance(payload, Operand) else payload
        key = (op, dtype, *map(id, operands), repr(shown))
        if key not in self.nodes:
            folded = operation(op, dtype, operands, payload)
            self.nodes[key] = folded if folded.op == op else self._made(folded.op, folded.dtype, folded.operands, folded.payload)
        return self.nodes[key]

    def _element(self, value: Value, place: Affine) -> Node:
        """The element of a value at ``place``."""
        maker = value.producer
        if not isinstance(maker, Statement) or maker not in self.inside:
            return self._made("in", value.dtype, (), Operand(value, place))
        if maker.gathers or maker.op in ("ftm.scatter", "ftm.scan", "ftm.sort"):
            raise _Unfit
        result = next(r for r in maker.results if r.value is value)
        known: Loops = {}
        if maker is self.scores:
            known = {k: (self.rank - 2,) for k, n in enumerate(maker.loops) if maker.reduced[k] and n != 1}
        elif maker.is_reduction:
            known = {k: (self.n,) for k, n in enumerate(maker.loops) if maker.reduced[k] and n == self.extents[self.n]}
            if len(known) != 1 or place.coeffs[self.n]:
                raise _Unfit
        loops = self._loops(maker.loops, result.index, place, known)
        if maker is self.scores:
            return self._scores(loops)
        made: dict[int, Node] = {}
        for node in walk([result.yields]):
            made[id(node)] = self._node(node, tuple(made[id(x)] for x in node.operands), loops)
        element = made[id(result.yields)]
        if not maker.is_reduction:
            return element
        init = result.init
        start = {"max": -inf, "sum": 0, "and": 1}.get(str(result.combine))
        if not isinstance(init, Node) or init.op != "constant" or start is None or init.payload != start:
            raise _Unfit
        return self._made(str(result.combine), element.dtype, (element,))

    def _node(self, node: Node, operands: tuple[Node, ...], loops: Loops) -> Node:
        if node.op == "in":
            return self._element(node.payload.value, self._over(node.payload.index, loops))
        if node.op == "index":
            return self._made("index", node.dtype, (), self._over(node.payload, loops))
        if node.op in ("carry", "gather"):
            raise _Unfit
        return self._made(node.op, node.dtype, operands, node.payload)

    def _scores(self, loops: Loops) -> Node:
        """The element of the first product; notes its factors."""
        contraction = match(self.scores)
        if contraction is None or not contraction.starts_at_zero:
            raise _Unfit
        if self.product is None:
            a, b = (self._element(x.value, self._over(x.index, loops)) for x in (contraction.a, contraction.b))
            self.factors = (b, a) if self._walks(a, self.n) else (a, b)
            self.product = self._made("product", contraction.accumulator, ())
        return self.product

    # --- softmax --------------------------------------------------------------------------------------

    def _base(self, weight: Node) -> Node:
        """The quotient of exponential and sum that ``weight`` is made of."""
        found = [node for node in walk([weight]) if _is_softmax(node)]
        if len(found) != 1:
            raise _Unfit
        return found[0]

    def _weight(self, node: Node, row: Node, empty: Node, score: Node, given: list[Node]) -> Node:
        """``node``, which is linear in the quotient ``row``, with the exponential in its place."""
        if node is row:
            return row.operands[0]
        if node.op in ("arith.truncf", "arith.extf"):
            return self._made(node.op, node.dtype, (self._weight(node.operands[0], row, empty, score, given),))
        if node.op in _LINEAR:
            sides = [k for k in _LINEAR[node.op] if row in walk([node.operands[k]])]
            if len(sides) == 1 and self._plain(node.operands[1 - sides[0]]):
                operands = list(node.operands)
                operands[sides[0]] = self._weight(operands[sides[0]], row, empty, score, given)
                return self._made(node.op, node.dtype, tuple(operands))
        if node.op == "arith.select":
            condition, yes, no = node.operands
            if _all_lowest(condition, score) and self._plain(yes) and not given:
                given.append(yes)
                return self._made(node.op, node.dtype, (empty, yes, self._weight(no, row, empty, score, given)))
            if self._plain(condition) and _is_zero(yes):
                return self._made(node.op, node.dtype, (condition, yes, self._weight(no, row, empty, score, given)))
            if self._plain(condition) and _is_zero(no):
                return self._made(node.op, node.dtype, (condition, self._weight(yes, row, empty, score, given), no))
        raise _Unfit

    def _plain(self, node: Node) -> bool:
        """Whether a node depends on no score."""
        return all(n is not self.product and n.op not in ("max", "sum", "and") for n in walk([node]))

    def _walks(self, node: Node, axis: int) -> bool:
        return any(n.payload.index.coeffs[axis] for n in walk([node]) if n.op == "in")

    def _check_free(self, node: Node, axis: int) -> None:
        """A factor is elementwise, has no part that moves along ``axis`` and is no number alone."""
        nodes = walk([node])
        steps = [n.payload.index if n.op == "in" else n.payload for n in nodes if n.op in ("in", "index")]
        if not self._plain(node) or any(x.coeffs[axis] for x in steps) or not any(n.op == "in" for n in nodes):
            raise _Unfit


def _is_softmax(node: Node) -> bool:
    """``exp(x - max(x)) / sum(exp(x - max(x)))``"""
    if node.op != "arith.divf" or node.operands[1].op != "sum" or node.operands[1].operands[0] is not node.operands[0]:
        return False
    top = node.operands[0]
    if top.op != "math.exp" or top.operands[0].op != "arith.subf":
        return False
    x, largest = top.operands[0].operands
    return largest.op == "max" and largest.operands[0] is x


def _all_lowest(node: Node, score: Node) -> bool:
    """Whether it says that all scores of a row are -inf."""
    if node.op != "and":
        return False
    (test,) = node.operands
    if test.op != "arith.cmpf" or test.payload != OEQ:
        return False
    x, number = test.operands
    same = x is score or (score.op == "arith.extf" and score.operands[0] is x)
    return same and number.op == "constant" and number.payload == -inf


def _is_zero(node: Node) -> bool:
    return node.op == "constant" and node.payload == 0


def _volume(extents: Sequence[int]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total
