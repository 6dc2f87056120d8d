"""Pattern of attention's forward: a product, the softmax of its rows, and a second product.

``result[b, m, v] = sum_n weight(softmax_n(score(sum_d Q[b, m, d] * K[b, n, d]))) * V[b, n, v]``,
where ``score`` and ``weight`` are elementwise: scale, masks, dropout, casts. All accesses are
affine functions of the axes of ``score_expressions``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Node, Operand, Statement
from ftm_backend.midend.lowering.gemm.epilogue import Epilogue, build_epilogue
from ftm_backend.midend.schedule.attention.score_expressions import (
    Loops,
    NotAttention,
    ScoreAxes,
    ScoreExpressions,
    only,
)
from ftm_backend.midend.schedule.gemm.contraction import Contraction, match
from ftm_backend.midend.transforms.tensor.align_loops import align_all

__all__ = ["AttentionPattern", "LastOutput", "has_constant_loops", "match_attention"]


@dataclass(frozen=True, eq=False)
class AttentionPattern(ScoreAxes):
    """The matched computation.

    Attributes:
        q: Element of Q as the matrix unit reads it; likewise ``k`` and ``v``.
        product: Placeholder of the element of Q K', of type ``accumulator``.
        score: The softmax's input.
        exponential: ``exp(score - maximum of its row)``.
        weight: The element that is multiplied by V, in terms of ``exponential`` and not yet divided
            by the sum of its row.
        empty: Placeholder of the condition that all scores of a row are -inf.
        given: Whether ``weight`` defines the weights of such a row.
        accumulator: Element type of the products.
        epilogue: Epilogue of the second product.
        access: Maps the epilogue's indices to the axes.
    """

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


def match_attention(statements: Sequence[Statement]) -> AttentionPattern | None:
    """Match the forward of attention.

    Args:
        statements: All statements; only the last product and its epilogue have results.

    Returns:
        The pattern, or None. None also if an extent is 0 or symbolic.
    """
    products = [s for s in statements if match(s) is not None]
    if len(products) != 2 or not has_constant_loops(statements):
        return None
    first = statements.index(products[1])
    try:
        return _read(statements[:first], products[0], statements[first:])
    except NotAttention:
        return None


def has_constant_loops(statements: Sequence[Statement]) -> bool:
    """Whether no loop is empty or has a symbolic extent."""
    return all(type(n) is int and n for s in statements for n in s.loops)


def _read(
    before: Sequence[Statement], scores: Statement, after: Sequence[Statement]
) -> AttentionPattern:
    elements = ScoreExpressions(before, {scores: -2})
    elements.find_axes()
    output = LastOutput(elements, after)
    p, m, n = output.score_operand(), elements.n - 1, elements.n
    if output.summed != n:
        raise NotAttention
    output.set_free_axis(-1)
    row = elements.find_softmax(p)
    numerator, total = row.operands
    score, _ = numerator.operands[0].operands
    acc_dtype = output.values.accumulator
    if scores not in elements.products or {score.dtype, total.dtype} != {acc_dtype}:
        raise NotAttention
    empty = elements.intern("empty", "i1", ())
    given: list[Node] = []
    made = elements.without_division(p, row, empty, score, given)
    v, (q, k) = output.other_operand(), elements.product_operands[scores]
    for node, without in ((q, n), (k, m), (v, m)):
        elements.check_free(node, without)
    return AttentionPattern(
        elements.extents,
        q,
        k,
        v,
        elements.products[scores],
        score,
        numerator,
        made,
        empty,
        bool(given),
        acc_dtype,
        output.epilogue(),
        output.access,
    )


class LastOutput:
    """A product with one operand per score (P or its gradient), and its epilogue.

    Attributes:
        values: The product.
        summed: The axis that it sums along.
    """

    def __init__(self, elements: ScoreExpressions, statements: Sequence[Statement]) -> None:
        """Match the product and the axes of its loops.

        Raises:
            NotAttention: The statements have another structure.
        """
        self.elements = elements
        try:
            self.statements = align_all(statements)
        except ValueError as error:
            raise NotAttention from error
        values = match(self.statements[0])
        if values is None or not values.starts_at_zero:
            raise NotAttention
        self.values: Contraction = values
        sides = (values.a, values.b)
        self._p = only(operand for operand in sides if self._is_per_score(operand))
        self._other: Operand = values.b if self._p is values.a else values.a
        extents = values.statement.loops
        long = [k for k, extent in enumerate(extents) if extent != 1]
        self._free = only(k for k in long if self._is_free(k))
        reduced = only(k for k in long if values.statement.reduced[k])
        index_of_axes = elements.score_index(self._p.value)
        self._loops: Loops = elements.loops(extents, self._p.index, index_of_axes, {self._free: ()})
        self.summed = only(self._loops[reduced])

    def _is_free(self, loop: int) -> bool:
        """Whether only the other operand and the result use a loop."""
        is_of_result = self.values.group_of(loop) in ("m", "n")
        return is_of_result and not self._p.index.coeffs[loop]

    def _is_per_score(self, operand: Operand) -> bool:
        """Whether an operand is computed, with one element per score."""
        is_inside = operand.value.producer in self.elements.inside
        return is_inside and self.elements.is_score(operand.value)

    def score_operand(self) -> Node:
        """Return the operand per score as an expression."""
        return self.elements.element(self._p.value, self.access(self._p.index))

    def set_free_axis(self, axis: int) -> None:
        """Set which axis the other operand adds to the result: -2 for d, -1 for v.

        Raises:
            NotAttention: The axis has another extent elsewhere.
        """
        elements, extent = self.elements, self.values.statement.loops[self._free]
        if elements.extents[axis] not in (0, extent):
            raise NotAttention
        extents = list(elements.extents)
        extents[axis] = extent
        elements.extents = tuple(extents)
        self._loops[self._free] = (elements.rank + axis,)

    def other_operand(self) -> Node:
        """Return the other operand as an expression."""
        return self.elements.element(self._other.value, self.access(self._other.index))

    def epilogue(self) -> Epilogue:
        """Return the epilogue, which may not read values that the fused kernel does not store."""
        epilogue = build_epilogue(self.values, self.statements[1:])
        if any(o.value.producer in self.elements.inside for o in epilogue.operands):
            raise NotAttention
        return epilogue

    def access(self, index: Affine) -> Affine:
        """Map an index over the product's loops to the axes."""
        return self.elements.over(index, self._loops)
