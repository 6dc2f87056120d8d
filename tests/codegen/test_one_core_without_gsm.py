"""A kernel on core 0 alone runs while other cores may still read GSM, so it keeps nothing there."""

from __future__ import annotations

import pytest

from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions

PRODUCT = """\
trace
  %0 = param f64[280,32]
  %1 = param f64[280,64]
  %2 = ftm.view(base=%0, sizes=[32,280], strides=[1,32], offset=0) : f64[32,280]
  %3 = aten::mm(self=%2, mat2=%1) : f64[32,64]
  return %3
"""
"""A gradient of weights: small, so it runs on one core, which keeps its operand on the chip."""


@pytest.mark.parametrize(("cores", "uses_gsm"), [(1, True), (24, False)])
def test_tiles(cores: int, uses_gsm: bool) -> None:
    assembly = driver.compile(PRODUCT, CompileOptions(machine="m7002", cores=cores)).asm
    tiles = [line.split()[2] for line in assembly.splitlines() if line.strip().startswith("@tile")]
    assert tiles and ("gsm," in tiles) == uses_gsm
