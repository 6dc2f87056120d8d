"""Checked mode: each fault is found where it happens, with the line and its text; correct programs
pass."""

from __future__ import annotations

import numpy as np
import pytest

from ftm_backend.machine import Machine, MachineError
from machine.machine_programs import run_text

HEADER = """@program t, host
@in b0, f32, 8x8
@out o0, f32, 8x8
@arena t0, 0, f32, 8x8
@func main
  @tile X, am, f32, 8x8, 2, 0
  @tile Y, am, f32, 8x8, 1, 512
  @tile Z, am, f32, 4x4, 1, 128
"""
LOAD = "DLD b0[0], 8@8 | 8@1, {}"
STORE = "DST {}, o0[0], 8@8 | 8@1"
INDEX = "@tile I, am, i64, 8x1, 1, 1024\n@map 8 x 1 -> I:v0\nVIDX 0, 1, 0, v0\n@endmap"
DOUBLE = "@map 8 x 8, X[0]:v0 -> Y:v1\nVADD.F32 v0, v0, v1\n@endmap"
DATA = np.arange(64, dtype=np.float32).reshape(8, 8)


def run(machine: Machine, *lines: str) -> np.ndarray:
    return run_text(machine, HEADER + "\n".join(lines) + "\n@ret\n", [DATA])[0]


