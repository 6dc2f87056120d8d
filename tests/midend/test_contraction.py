"""Contractions through midend, emission and emulator, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from midend.contraction_programs import (
    HOST,
    NUMPY,
    OVERLAPPED,
    SMALL,
    assembly,
    einsum,
    product,
    run,
    tensor,
    zeros,
)

CASES = {
    "matmul": ("mk,kn->mn", {"m": 33, "n": 65, "k": 40}),
    "a transposed": ("km,kn->mn", {"m": 33, "n": 65, "k": 40}),
    "b transposed": ("mk,nk->mn", {"m": 33, "n": 65, "k": 40}),
    "all transposed": ("km,nk->nm", {"m": 33, "n": 65, "k": 40}),
    "batch": ("bmk,bkn->bmn", {"b": 5, "m": 17, "n": 18, "k": 9}),
    "attention heads": ("bmhk,bnhk->bhmn", {"b": 2, "h": 3, "m": 17, "n": 18, "k": 9}),
    "weights shared by the batch": ("mk,bkn->bmn", {"b": 5, "m": 17, "n": 18, "k": 9}),
    "several loops in each group": ("acmk,ckn->manc", {"a": 3, "c": 4, "m": 5, "k": 6, "n": 7}),
    "two summed loops": ("abkl,nlk->bna", {"a": 7, "b": 9, "n": 18, "k": 9, "l": 3}),
    "matrix by vector": ("mk,k->m", {"m": 77, "k": 100}),
    "larger matrix by vector": ("mk,k->m", {"m": 101, "k": 200}),
    "vectors by larger matrices": ("bk,bnk->bn", {"b": 5, "n": 70, "k": 65}),
    "vector by matrix": ("k,kn->n", {"n": 77, "k": 100}),
    "batch of vectors": ("bmk,bk->bm", {"b": 3, "m": 9, "k": 5}),
    "one row": ("mk,kn->mn", {"m": 1, "n": 300, "k": 200}),
    "one column": ("mk,kn->mn", {"m": 300, "n": 1, "k": 200}),
    "long sum": ("mk,kn->mn", {"m": 30, "n": 5, "k": 2000}),
    "no rows": ("mk,kn->mn", {"m": 0, "n": 4, "k": 5}),
    "empty sum": ("mk,kn->mn", {"m": 3, "n": 4, "k": 0}),
    "sum of one": ("mk,kn->mn", {"m": 7, "n": 9, "k": 1}),
}
MACHINES = {"host": (HOST, 2), "small": (SMALL, 1), "overlapped": (OVERLAPPED, 3)}


def operands(equation: str, extents: dict[str, int], dtype: str = "f32") -> list[np.ndarray]:
    """Random operands of an einsum."""
    rng = np.random.default_rng(0)
    made = []
    for dims in equation.split("->", maxsplit=1)[0].split(","):
        shape = [extents[d] for d in dims]
        values = rng.standard_normal(shape) if "f" in dtype else rng.integers(-9, 9, shape)
        made.append(values.astype(NUMPY[dtype]))
    return made


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", CASES)
def test_matches_einsum(case: str, machine: str) -> None:
    equation, extents = CASES[case]
    inputs = operands(equation, extents)
    parameters, cores = MACHINES[machine]
    (got,) = run(einsum(equation, extents), inputs, parameters, cores)
    np.testing.assert_allclose(got, np.einsum(equation, *inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "accumulator"),
    [("f64", "f64"), ("f16", "f32"), ("i64", "i64"), ("i32", "i32"), ("i8", "i32")],
)
@pytest.mark.parametrize("equation", ["mk,kn->mn", "km,nk->mn"])
def test_types(equation: str, dtype: str, accumulator: str) -> None:
    extents = {"m": 37, "n": 41, "k": 50}
    inputs = operands(equation, extents, dtype)
    (got,) = run(einsum(equation, extents, dtype, accumulator), inputs, SMALL)
    wanted = np.einsum(equation, *(x.astype(NUMPY[accumulator]) for x in inputs))
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_cores_do_not_change_the_result() -> None:
    equation, extents = CASES["matmul"]
    inputs = operands(equation, extents)
    one, two, three = (
        run(einsum(equation, extents), inputs, SMALL, cores)[0] for cores in (1, 2, 3)
    )
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


def test_nan_and_infinity_stay_in_their_row_and_column() -> None:
    a, b = np.ones((20, 30), np.float32), np.ones((30, 37), np.float32)
    a[3, 7], b[11, 36] = np.nan, np.inf
    (got,) = run(einsum("mk,kn->mn", {"m": 20, "n": 37, "k": 30}), [a, b], SMALL)
    assert np.isnan(got[3]).all()
    assert np.isinf(np.delete(got[:, 36], 3)).all()
    assert (np.delete(np.delete(got, 3, 0), 36, 1) == 30).all()


def test_starts_from_a_tensor() -> None:
    rng = np.random.default_rng(1)
    a, b, start = (
        rng.standard_normal(s).astype(np.float32) for s in ((30, 20), (20, 50), (30, 50))
    )
    ta, tb, tc = tensor(a.shape), tensor(b.shape), tensor(start.shape)
    body = product("r", ("a", ta, "m, k"), ("b", tb, "k, n"), "start", (tc, "m, n"), "m,n,k", "k")
    text = f"func.func @main(%a: {ta}, %b: {tb}, %start: {tc}) -> {tc} {{{body}\n  return %r : {tc}\n}}"
    (got,) = run(text, [a, b, start], SMALL)
    np.testing.assert_allclose(got, start + a @ b, rtol=1e-4, atol=1e-4)


def linear(m: int, n: int, k: int) -> str:
    """``relu(x @ w.T + bias) * scale[:, None] + residual.T``, its transpose in f16, and the product
    itself."""
    tx, tw, tc, tt, th = (
        tensor((m, k)),
        tensor((n, k)),
        tensor((m, n)),
        tensor((n, m)),
        tensor((n, m), "f16"),
    )
    head = product("r", ("x", tx, "m, k"), ("w", tw, "n, k"), "i", (tc, "m, n"), "m,n,k", "k")
    return f"""
