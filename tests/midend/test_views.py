"""Views, updates and copies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ftm_backend.ir.linalg.strided_view import Strided, compose
from midend.harness import check, stages
from midend.linalg_text import Function

RNG = np.random.default_rng(3)
DOUBLE = "%r = arith.addf %a, %a : f32\n linalg.yield %r : f32"


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _elements(view: Strided, base: np.ndarray) -> np.ndarray:
    index = np.full(view.sizes, view.offset)
    for k, step in enumerate(view.strides):
        index = (
            index
            + np.arange(view.sizes[k]).reshape(
                [-1 if d == k else 1 for d in range(len(view.sizes))]
            )
            * step
        )
    return base[index]


VIEWS = [
    Strided((24,), (1,), 0),
    Strided((4, 6), (6, 1), 0),
    Strided((6, 4), (1, 6), 0),
    Strided((3, 2), (6, 2), 5),
    Strided((2, 3, 4), (12, 4, 1), 0),
    Strided((4, 3, 2), (1, 4, 12), 0),
    Strided((5,), (4,), 3),
    Strided((4, 4), (0, 3), 2),
    Strided((6,), (-3,), 20),
    Strided((1, 4, 1), (9, 2, 5), 7),
    Strided((), (), 13),
]


@pytest.mark.parametrize("inner,outer", list(itertools.product(VIEWS, VIEWS)))
def test_composition_reads_the_same_elements(inner, outer):
    base = np.arange(24)
    seen = _elements(inner, base).reshape(-1)
    largest = outer.offset + sum(
        (n - 1) * s for n, s in zip(outer.sizes, outer.strides, strict=True) if s > 0
    )
    if largest >= seen.size:
        pytest.skip("the outer view does not fit into the inner one")
    composed = compose(outer, inner)
    if composed is not None:
        np.testing.assert_array_equal(_elements(composed, base), _elements(outer, seen))
    else:
        assert not inner.is_dense


def test_slices_reshapes_and_transposes_cost_no_kernel():
    f = Function()
    a = f.argument("8x12xf32")
    t = f.view(a, "12x8xf32", 0, [1, 12])
    s = f.view(t, "3x8xf32", 16, [16, 1])
    r = f.view(s, "2x3x4xf32", 0, [4, 8, 1])
    text = f.text(f.map("2x3x4xf32", [(r, "i, j, k")], DOUBLE))
    assert stages(text)["fuse-ops"].count('"ftm.kernel"') == 1
    check(text, [normal(8, 12)])


def test_a_reshape_across_transposed_dimensions_copies_once():
    f = Function()
    a = f.argument("3x4x5xf32")
    t = f.view(a, "3x5x4xf32", 0, [20, 1, 5])
    r = f.view(t, "3x20xf32", 0, [20, 1])
    text = f.text(
        f.map("3x20xf32", [(r, "i, j")], DOUBLE), f.map("20x3xf32", [(r, "j, i")], DOUBLE)
    )
    check(text, [normal(3, 4, 5)])


def test_tensor_operations_become_views_and_updates():
    text = """
