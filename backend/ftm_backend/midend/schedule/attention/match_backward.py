"""Pattern of attention's backward: five products around a softmax, matched as one computation.

With ``P = softmax_n(score(S))``, ``S = Q K'``, ``W = weight(P)`` and ``T = G V'``, where G is the
gradient of the result ``W V``, the gradients for each entry of the batch are::

    dV[n, v] = sum_m W[m, n] * G[m, v]
    D[m, n]  = slope(P * (part(T) - sum_n(part(T) * P)))
    dQ[m, d] = sum_n D[m, n] * K[n, d]
    dK[n, d] = sum_m D[m, n] * Q[m, d]

``score``, ``weight``, ``part`` and ``slope`` are elementwise (scales, masks, dropout, casts), the
last one linear. This is how autograd writes the backward of attention. All accesses are affine
functions of the axes of ``score_expressions``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.body_builder import constant
from ftm_backend.ir.linalg.function import Node, Statement, Value, walk
from ftm_backend.midend.lowering.gemm.epilogue import Epilogue
from ftm_backend.midend.schedule.attention.match_forward import LastOutput, has_constant_loops
from ftm_backend.midend.schedule.attention.score_expressions import (
    OEQ,
    REDUCTIONS,
    NotAttention,
    ScoreAxes,
    ScoreExpressions,
    only,
    substitute,
)
from ftm_backend.midend.schedule.gemm.contraction import match

__all__ = ["AttentionBackwardPattern", "OperandGradient", "match_attention_backward"]


@dataclass(frozen=True, eq=False)
class OperandGradient:
    """Epilogue of one of the three gradients; ``access`` maps its indices to the axes."""

    epilogue: Epilogue
    access: Callable[[Affine], Affine]

    def stored_by_columns(self, outer: int, inner: int) -> bool:
        """Whether what is stored is contiguous along axis ``outer``, not along ``inner``."""
        indices = [self.access(s.index) for o in self.epilogue.outputs for s in o.stores]
        return bool(indices) and all(x.coeffs[outer] == 1 != x.coeffs[inner] for x in indices)


@dataclass(frozen=True, eq=False)
class AttentionBackwardPattern(ScoreAxes):
    """The matched computation.

    Attributes:
        q: Element of Q as the matrix unit reads it; likewise ``k``, ``v`` and ``grad`` (G).
        scores: Placeholder of S, of type ``accumulator``.
        products: Placeholder of T, of type ``accumulator``.
        score: The softmax's input.
        exponential: ``exp(score - maximum)``.
        along: Summand of the row's dot ``sum_n(part(T) * P)``, before division by the softmax's
            sum.
        empty: Placeholder of the condition that all scores of a row are -inf.
        given: Whether the program defines P for such a row.
        weight: W, in terms of ``known``.
        slope: D, in terms of ``known``.
        known: Placeholders of a row's statistics: its maximum, the inverse of its sum, and its dot.
        accumulator: Element type of the products.
        of_q: Epilogue of dQ; likewise ``of_k`` and ``of_v``.
    """

    q: Node
    k: Node
    v: Node
    grad: Node
    scores: Node
    products: Node
    score: Node
    exponential: Node
    along: Node
    empty: Node
    given: bool
    weight: Node
    slope: Node
    known: tuple[Node, Node, Node]
    accumulator: str
    of_q: OperandGradient
    of_k: OperandGradient
    of_v: OperandGradient


def match_attention_backward(statements: Sequence[Statement]) -> AttentionBackwardPattern | None:
    """Match the backward of attention.

    Args:
        statements: All statements; only the last three products and their epilogues have results.

    Returns:
        The pattern, or None. None also if an extent is 0 or symbolic.
    """
    products = [s for s in statements if match(s) is not None]
    if len(products) != 5 or not has_constant_loops(statements):
        return None
    try:
        after = _after(statements, products)
    except NotAttention:
        return None
    outside: set[Statement] = set().union(*after)
    inside = [s for s in statements if s not in outside]
    inner = [s for s in products if s not in outside]
    if len(inner) != 2:
        return None
    for scores, other in (inner, inner[::-1]):
        try:
            return _read(inside, scores, other, after)
        except NotAttention:
            continue
    return None


def _after(statements: Sequence[Statement], products: Sequence[Statement]) -> list[list[Statement]]:
    """Return the products that no other product depends on, each followed by its epilogue."""
    chains = []
    for product in products:
        chain = _readers(product, statements[statements.index(product) + 1 :])
        if not any(s in products for s in chain[1:]):
            chains.append(chain)
    if len({s for chain in chains for s in chain}) != sum(map(len, chains)):
        raise NotAttention
    return chains


def _readers(product: Statement, following: Sequence[Statement]) -> list[Statement]:
    """Return a product and the statements that depend on it."""
    values: set[Value] = {r.value for r in product.results}
    chain = [product]
    for statement in following:
        if not values.isdisjoint(statement.reads()):
            chain.append(statement)
            values.update(r.value for r in statement.results)
    return chain


def _read(
    inside: Sequence[Statement],
    scores: Statement,
    other: Statement,
    after: Sequence[Sequence[Statement]],
) -> AttentionBackwardPattern:
    elements = ScoreExpressions(inside, {scores: -2, other: -1})
    elements.find_axes()
    m, n = elements.n - 1, elements.n
    outputs = [LastOutput(elements, chain) for chain in after]
    inner = {id(each): each.score_operand() for each in outputs}
    if set(elements.products) != {scores, other}:
        raise NotAttention
    product = elements.products[other]

    def output(axis: int, slopes: bool) -> LastOutput:
        along = (x for x in outputs if x.summed == axis)
        return only(x for x in along if (product in walk([inner[id(x)]])) == slopes)

    of_q, of_k, of_v = output(n, True), output(m, True), output(m, False)
    for gradient, axis in ((of_q, -2), (of_k, -2), (of_v, -1)):
        gradient.set_free_axis(axis)
    (q, k), (grad, v) = elements.product_operands[scores], elements.product_operands[other]
    _check_operands(((of_q, k), (of_k, q), (of_v, grad)))
    for node, without in ((q, n), (k, m), (v, m), (grad, n)):
        elements.check_free(node, without)
    weight, slope = inner[id(of_v)], inner[id(of_q)]
    if slope is not inner[id(of_k)]:
        raise NotAttention
    row = elements.find_softmax(weight)
    exponential, total = row.operands
    score, largest = exponential.operands[0].operands
    acc_dtype = of_q.values.accumulator
    dtypes = {score.dtype, total.dtype, elements.products[scores].dtype, product.dtype}
    if dtypes != {acc_dtype} or product in walk([row]):
        raise NotAttention
    dot, p, part = _dot(elements, slope, row)
    empty = elements.intern("empty", "i1", ())
    given: list[Node] = []
    raw = elements.without_division(p, row, empty, score, given)
    if part.dtype != acc_dtype or any(x.op in REDUCTIONS for x in walk([part])):
        raise NotAttention
    along = elements.intern("arith.mulf", acc_dtype, (part, raw))
    known = largest, Node("inverse", acc_dtype), dot
    substituted = _with_statistics((weight, slope), row, known)
    return AttentionBackwardPattern(
        elements.extents,
        q,
        k,
        v,
        grad,
        elements.products[scores],
        product,
        score,
        exponential,
        along,
        empty,
        bool(given),
        *substituted,
        known,
        acc_dtype,
        *(OperandGradient(x.epilogue(), x.access) for x in (of_q, of_k, of_v)),
    )


def _check_operands(gradients: Sequence[tuple[LastOutput, Node]]) -> None:
    """Check the operands that gradients multiply by a value per score.

    Raises:
        NotAttention: One is another.
    """
    if any(gradient.other_operand() is not operand for gradient, operand in gradients):
        raise NotAttention


def _with_statistics(
    nodes: tuple[Node, Node], row: Node, known: tuple[Node, Node, Node]
) -> tuple[Node, Node]:
    """Return expressions in terms of a row's statistics instead of its softmax."""
    exponential, (largest, inverse, _) = row.operands[0], known
    dtype = largest.dtype
    made = {id(row): Node("arith.mulf", dtype, (exponential, inverse))}
    for node in walk(nodes):
        if node.op == "and":
            made[id(node)] = Node("arith.cmpf", "i1", (largest, constant(-inf, dtype)), OEQ)
    made |= {id(x): x for x in known}
    return substitute(nodes[0], made), substitute(nodes[1], made)


def _dot(elements: ScoreExpressions, slope: Node, row: Node) -> tuple[Node, Node, Node]:
    """Return the dot in ``slope`` and the two operands of its product: P and part(T)."""
    other = next(x for x in elements.products.values() if x.payload == -1)
    dots = [x for x in walk([slope]) if x.op == "sum" and other in walk([x])]
    if len(dots) != 1 or dots[0].operands[0].op != "arith.mulf":
        raise NotAttention
    p, part = sorted(dots[0].operands[0].operands, key=lambda x: other in walk([x]))
    if row not in walk([p]) or other in walk([p]):
        raise NotAttention
    return dots[0], p, part