func.func @main(%x: {tx}, %w: {tw}, %bias: {tensor((n,))}, %scale: {tensor((m,))}, %residual: {tt}) -> ({tc}, {th}, {tc}) {{
{zeros("i", (m, n), "f32")}{head}
  %e = tensor.empty() : {tc}
  %h = tensor.empty() : {th}
  %zero = arith.constant 0.0 : f32
  %y = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>,
      affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (n, m)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}}
      ins(%r, %bias, %scale, %residual : {tc}, {tensor((n,))}, {tensor((m,))}, {tt}) outs(%e : {tc}) {{
  ^bb0(%c: f32, %b: f32, %s: f32, %d: f32, %out: f32):
    %0 = arith.addf %c, %b : f32
    %1 = arith.maximumf %0, %zero : f32
    %2 = arith.mulf %1, %s : f32
    %3 = arith.addf %2, %d : f32
    linalg.yield %3 : f32
  }} -> {tc}
  %z = linalg.generic {{indexing_maps = [affine_map<(n, m) -> (m, n)>, affine_map<(n, m) -> (n, m)>],
      iterator_types = ["parallel", "parallel"]}} ins(%y : {tc}) outs(%h : {th}) {{
  ^bb0(%c: f32, %out: f16):
    %0 = arith.truncf %c : f32 to f16
    linalg.yield %0 : f16
  }} -> {th}
  return %y, %z, %r : {tc}, {th}, {tc}
}}"""


@pytest.mark.parametrize("machine", MACHINES)
def test_epilogue(machine: str) -> None:
    m, n, k = 45, 70, 33
    rng = np.random.default_rng(2)
    x, w, bias, scale, residual = (
        rng.standard_normal(s).astype(np.float32) for s in ((m, k), (n, k), (n,), (m,), (n, m))
    )
    parameters, cores = MACHINES[machine]
    y, z, r = run(linear(m, n, k), [x, w, bias, scale, residual], parameters, cores)
    wanted = np.maximum(x @ w.T + bias, 0) * scale[:, None] + residual.T
    np.testing.assert_allclose(r, x @ w.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(z, wanted.T, rtol=2e-3, atol=2e-3)


def test_epilogue_shares_the_kernel_of_its_product() -> None:
    text = assembly(linear(45, 70, 33))
    assert text.count("@func kernel_") == 1
    assert "MM" in text


def positions(m: int, n: int, k: int) -> str:
    """``x @ w + position``: the element's place in the result, as masks and random numbers need
    it."""
    tx, tw, tc = tensor((m, k)), tensor((k, n)), tensor((m, n))
    head = product("r", ("x", tx, "m, k"), ("w", tw, "k, n"), "i", (tc, "m, n"), "m,n,k", "k")
    return f"""
