"""Operands that share memory: with one another, or with another core that changes them in the
middle of an instruction."""

from __future__ import annotations

import numpy as np
import pytest

from ftm_backend.machine import MachineError
from machine.machine_programs import run_text

PROGRAM = """@program t, host
@in b0, {type}, 8x8
@out o0, {type}, 8x8
@func main
  @tile X, {space}, {type}, 8x8, 1, 0
  @tile Y, {space}, {type}, 8x8, 1, {shift}
  @tile Z, {space}, {type}, 8x16, 1, 4096
  @tile Q, {space}, {type}, 8x8, 1, 8192
  @tile C, {space}, {carry}, 8x1, 1, {carry_at}
    DLD b0[0], 8@8 | 8@1, X
    DLD b0[0], 8@8 | 8@1, Q
    @map 8 x 1 -> C:v0
      VMOV.{CARRY} 0, v0
    @endmap
    DWAITALL
    {instruction}
    DWAITALL
    DST Q, o0[0], 8@8 | 8@1
@ret
"""
APART, PARTLY, SAME = 512, 64, 0
OPERATIONS = {
    "SORT X, Y": "i64", "MERGE X, Q, Y": "i64", "MERGE Q, X, Y": "i64", "TRANS X, Y": "i64",
    "FOLD X, 1@1 | 8@1 8@0, Y": "i64", "DCP X, Y": "i64", "DCW X, 8@8 | 8@1, Y": "i64",
    "MM X, Q, Y": "i64", "MM Q, X, Y": "i64", "MM.ACC Q, X, Y": "f64", "SCAN.ADD X, C, Y": "f64",
}  # fmt: skip


def text(instruction: str, type: str, shift: int, space: str = "am", carry_at: int = 16384) -> str:
    instruction = instruction.replace("Y", "Z") if instruction.startswith("MERGE") else instruction
    made = PROGRAM.format(
        instruction=instruction,
        type=type,
        shift=shift,
        space=space,
        carry=type,
        CARRY=type.upper(),
        carry_at=carry_at,
    )
    return made.replace("1, 4096", f"1, {shift}") if instruction.startswith("MERGE") else made


@pytest.mark.parametrize("space", ["am", "sm", "gsm"])
@pytest.mark.parametrize("shift", [SAME, PARTLY])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operand_that_overlaps_is_a_fault(fast, checked, operation, shift, space):
    data = (
        np.arange(64)
        .reshape(8, 8)[:, ::-1]
        .astype({"i64": np.int64, "f64": np.float64}[OPERATIONS[operation]])
    )
    for machine in (fast, checked):
        with pytest.raises(MachineError, match="line 16: .*(Y|C|Z), .*overlaps X|accumulates"):
            run_text(machine, text(operation, OPERATIONS[operation], shift, space), [data.copy()])
        if "ACC" not in operation:
            run_text(machine, text(operation, OPERATIONS[operation], APART, space), [data.copy()])


def test_a_carry_that_overlaps_is_a_fault(fast, checked):
    program = text("SCAN.ADD X, C, Y", "f64", APART, carry_at=64).replace(
        "    @map", "    DWAITALL\n    @map"
    )
    for machine in (fast, checked):
        with pytest.raises(MachineError, match="the carry, C, overlaps"):
            run_text(machine, program, [np.zeros((8, 8))])


@pytest.mark.parametrize("operation", ["SORT X, X", "SCAN.ADD X, C, X"])
def test_one_slot_as_source_and_destination_is_right(fast, checked, operation):
    kind = "f64" if "SCAN" in operation else "i64"
    data = np.arange(64).reshape(8, 8)[:, ::-1].astype(np.int64 if kind == "i64" else np.float64)
    wanted = np.sort(data, 1) if kind == "i64" else np.cumsum(data, 1)
    for machine in (fast, checked):
        got = run_text(
            machine,
            text(operation, kind, APART).replace("DST Q", "DST X"),
            [np.ascontiguousarray(data)],
        )[0]
        np.testing.assert_array_equal(got, wanted)


RACE = """@program t, host
@in b0, i64, 64
@out o0, i64, 4096
@func main
  @tile G, gsm, i64, 1x4096, 1, 0
  @tile N, am, i64, 1x4096, 1, 0
  @tile Y, am, i64, 1x4096, 1, 0
  @tile S, am, i64, 1x4096, 1, 32768
    SCID r1
    @map 1 x 4096 -> N:v0
      {good}
    @endmap
    [!r1] DCP N, G
    @map 1 x 4096 -> S:v0
      VMOV.I64 7, v0
    @endmap
    BARRIER
    [!r1] SBR LOOP_read
  LOOP_write: 1, 10000
    @map 1 x 4096 -> N:v0
      {good}
    @endmap
    DCP N, G
    @map 1 x 4096 -> N:v0
      {bad}
    @endmap
    DCP N, G
    SADD r3, 1, r3
    SLT r3, 3000, r4
    [r4] SBR LOOP_write
    SBR BB_end
  LOOP_read: 1, 10000
    {instruction}
    SADD r3, 1, r3
    SLT r3, 3000, r4
    [r4] SBR LOOP_read
    DST S, o0[0], 1@1 | 4096@1
  BB_end:
@ret
"""


def test_an_index_that_another_core_changes_is_used_as_it_was_checked(pair):
    gather = "@map 1 x 4096, G:v0 -> Y:v1\n      VGA.I64 b0[0], v0, v1\n    @endmap"
    program = RACE.format(good="VMOV.I64 3, v0", bad=f"VMOV.I64 {2**40}, v0", instruction=gather)
    for _ in range(5):
        try:
            run_text(pair, program, [np.arange(64)])
        except MachineError as error:
            assert "(index out of range)" in str(error)


def test_a_row_that_another_core_changes_is_sorted_within_its_bounds(pair):
    """Were the row counted before and moved after it changed, all of it would go where 255 goes,
    and beyond Y."""
    program = RACE.format(
        good="VIDX 255, 0, -1, v1\n      VAND.I64 v1, 255, v0",
        bad="VMOV.I64 255, v0",
        instruction="SORT G, Y",
    )
    for _ in range(5):
        assert (run_text(pair, program, [np.arange(64)])[0] == 7).all()
