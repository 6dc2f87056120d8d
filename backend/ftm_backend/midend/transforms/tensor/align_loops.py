"""Rewrite statements over other loops, some split and some merged.

Example: ``(x @ w).view(16, 64, 512).relu()`` with a product of shape ``[1024, 512]``. The loop over
1024 rows of the product is split into 16 and 64, or those of ReLU are merged, so that both can be
one kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

from ftm_backend.ir.linalg.affine import Affine, digits, row_major
from ftm_backend.ir.linalg.body_builder import substitute
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, Store
from ftm_backend.symbolic import guarded_equal, may_exceed_one

Piece = tuple[int, int]
"""Number of a loop, and of a piece that it is split into (outer first)."""


class _Mismatch(Exception):
    """Loops cannot be merged: an access does not step evenly through them."""


def aligned(chain: Sequence[Statement], statement: Statement) -> list[Statement] | None:
    """Return a chain and the statement after it over the same loops.

    Args:
        chain: A contraction and its epilogue, aligned already.
        statement: Reads the result of a statement of the chain, whole.

    Returns:
        The new chain, ``statement`` last; None if their loops cannot be aligned.
    """
    for operand in statement.operands:
        for producer in chain:
            for result in producer.results:
                if result.value is operand.value:
                    return _align(list(chain), producer, result.index, statement, operand.index)
    return None


def align_all(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements of a contraction kernel over the same loops, as fusion aligned them.

    Fusion does not know the stores. A store may separate loops that all other accesses merge, such
    as an update into a padded tensor. Then the contraction is split first, as that statement needs
    it.

    Raises:
        ValueError: No split serves all statements.
    """
    product, *others = statements
    for chain in itertools.chain(
        [[product]], (_cut_like(product, statement) for statement in others)
    ):
        for statement in others:
            chain = aligned(chain, statement) if chain else None
        if chain:
            return chain
    loops = ", ".join(str(statement.loops) for statement in others)
    raise ValueError(f"statements over {loops} do not fit their contraction over {product.loops}")


def _cut_like(product: Statement, statement: Statement) -> list[Statement] | None:
    """Return the contraction alone, with loops split at least as finely as the statement's."""
    target = digits(product.loops, product.results[0].index)
    for operand in statement.operands:
        source = digits(statement.loops, operand.index)
        if target is None or source is None:
            continue
        cuts = _common([product.loops[k] for k in target], [statement.loops[k] for k in source])
        if cuts is not None:
            splits: list[list[int]] = [[n] for n in product.loops]
            for k, pieces in zip(target, cuts[0], strict=True):
                splits[k] = pieces
            return [
                _rewritten(
                    product, splits, [[(k, j)] for k, s in enumerate(splits) for j in range(len(s))]
                )
            ]
    return None


def _align(
    chain: list[Statement], producer: Statement, written: Affine, statement: Statement, read: Affine
) -> list[Statement] | None:
    target, source = digits(producer.loops, written), digits(statement.loops, read)
    if target is None or source is None:
        return None
    cuts = _common([producer.loops[k] for k in target], [statement.loops[k] for k in source])
    if cuts is None:
        return None
    ours, theirs = cuts
    joined = _over_extents(chain, statement, source, theirs, [producer.loops[k] for k in target])
    if joined is not None:
        return joined
    try:
        if len(chain) > 1 or all(len(pieces) == 1 for pieces in ours):
            return None
        splits: list[list[int]] = [[n] for n in producer.loops]
        for k, pieces in zip(target, ours, strict=True):
            splits[k] = pieces
        chain[0] = _rewritten(
            producer, splits, [[(k, j)] for k, s in enumerate(splits) for j in range(len(s))]
        )
        return _over_extents(
            chain, statement, source, theirs, [n for pieces in ours for n in pieces]
        )
    except _Mismatch:
        return None