func.func @main(%x: {tx}, %w: {tw}) -> {tc} {{{zeros("i", (m, n), "f32")}{head}
  %e = tensor.empty() : {tc}
  %y = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}} ins(%r : {tc}) outs(%e : {tc}) {{
  ^bb0(%c: f32, %out: f32):
    %row_number = linalg.index 0 : index
    %column = linalg.index 1 : index
    %width = arith.constant {n} : index
    %row = arith.muli %row_number, %width : index
    %at = arith.addi %row, %column : index
    %integer = arith.index_cast %at : index to i64
    %float = arith.sitofp %integer : i64 to f32
    %0 = arith.addf %c, %float : f32
    linalg.yield %0 : f32
  }} -> {tc}
  return %y : {tc}
}}"""


@pytest.mark.parametrize("machine", MACHINES)
def test_positions_in_the_epilogue(machine: str) -> None:
    m, n, k = 45, 70, 33
    rng = np.random.default_rng(3)
    x, w = (
        rng.standard_normal((m, k)).astype(np.float32),
        rng.standard_normal((k, n)).astype(np.float32),
    )
    parameters, cores = MACHINES[machine]
    (got,) = run(positions(m, n, k), [x, w], parameters, cores)
    np.testing.assert_allclose(got, x @ w + np.arange(m * n).reshape(m, n), rtol=1e-4, atol=1e-3)


def test_epilogue_stored_into_a_padded_tensor_of_another_shape() -> None:
    m, n, k = 6, 20, 9
    tx, tw, tc, t4, tp = (
        tensor((m, k)),
        tensor((k, n)),
        tensor((m, n)),
        tensor((m, 5, 2, 2)),
        tensor((m, 5, 3, 3)),
    )
    head = product("r", ("x1", tx, "m, k"), ("w", tw, "k, n"), "i", (tc, "m, n"), "m,n,k", "k")
    text = f"""
func.func @main(%x: {tx}, %w: {tw}) -> ({tc}, {tp}) {{{zeros("i", (m, n), "f32")}{zeros("p", (m, 5, 3, 3), "f32")}
  %ex = tensor.empty() : {tx}
  %x1 = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}} ins(%x : {tx}) outs(%ex : {tx}) {{
  ^bb0(%c: f32, %out: f32):
    %0 = arith.negf %c : f32
    linalg.yield %0 : f32
  }} -> {tx}{head}
  %e = tensor.empty() : {tc}
  %one = arith.constant 1.0 : f32
  %y = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}} ins(%r : {tc}) outs(%e : {tc}) {{
  ^bb0(%c: f32, %out: f32):
    %0 = arith.addf %c, %one : f32
    linalg.yield %0 : f32
  }} -> {tc}
  %o = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}} ins(%y : {tc}) outs(%e : {tc}) {{
  ^bb0(%c: f32, %out: f32):
    %0 = arith.mulf %c, %c : f32
    linalg.yield %0 : f32
  }} -> {tc}
  %v = "ftm.view"(%o) {{offset = 0 : i64, strides = array<i64: {n}, 4, 2, 1>}} : ({tc}) -> {t4}
  %e4 = tensor.empty() : {t4}
  %z = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} ins(%v : {t4}) outs(%e4 : {t4}) {{
  ^bb0(%c: f32, %out: f32):
    %0 = arith.negf %c : f32
    linalg.yield %0 : f32
  }} -> {t4}
  %q = "ftm.update"(%p, %z) {{offset = 0 : i64, strides = array<i64: 45, 9, 6, 2>}} : ({tp}, {t4}) -> {tp}
  return %y, %q : {tc}, {tp}
}}"""
    rng = np.random.default_rng(4)
    x, w = (
        rng.standard_normal((m, k)).astype(np.float32),
        rng.standard_normal((k, n)).astype(np.float32),
    )
    y, q = run(text, [x, w])
    wanted = np.zeros((m, 5, 3, 3), np.float32)
    wanted[:, :, ::2, ::2] = -((1 - x @ w) ** 2).reshape(m, 5, 2, 2)
    np.testing.assert_allclose(y, 1 - x @ w, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(q, wanted, rtol=1e-4, atol=1e-4)


def test_dot_product_is_left_to_reductions() -> None:
    text = assembly(einsum("k,k->", {"k": 100}))
    assert "MM" not in text
    x, y = operands("k,k->", {"k": 100})
    (got,) = run(einsum("k,k->", {"k": 100}), [x, y])
    np.testing.assert_allclose(got, x @ y, rtol=1e-4)


@pytest.mark.parametrize(
    ("m", "k", "instruction"), [(200, 100, "MM.TB"), (199, 100, "@map"), (8, 9000, "@map")]
)
def test_matrix_unit_multiplies_vectors_by_large_matrices(m: int, k: int, instruction: str) -> None:
    found = assembly(einsum("mk,k->m", {"m": m, "k": k}))
    assert [word for word in ("MM.TB", "@map") if word in found] == [instruction]


def test_transposed_a_is_read_so_by_the_matrix_unit() -> None:
    assert "MM.TA" in assembly(einsum("km,kn->mn", {"m": 512, "n": 512, "k": 512}))