FAULTS = {
    "map of a slot in flight": (
        [LOAD.format("X[0]"), DOUBLE],
        "line 10.*reads X\\[0\\] while the transfer of line 9 into X\\[0\\] is in flight",
    ),
    "store of a slot in flight": (
        [LOAD.format("X[0]"), STORE.format("X[0]")],
        "line 10.*in flight.*DWAIT X\\[0\\]",
    ),
    "waiting for another slot": ([LOAD.format("X[0]"), "DWAIT X[1]", DOUBLE], "in flight"),
    "loading over a store": (
        [LOAD.format("X[0]"), "DWAIT X[0]", STORE.format("X[0]"), LOAD.format("X[0]")],
        "line 12.*writes X\\[0\\].*line 11 from X\\[0\\]",
    ),
    "computing over a store": (
        [LOAD.format("X[0]"), "DWAITALL", DOUBLE, STORE.format("Y"), DOUBLE],
        "writes Y",
    ),
    "product of a slot in flight": (
        [LOAD.format("X[0]"), LOAD.format("Y"), "DWAIT X[0]", "MM X[0], Y, X[1]"],
        "reads Y",
    ),
    "never written": (
        ["@map 8 x 8 -> Y:v1\nVMOV.F32 1.0, v1\n@endmap", "@map 8 x 8, X[1]:v0 -> Y:v0\n@endmap"],
        "takes 8x8 of X\\[1\\], whose current extents are 0x0",
    ),
    "more than the current extents": (
        ["DLD b0[0], 4@8 | 8@1, X[0]", "DWAIT X[0]", DOUBLE],
        "takes 8x8 of X\\[0\\], whose current extents are 4x8",
    ),
    "storing more than was loaded": (
        ["DLD b0[0], 4@8 | 8@1, X[0]", "DWAIT X[0]", STORE.format("X[0]")],
        "takes 8x8 of X\\[0\\], whose current extents are 4x8",
    ),
    "written over by another tile": (
        [LOAD.format("X[0]"), "DWAITALL", "@map 4 x 4 -> Z:v0\nVMOV.F32 1.0, v0\n@endmap", DOUBLE],
        "element \\(4, 0\\) of X\\[0\\], where Z has been written since",
    ),
    "a map output over another input": (
        [LOAD.format("X[0]"), "DWAITALL", "@map 4 x 4, X[0]:v0 -> Z:v0\n@endmap"],
        "output Z overlaps input X\\[0\\]",
    ),
    "arena never written": (
        ["DLD t0[0], 8@8 | 8@1, X[0]"],
        "reads element 0 of t0, which was never written",
    ),
    "output never written": (
        ["@map 8 x 8 -> Y:v1\nVMOV.F32 1.0, v1\n@endmap", INDEX, "DSC.ADD Y, I, o0[0], 8 | 8@1"],
        "reads element 0 of o0, which was never written",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(fast, checked, name):
    lines, message = FAULTS[name]
    with pytest.raises(MachineError, match=message) as caught:
        run(checked, *lines)
    assert str(caught.value).startswith("t, @func main, line ")
    if "current extents are 0x0" not in message:
        run(fast, *lines)  # fast mode does something harmless


def test_a_correct_program_passes(checked):
    got = run(
        checked,
        LOAD.format("X[0]"),
        "DWAIT X[0]",
        DOUBLE,
        LOAD.format("X[1]"),
        STORE.format("Y"),
        "DWAIT Y",
        "DST Y, t0[0], 8@8 | 8@1",
        "DWAITALL",
        "DLD t0[0], 8@8 | 8@1, Y",
        "DWAIT Y",
        STORE.format("Y"),
    )
    np.testing.assert_array_equal(got, 2 * DATA)


def test_the_message_shows_the_assembly(checked):
    with pytest.raises(
        MachineError, match=r"line 10: `DST X\[0\], o0\[0\], 8@8 \| 8@1`: core 0 reads"
    ):
        run(checked, LOAD.format("X[0]"), STORE.format("X[0]"))


RACE = """@program t, host
@in b0, f32, 8x8
@out o0, f32, 8x8
@arena t0, 0, f32, 8x8
@func main
  @tile X, am, f32, 8x8, 1, 0
    SCID r1
    SEQ r1, 0, r2
    DLD b0[0], 8@8 | 8@1, X
    DWAIT X
    [r2] DST X, t0[0], 8@8 | 8@1
    {}
    DWAIT X
    [!r2] DLD t0[0], 8@8 | 8@1, X
    DWAIT X
    [!r2] DST X, o0[0], 8@8 | 8@1
@ret
"""


def test_cores_need_a_barrier():
    with Machine(cores=2, checked=True) as machine:
        np.testing.assert_array_equal(run_text(machine, RACE.format("BARRIER"), [DATA])[0], DATA)
        # Without it the reader comes before the writer (never written) or after (a race): a fault
        # either way.
        with pytest.raises(MachineError, match="line 14.*reads element 0 of t0"):
            run_text(machine, RACE.format("SMOV 0, r9"), [DATA])


def test_cores_that_write_at_the_same_time_are_found():
    text = HEADER + LOAD.format("X") + "\nBARRIER\nDST X, o0[0], 8@8 | 8@1\n@ret\n"
    with Machine(cores=2, checked=True) as machine:
        for _ in range(20):
            with pytest.raises(
                MachineError,
                match="writes element .* of o0, which core [01] wrote since the last BARRIER",
            ):
                run_text(machine, text, [DATA])


def test_cores_that_write_one_tile_of_gsm_at_the_same_time_are_found():
    header = HEADER.replace("  @tile Z", "  @tile S, gsm, f32, 8x8, 1, 0\n  @tile Z")
    both, barrier = LOAD.format("S"), "DWAIT S\nBARRIER\n"
    with Machine(cores=2, checked=True) as machine:
        for _ in range(20):
            with pytest.raises(
                MachineError,
                match="line 10.*core [01] writes S, where another core wrote since the last BARRIER",
            ):
                run_text(machine, f"{header}{both}\n@ret\n", [DATA])
        turns = f"SCID r1\nSEQ 0, r1, r2\n[r2] {both}\n{barrier}[!r2] {both}\n{barrier}[r2] {STORE.format('S')}\n@ret\n"
        np.testing.assert_array_equal(run_text(machine, header + turns, [DATA])[0], DATA)


def test_aliased_output_holds_its_input(checked):
    text = (
        HEADER.replace("@out o0, f32, 8x8", "@out o0, f32, 8x8, b0")
        + LOAD.format("Y")
        + "\nDWAIT Y\n"
        + INDEX
        + "\nDSC.ADD Y, I, o0[0], 8 | 8@1\n@ret\n"
    )
    np.testing.assert_array_equal(run_text(checked, text, [DATA.copy()], donate=(0,))[0], 2 * DATA)


def test_gathered_elements_outside_the_buffer(fast, checked):
    text = """@program t, host
@in b0, f32, 16
@in b1, i64, 1x4
@out o0, f32, 1x4
@func main
  @tile I, am, i64, 1x4, 1, 0
  @tile Y, am, f32, 1x4, 1, 64
    DLD b1[0], 1@4 | 4@1, I
    DWAIT I
    @map 1 x 4, I:v0 -> Y:v1
      VGA.F32 b0[2], v0, v1
    @endmap
    DST Y, o0[0], 1@4 | 4@1
@ret
"""
    table = np.arange(16, dtype=np.float32)
    for machine in (fast, checked):
        np.testing.assert_array_equal(
            run_text(machine, text, [table, np.array([[-2, 0, 13, 5]])])[0], [[0, 2, 15, 7]]
        )
        for bad in (-3, 14, 2**62, -(2**63)):
            with pytest.raises(
                MachineError, match="line 10.*gathers element .* of b0, which has 16"
            ):
                run_text(machine, text, [table, np.array([[0, bad, 1, 2]])])