def _over_extents(
    chain: Sequence[Statement],
    statement: Statement,
    source: Sequence[int],
    pieces: Sequence[Sequence[int]],
    extents: Sequence[int],
) -> list[Statement] | None:
    """Return the chain and ``statement`` over loops of ``extents``; None if they do not fit."""
    splits: list[list[int]] = [[n] for n in statement.loops]
    for k, cut in zip(source, pieces, strict=True):
        splits[k] = list(cut)
    queue = [(k, j) for k in source for j in range(len(splits[k]))]
    groups: list[list[Piece]] = []
    for extent in extents:
        group: list[Piece] = []
        while may_exceed_one(extent):
            k, j = queue.pop(0)
            group.append((k, j))
            extent //= splits[k][j]
        groups.append(group)
    inside = {piece for group in groups for piece in group}
    rest = [[(k, j)] for k, s in enumerate(splits) for j in range(len(s)) if (k, j) not in inside]
    try:
        return [*chain, _rewritten(statement, splits, [*groups, *rest])]
    except _Mismatch:
        return None


def _common(
    first: Sequence[int], second: Sequence[int]
) -> tuple[list[list[int]], list[list[int]]] | None:
    """Split two factorizations of one number into the same sequence of factors."""
    left, right = [list(first), list(second)]
    ours: list[list[int]] = [[] for _ in left]
    theirs: list[list[int]] = [[] for _ in right]
    i, j = len(left) - 1, len(right) - 1
    while i >= 0 and j >= 0:
        a, b = left[i], right[j]
        step = min(a, b)
        if max(a, b) % step:
            return None
        ours[i].insert(0, step)
        theirs[j].insert(0, step)
        left[i] //= step
        right[j] //= step
        if left[i] == 1:
            i -= 1
        if right[j] == 1:
            j -= 1
    if i >= 0 or j >= 0:
        return None
    return ours, theirs


def _rewritten(
    statement: Statement, splits: Sequence[Sequence[int]], groups: Sequence[Sequence[Piece]]
) -> Statement:
    """Return ``statement`` over other loops.

    Args:
        statement: The statement.
        splits: For each loop the extents that it is split into, outer first.
        groups: The pieces that form each new loop.

    Raises:
        _Mismatch: An access does not step evenly through a group.
    """
    if [list(g) for g in groups] == [[(k, 0)] for k in range(len(splits))]:
        return statement
    over = _PieceAccess(splits, groups)
    extents = tuple(prod(splits[k][j] for k, j in group) for group in groups)
    reduced = tuple(bool(group) and statement.reduced[group[0][0]] for group in groups)
    operands = {id(o): Operand(o.value, over(o.index)) for o in statement.operands}

    def access(node: Node) -> Node | None:
        if node.op == "index":
            return Node("index", node.dtype, payload=over(node.payload))
        if node.op != "in":
            return None
        read = node.payload
        new = operands.get(id(read)) or Operand(read.value, over(read.index))
        return Node("in", node.dtype, payload=new)

    made = substitute((r.yields for r in statement.results), access)
    results = []
    for r in statement.results:
        init = Operand(r.init.value, over(r.init.index)) if isinstance(r.init, Operand) else r.init
        stores = [Store(s.target, over(s.index)) for s in r.stores]
        results.append(
            FunctionResult(r.value, over(r.index), (), made[r.yields], r.combine, init, stores)
        )
    return Statement(
        statement.op,
        extents,
        reduced,
        list(operands.values()),
        results,
        statement.gathers,
        statement.attributes,
        origins=statement.origins,
    )


class _PieceAccess:
    """Maps an access of loops to one of groups of their pieces."""

    def __init__(self, splits: Sequence[Sequence[int]], groups: Sequence[Sequence[Piece]]) -> None:
        self._splits, self._groups = splits, groups
        self._inner = [row_major(pieces) for pieces in splits]

    def __call__(self, index: Affine) -> Affine:
        """Return the access.

        Raises:
            _Mismatch: It does not step evenly through a group.
        """
        coeffs = []
        for group in self._groups:
            steps = [(index.coeffs[k] * self._inner[k][j], self._splits[k][j]) for k, j in group]
            for (outer, _), (step, extent) in itertools.pairwise(steps):
                if not guarded_equal(outer, step * extent):
                    raise _Mismatch
            coeffs.append(steps[-1][0] if steps else 0)
        return Affine(index.const, tuple(coeffs))
