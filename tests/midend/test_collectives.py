"""Collectives through the compiler: they start early, in order, and are waited for late."""

from __future__ import annotations

import re

import numpy as np

from midend.contraction_programs import assembly
from midend.harness import run

PROGRAM = """
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>, %a: i64, %b: i64) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = "ftm.collective_start"(%x, %a) {kind = "allreduce", reduction = "add"} : (tensor<8xf32>, i64) -> tensor<8xf32>
  %1 = "ftm.collective_wait"(%0, %a) : (tensor<8xf32>, i64) -> tensor<8xf32>
  %2 = "ftm.collective_start"(%y, %b) {kind = "allreduce", reduction = "avg"} : (tensor<8xf32>, i64) -> tensor<8xf32>
  %3 = "ftm.collective_wait"(%2, %b) : (tensor<8xf32>, i64) -> tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %4 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]} ins(%3 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %n = arith.negf %in : f32
    linalg.yield %n : f32
  } -> tensor<8xf32>
  return %RESULTS : tensor<8xf32>, tensor<8xf32>
}"""


def calls(text: str) -> list[str]:
    """What ``main`` does: starts and waits with the scalar that is bound, ``map`` for the rest."""
    functions, main = text.split("@func main")
    found = []
    for name, arguments in re.findall(r"@call (\w+), (.*)", main):
        body = functions.partition(f"@func {name}\n")[2].partition("@ret")[0]
        kind = re.search(r"CSTART|CWAIT", body)
        found.append(f"{kind[0]} {arguments.split(', ')[-1]}" if kind else "map")
    return found


def test_starts_keep_their_order_and_waits_come_late() -> None:
    text = assembly(PROGRAM.replace("RESULTS", "4, %1"))
    assert calls(text) == ["CSTART s0", "CSTART s1", "CWAIT s1", "map"]


def test_the_caller_waits_for_what_is_only_returned() -> None:
    assert calls(assembly(PROGRAM.replace("RESULTS", "3, %1"))) == ["CSTART s0", "CSTART s1"]


def test_collectives_without_a_reader_stay() -> None:
    text = assembly(PROGRAM.replace("RESULTS", "x, %y"))
    assert [c for c in calls(text) if c != "map"] == [
        "CSTART s0", "CSTART s1", "CWAIT s0", "CWAIT s1"]  # fmt: skip


MESSAGES = """
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>, %a: i64, %b: i64) -> tensor<8xf32> {
  %0 = "ftm.collective_start"(%y, %a) {kind = "recv", reduction = ""} : (tensor<8xf32>, i64) -> tensor<8xf32>
  %1 = "ftm.collective_wait"(%0, %a) : (tensor<8xf32>, i64) -> tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %n = arith.negf %in : f32
    linalg.yield %n : f32
  } -> tensor<8xf32>
  %3 = "ftm.collective_start"(%2, %b) {kind = "send", reduction = ""} : (tensor<8xf32>, i64) -> tensor<0xf32>
  %4 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]} ins(%x, %1 : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%in: f32, %got: f32, %out: f32):
    %n = arith.addf %in, %got : f32
    linalg.yield %n : f32
  } -> tensor<8xf32>
  return %4 : tensor<8xf32>
}"""


def test_what_needs_no_message_is_sent_before_the_program_waits_for_it() -> None:
    """Both loop nests read x, but one kernel of both would send only after the wait."""
    expected = ["CSTART s0", "map", "CSTART s1", "CWAIT s0", "map"]
    assert calls(assembly(MESSAGES)) == expected
    begin, end = MESSAGES.index("  %e ="), MESSAGES.index("  %4 =")
    sent, read = MESSAGES[begin:end], MESSAGES[end : MESSAGES.index("  return")]
    empty, sent = sent.split("\n", 1)
    read_first = (
        MESSAGES[:begin] + empty + "\n" + read + sent + MESSAGES[MESSAGES.index("  return") :]
    )
    assert calls(assembly(read_first)) == expected


PADDED = """
  %zero = arith.constant 0.0 : f32
  %wide = tensor.empty() : tensor<10xf32>
  %border = linalg.fill ins(%zero : f32) outs(%wide : tensor<10xf32>) -> tensor<10xf32>
  %padded = tensor.insert_slice %2 into %border[1] [8] [1] : tensor<8xf32> into tensor<10xf32>
  %3 = "ftm.collective_start"(%padded, %b) {kind = "send", reduction = ""} : (tensor<10xf32>, i64) -> tensor<0xf32>
"""


def test_what_is_sent_may_be_written_over_a_later_fill() -> None:
    """A part of an update may be computed before the update's base."""
    send = next(line for line in MESSAGES.splitlines(True) if line.startswith("  %3 ="))
    found = calls(assembly(MESSAGES.replace(send, PADDED)))
    assert found[0] == "CSTART s0"
    assert found.index("CSTART s1") < found.index("CWAIT s0")


def test_inputs_keep_their_elements() -> None:
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    negated, reduced = run(PROGRAM.replace("RESULTS", "4, %1"), [x, y], [1, 2])
    np.testing.assert_array_equal(negated, -y)
    np.testing.assert_array_equal(reduced, x)
