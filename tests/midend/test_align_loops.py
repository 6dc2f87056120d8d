"""Alignment of loops: rewritten statements read and write the same elements."""

from __future__ import annotations

import itertools

import pytest

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, Store, Value
from ftm_backend.midend.transforms.tensor.align_loops import align_all

M, N, K = 6, 20, 9


def elementwise(
    source: Value, loops: tuple[int, ...], index: Affine, stores: list[Store]
) -> Statement:
    """``f(source)`` over ``loops``, which read it at ``index`` and write a result of the same
    order."""
    operand = Operand(source, index)
    strides = [1]
    for extent in reversed(loops[1:]):
        strides.insert(0, strides[0] * extent)
    value = Value("f32", loops)
    result = FunctionResult(
        value, Affine(0, tuple(strides)), (), Node("in", "f32", payload=operand), stores=stores
    )
    value.producer = Statement("linalg.generic", loops, (False,) * len(loops), [operand], [result])
    return value.producer


def product() -> Statement:
    """``c[m, n] = sum_k a[m, k] * b[k, n]``."""
    a, b = (
        Operand(Value("f32", (M, K)), Affine(0, (K, 0, 1))),
        Operand(Value("f32", (K, N)), Affine(0, (0, 1, N))),
    )
    value = Value("f32", (M, N))
    body = Node("arith.mulf", "f32", tuple(Node("in", "f32", payload=o) for o in (a, b)))
    result = FunctionResult(
        value, Affine(0, (N, 1, 0)), (), body, "sum", Node("constant", "f32", payload=0.0)
    )
    value.producer = Statement("linalg.generic", (M, N, K), (False, False, True), [a, b], [result])
    return value.producer


def accesses(statement: Statement) -> set[tuple[int, ...]]:
    """For every point the elements that it reads, writes and stores, the order of the points
    aside."""
    result = statement.results[0]
    indices = [
        *(o.index for o in statement.operands),
        result.index,
        *(s.index for s in result.stores),
    ]
    return {
        tuple(index.at(point) for index in indices)
        for point in itertools.product(*map(range, statement.loops))
    }


def test_a_store_that_holds_loops_apart_cuts_all_statements():
    """The second statement alone could keep the product's loops; the third, stored into a padded
    tensor, cannot."""
    head = product()
    made = head.results[0].value
    flat = elementwise(made, (M, N), Affine(0, (N, 1)), [])
    padded = elementwise(
        made,
        (M, 5, 2, 2),
        Affine(0, (N, 4, 2, 1)),
        [Store(Value("f32", (M * 45,)), Affine(0, (45, 9, 6, 2)))],
    )
    for order in ([head, flat, padded], [head, padded, flat]):
        before = [accesses(s) for s in order]
        aligned = align_all(order)
        assert [accesses(s) for s in aligned] == before
        cut, *others = aligned
        assert cut.loops == (M, 5, 2, 2, K)
        assert all(s.loops == (M, 5, 2, 2) for s in others)


def test_loops_that_no_cut_joins_are_an_error():
    head = product()
    strided = elementwise(head.results[0].value, (M, 3), Affine(0, (N, 7)), [])
    with pytest.raises(ValueError, match="do not fit their contraction"):
        align_all([head, strided])