func.func @main(%a: tensor<11x4xf32>, %b: tensor<6xf32>) -> (tensor<3x6xf32>, tensor<2x4xf32>, tensor<4x3x2xf32>, tensor<6xf32>, tensor<3x2xf32>) {
  %x = tensor.extract_slice %a[1, 0] [2, 4] [3, 1] : tensor<11x4xf32> to tensor<2x4xf32>
  %c = arith.constant 7.0 : f32
  %p = tensor.pad %x low[1, 0] high[0, 2] { ^bb0(%i: index, %j: index): tensor.yield %c : f32 } : tensor<2x4xf32> to tensor<3x6xf32>
  %e = tensor.empty() : tensor<4x2xf32>
  %t = linalg.transpose ins(%x : tensor<2x4xf32>) outs(%e : tensor<4x2xf32>) permutation = [1, 0]
  %f = tensor.empty() : tensor<4x3x2xf32>
  %u = linalg.broadcast ins(%t : tensor<4x2xf32>) outs(%f : tensor<4x3x2xf32>) dimensions = [1]
  %row = tensor.extract_slice %a[5, 1] [1, 2] [1, 2] : tensor<11x4xf32> to tensor<2xf32>
  %v = tensor.insert_slice %row into %b[1] [2] [3] : tensor<2xf32> into tensor<6xf32>
  %w = tensor.expand_shape %b [[0, 1]] output_shape [3, 2] : tensor<6xf32> into tensor<3x2xf32>
  return %p, %x, %u, %v, %w : tensor<3x6xf32>, tensor<2x4xf32>, tensor<4x3x2xf32>, tensor<6xf32>, tensor<3x2xf32>
}"""
    check(text, [normal(11, 4), normal(6)])


def test_update_into_zeros_and_chained_updates():
    f = Function()
    a, b = f.argument("3x4xf32"), f.argument("3x2xf32")
    zero = f.constant("0.0", "f32")
    base = f.fill(zero, "3x7xf32")
    first = f.update(base, a, 0, [7, 1])
    second = f.update(first, f.map("3x2xf32", [(b, "i, j")], DOUBLE), 5, [7, 1])
    check(
        f.text(second, f.map("3x7xf32", [(second, "i, j")], DOUBLE)), [normal(3, 4), normal(3, 2)]
    )


def test_update_of_an_argument_leaves_the_argument_alone():
    f = Function()
    a, b = f.argument("4x5xf32"), f.argument("4xf32")
    updated = f.update(a, b, 2, [5])
    check(f.text(updated, f.map("4x5xf32", [(a, "i, j")], DOUBLE)), [normal(4, 5), normal(4)])


def test_update_while_the_old_value_is_read_later():
    f = Function()
    a, b = f.argument("4x5xf32"), f.argument("4xf32")
    old = f.map("4x5xf32", [(a, "i, j")], DOUBLE)
    updated = f.update(old, b, 2, [5])
    after = f.map(
        "4x5xf32",
        [(old, "i, j"), (updated, "i, j")],
        "%r = arith.subf %a, %b : f32\n linalg.yield %r : f32",
    )
    check(f.text(after), [normal(4, 5), normal(4)])


def test_results_without_a_producer_are_copied():
    f = Function()
    a = f.argument("4x5xf32")
    k = f.constant("dense<[1, 2, 3]>", "tensor<3xi64>")
    zero = f.constant("2.5", "f32")
    full = f.fill(zero, "6xf32")
    d = f.map("4x5xf32", [(a, "i, j")], DOUBLE)
    check(
        f.text(
            a, a, k, full, full, d, f.view(d, "20xf32", 0, [1]), f.view(d, "2x5xf32", 5, [10, 1])
        ),
        [normal(4, 5)],
    )


def test_overlapping_windows_are_read_in_place():
    f = Function()
    a = f.argument("10xf32")
    check(
        f.text(f.map("4x4xf32", [(f.view(a, "4x4xf32", 0, [2, 1]), "i, j")], DOUBLE)), [normal(10)]
    )


def test_views_of_splats():
    f = Function()
    a, b = f.argument("5x4xf32"), f.argument("1x4xf32")
    one = f.fill(f.constant("3.0", "f32"), "f32")
    column = f.view(one, "5x1xf32", 0, [0, 1])
    total = f.generic(
        "i j k",
        [(column, "i, k"), (b, "k, j")],
        (f.fill(f.constant("0.0", "f32"), "5x4xf32"), "i, j"),
        "%p = arith.mulf %a, %b : f32\n %r = arith.addf %x, %p : f32\n linalg.yield %r : f32",
        "k",
    )
    check(
        f.text(
            f.map(
                "5x4xf32",
                [(total, "i, j"), (a, "i, j")],
                "%r = arith.addf %a, %b : f32\n linalg.yield %r : f32",
            ),
            column,
        ),
        [normal(5, 4), normal(1, 4)],
    )
