"""Buffers in GSM: what is kept there arrives, and what a program must not do with them is refused
or found."""

from __future__ import annotations

import numpy as np
import pytest

from ftm_backend import assembler
from ftm_backend.ir.asm import AsmError
from ftm_backend.machine import Machine, MachineError
from ftm_backend.perf_model import cycle_model
from machine.machine_programs import run_text
from machine.test_images import patched

DATA = np.arange(64, dtype=np.float32).reshape(8, 8)
TEXT = """@program t, m7032
@in b0, f32, 8x8
@out o0, f32, 8x8
@gsm g0, 4096, f32, 8x8
@gsm g1, 4352, f32, 8x8
@func double
  @param x, f32
  @param y, f32, out
  @tile X, am, f32, 1x8, 1, 0
  @tile S, gsm, f32, 8x8, 1, {place}
    SCID r1
    SNC r2
    SMOV r1, r3
    SLT r3, 8, r6
  [!r6] SBR end
  rows:
    SMUL r3, 8, r4
    DLD x[r4], 1@1 | 8@1, X
    DWAIT X
    @map 1 x 8, X:v0 -> X:v1
      VADD.F32 v0, v0, v1
    @endmap
    DST X, y[r4], 1@1 | 8@1
    DWAIT X
    SADD r3, r2, r3
    SLT r3, 8, r6
  [r6] SBR rows
  end:
    SEQ r1, 0, r6
  [r6] DLD x[0], 8@8 | 8@1, S
    DWAITALL
@ret
@func main
    @call double, b0[0], g0[0]
    {first}
    @call double, g0[0], g1[0]
    {second}
    @call double, g1[0], o0[0]
@ret
"""


def text(place: int = 0, first: str = "BARRIER", second: str = "BARRIER") -> str:
    return TEXT.format(place=place, first=first, second=second)


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
@pytest.mark.parametrize("checked", [False, True])
def test_what_is_kept_arrives(cores: int, checked: bool) -> None:
    with Machine(cores=cores, checked=checked, gsm_bytes=6 << 20) as machine:
        np.testing.assert_array_equal(run_text(machine, text(), [DATA])[0], 8 * DATA)


def test_a_row_transfer_finds_its_rows() -> None:
    program = """@program t, m7032
@in b0, f32, 8x8
@out o0, f32, 3x8
@gsm g0, 64, f32, 8x8
@func main
  @tile X, am, f32, 8x8, 1, 0
  @tile I, am, i64, 3x1, 1, 1024
  @tile Y, am, f32, 3x8, 1, 2048
    DLD b0[0], 8@8 | 8@1, X
    DWAIT X
    DST X, g0[0], 8@8 | 8@1
    @map 3 x 1 -> I:v0
      VIDX 0, 3, 0, v0
    @endmap
    DWAITALL
    DGA g0[0], I, 8 | 8@1, Y
    DWAIT Y
    DST Y, o0[0], 3@8 | 8@1
@ret
"""
    with Machine(cores=1, checked=True) as machine:
        np.testing.assert_array_equal(run_text(machine, program, [DATA])[0], DATA[::3])


def test_a_missing_barrier_is_found() -> None:
    with (
        Machine(cores=2, checked=True) as machine,
        pytest.raises(MachineError, match="of g0, which was never|of g0, which core . wrote"),
    ):
        run_text(machine, text(first="SMOV 0, r9"), [DATA])


def test_a_tile_over_a_buffer_is_found() -> None:
    with (
        Machine(cores=1, checked=True) as machine,
        pytest.raises(MachineError, match="reads element 0 of g1, where S has been written"),
    ):
        run_text(machine, text(place=4352), [DATA])


def test_a_buffer_over_a_tile_is_found() -> None:
    program = """@program t, m7032
@in b0, f32, 8x8
@out o0, f32, 8x8
@gsm g0, 0, f32, 8x8
@func main
  @tile X, am, f32, 8x8, 1, 0
  @tile S, gsm, f32, 8x8, 1, 128
    DLD b0[0], 8@8 | 8@1, X
    DLD b0[0], 8@8 | 8@1, S
    DWAITALL
    DST X, g0[0], 8@8 | 8@1
    DST S, o0[0], 8@8 | 8@1
@ret
"""
    with (
        Machine(cores=1, checked=True) as machine,
        pytest.raises(MachineError, match=r"element \(0, 0\) of S, where g0 has been written"),
    ):
        run_text(machine, program, [DATA])


def test_more_than_the_machine_has_is_refused() -> None:
    with pytest.raises(
        AsmError, match="g1 ends at byte 6291520 of gsm, which has 6291456 bytes on machine m7032"
    ):
        assembler.assemble(text().replace("@gsm g1, 4352", "@gsm g1, 6291264"))
    with (
        Machine(cores=1, gsm_bytes=4500) as machine,
        pytest.raises(MachineError, match="needs 4608 bytes of GSM, the machine has 4500"),
    ):
        machine.load(assembler.assemble(text()))


@pytest.mark.parametrize("offset", [-64, 4356])
def test_a_place_between_lines_is_refused(offset: int) -> None:
    with pytest.raises(AsmError, match="must be a multiple of 64"):
        assembler.assemble(text().replace("@gsm g0, 4096", f"@gsm g0, {offset}"))


@pytest.mark.parametrize(("field", "value"), [("offset", 4354), ("offset", 1 << 60), ("bytes", 8)])
def test_a_damaged_image_is_refused(fast: Machine, field: str, value: int) -> None:
    image = assembler.assemble(text())
    with pytest.raises(MachineError, match="a buffer's (place|size)"):
        fast.load(patched(image, "buffers", 2, field, value))


def test_ddr_moves_nothing_for_them() -> None:
    kept = cycle_model.model(text(), machine="m7032", cores=8)
    arena = cycle_model.model(text().replace("@gsm", "@arena"), machine="m7032", cores=8)
    assert kept.cycles < arena.cycles
    assert arena.dma_bytes == 3 * kept.dma_bytes and kept.least_bytes < arena.least_bytes
    assert kept.gsm_bytes - arena.gsm_bytes == arena.dma_bytes - kept.dma_bytes
