"""Scatters and row gathers through midend, emission and emulator, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from midend.contraction_programs import HOST, OVERLAPPED, SMALL, assembly, run, tensor

MACHINES = {"host": (HOST, 2), "small": (SMALL, 1), "overlapped": (OVERLAPPED, 3)}
REDUCE = {
    "set": lambda _, u: u,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def scatter(entries: int, width: int, moves: int, reduce: str) -> str:
    """A program with one scatter."""
    td, tu, ti = tensor((entries, width)), tensor((moves, width)), tensor((moves,), "i64")
    return f"""
func.func @main(%d: {td}, %i: {ti}, %u: {tu}) -> {td} {{
  %r = "ftm.scatter"(%d, %i, %u) {{reduce = "{reduce}"}} : ({td}, {ti}, {tu}) -> {td}
  return %r : {td}
}}"""


def expected(dest: np.ndarray, indices: np.ndarray, updates: np.ndarray, reduce: str) -> np.ndarray:
    """The same in order of rows."""
    result = dest.copy()
    for row, update in zip(indices, updates, strict=True):
        result[row] = REDUCE[reduce](result[row], update)
    return result


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("entries", "width", "moves", "reduce"),
    [
        *((7, 50, 30, reduce) for reduce in REDUCE),
        (100, 1, 300, "add"),
        (5, 700, 400, "add"),
        (4, 3, 0, "set"),
        (1, 1, 1, "add"),
    ],
)
def test_scatter(entries: int, width: int, moves: int, reduce: str, machine: str) -> None:
    rng = np.random.default_rng(0)
    dest, updates = (
        rng.standard_normal(s).astype(np.float32) for s in ((entries, width), (moves, width))
    )
    indices = rng.integers(0, entries, moves)
    parameters, cores = MACHINES[machine]
    (got,) = run(
        scatter(entries, width, moves, reduce), [dest, indices, updates], parameters, cores
    )
    np.testing.assert_array_equal(got, expected(dest, indices, updates, reduce))


def test_scatter_outside_is_a_fault() -> None:
    dest, updates = np.zeros((4, 8), np.float32), np.ones((2, 8), np.float32)
    with pytest.raises(Exception, match="kernel_|line"):
        run(scatter(4, 8, 2, "add"), [dest, np.array([1, 4]), updates])


def embedding(words: int, width: int, batch: int, length: int) -> str:
    """``table[ids] + positions``."""
    tt, ti, tp, to = (
        tensor((words, width)),
        tensor((batch, length), "i64"),
        tensor((length, width)),
        tensor((batch, length, width)),
    )
    return f"""
func.func @main(%w: {tt}, %i: {ti}, %p: {tp}) -> {to} {{
  %e = tensor.empty() : {to}
  %r = linalg.generic {{indexing_maps = [affine_map<(a, b, c) -> (a, b)>, affine_map<(a, b, c) -> (b, c)>,
      affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%i, %p : {ti}, {tp}) outs(%e : {to}) {{
  ^bb0(%id: i64, %q: f32, %out: f32):
    %row = arith.index_cast %id : i64 to index
    %column = linalg.index 2 : index
    %x = tensor.extract %w[%row, %column] : {tt}
    %y = arith.addf %x, %q : f32
    linalg.yield %y : f32
  }} -> {to}
  return %r : {to}
}}"""


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("words", "width", "batch", "length"), [(50, 16, 4, 9), (50, 33, 1, 1), (5, 3000, 4, 9)]
)
def test_embedding(words: int, width: int, batch: int, length: int, machine: str) -> None:
    rng = np.random.default_rng(0)
    table, places = (
        rng.standard_normal(s).astype(np.float32) for s in ((words, width), (length, width))
    )
    ids = rng.integers(0, words, (batch, length))
    parameters, cores = MACHINES[machine]
    (got,) = run(embedding(words, width, batch, length), [table, ids, places], parameters, cores)
    np.testing.assert_array_equal(got, table[ids] + places)


def test_whole_rows_are_gathered_by_dma() -> None:
    text = assembly(embedding(50, 16, 4, 9))
    assert "DGA" in text
    assert "VGA" not in text


def test_scatter_of_a_view_of_one_number() -> None:
    """The updates may be a view of a constant: ``x[rows] = 5``."""
    td, tu, ti = tensor((3, 4)), tensor((2, 4)), tensor((2,), "i64")
    text = f"""
func.func @main(%d: {td}, %i: {ti}) -> {td} {{
  %s = arith.constant 5.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%s : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %u = "ftm.view"(%f) {{offset = 0 : i64, strides = array<i64: 0, 0>}} : (tensor<f32>) -> {tu}
  %r = "ftm.scatter"(%d, %i, %u) {{reduce = "set"}} : ({td}, {ti}, {tu}) -> {td}
  return %r : {td}
}}"""
    dest = np.arange(12, dtype=np.float32).reshape(3, 4)
    (got,) = run(text, [dest, np.array([0, 2])])
    np.testing.assert_array_equal(got, [[5] * 4, [4, 5, 6, 7], [5] * 4])
