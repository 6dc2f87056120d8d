"""The matrices of Winograd's algorithm F(m, 3), and products with them as scalar nodes.

They follow from the points 0, +-1 and infinity for two results, and 0, +-3/4, +-3/2 and infinity
for four. With 0, +-1, +-2 the error of F(4 x 4, 3 x 3) is twice as large.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod

from ftm_backend.ir.linalg.function import Node

__all__ = ["WINDOW", "Matrix", "combinations", "transform_matrices", "weight_matrix"]

WINDOW = 3
"""Rows and columns of a window."""

_POINTS = {2: (Fraction(1),), 4: (Fraction(3, 4), Fraction(3, 2))}
"""Results in one dimension of a tile -> the positive points; each also occurs negated."""

Matrix = tuple[tuple[Fraction, ...], ...]


@cache
def transform_matrices(results: int) -> tuple[Matrix, Matrix, Matrix]:
    """Return A^T, G and B^T of F(results, 3), by the Cook-Toom construction.

    Args:
        results: 2 or 4.

    Returns:
        Matrices such that ``A^T @ ((G @ w) * (B^T @ x))`` are the ``results`` sums of products of
        3 weights and their windows in ``x``.
    """
    points = [Fraction(0), *(sign * p for p in _POINTS[results] for sign in (1, -1))]
    output, weight, data = [], [], []
    for power in range(results):
        output.append((*(p**power for p in points), Fraction(power == results - 1)))
    for point in points:
        others = [p for p in points if p != point]
        scale = prod(point - p for p in others)
        weight.append(tuple(point**power / scale for power in range(WINDOW)))
        data.append((*_polynomial(others), Fraction(0)))
    weight.append((*(Fraction(0),) * (WINDOW - 1), Fraction(1)))
    data.append(tuple(_polynomial(points)))
    return tuple(output), tuple(weight), tuple(data)


def weight_matrix(results: int) -> list[float]:
    """Return the transform of 3x3 weights, [position, row, column]: ``(G w G^T)[p]`` is linear."""
    _, rows, _ = transform_matrices(results)
    return [float(a * b) for y, x in product(rows, repeat=2) for a, b in product(y, x)]


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """Return the coefficients of the polynomial with these roots, lowest power first."""
    zero, result = Fraction(0), [Fraction(1)]
    for root in roots:
        result = [
            low - root * high for low, high in zip([zero, *result], [*result, zero], strict=True)
        ]
    return result


def combinations(matrix: Matrix, terms: Sequence[Node]) -> list[Node]:
    """Return the matrix times a vector of nodes.

    Rows of B^T and A for a point and its negative differ in some signs only, so they share two
    sums. Columns of A^T do, too.
    """
    points = max(len(matrix), len(terms))
    inner = range(1, points - 1, 2)  # first of each pair: point 0 is before, infinity behind
    if len(matrix) == points:
        first, last = (_combination(list(zip(matrix[k], terms, strict=True))) for k in (0, -1))
        return [
            first,
            *(node for k in inner for node in _pair(matrix[k], matrix[k + 1], terms)),
            last,
        ]
    shared = {k: (_sum(*terms[k : k + 2]), _difference(*terms[k : k + 2])) for k in inner}
    return [
        _combination(
            [
                (row[0], terms[0]),
                *((row[k], shared[k][row[k] != row[k + 1]]) for k in inner),
                (row[-1], terms[-1]),
            ]
        )
        for row in matrix
    ]


def _pair(
    row: Sequence[Fraction], negative: Sequence[Fraction], terms: Sequence[Node]
) -> tuple[Node, Node]:
    """Return two rows, which differ in some signs only, times a vector of nodes."""
    numbers = list(zip(row, negative, terms, strict=True))
    common = _combination([(a, term) for a, b, term in numbers if a == b])
    rest = _combination([(a, term) for a, b, term in numbers if a != b])
    return _sum(common, rest), _difference(common, rest)


def _combination(terms: Sequence[tuple[Fraction, Node]]) -> Node:
    """Return a sum of multiples; terms with a factor of 1 come first."""
    used = sorted(
        ((factor, node) for factor, node in terms if factor), key=lambda term: abs(term[0]) != 1
    )
    total: Node | None = None
    for factor, node in used:
        if total is not None and factor == -1:
            total = _difference(total, node)
            continue
        if factor != 1:
            number = Node("constant", node.dtype, payload=float(factor))
            node = Node("arith.mulf", node.dtype, (node, number))
        total = node if total is None else _sum(total, node)
    assert total is not None, "a row of a transform is not zero"
    return total


def _sum(a: Node, b: Node) -> Node:
    return Node("arith.addf", a.dtype, (a, b))


def _difference(a: Node, b: Node) -> Node:
    return Node("arith.subf", a.dtype, (a, b))
