"""Buffers that end at a page without access: a read or a write behind them kills the process."""

from __future__ import annotations

import numpy as np
import pytest

from ftm_backend.machine import Machine
from machine.conftest import Guarded
from machine.machine_programs import NUMPY, MapProgram, run_text, suffix


@pytest.mark.parametrize("token", ["f32", "f16", "f64", "u8"])
def test_map(fast: Machine, guarded: Guarded, token: str) -> None:
    """Every access, with tails of some lengths, and rows with and without reductions."""
    s = suffix(token)
    for rows, columns in ((1, 1), (1, 17), (3, 15), (5, 16), (4, 33), (2, 130), (1, 1100)):
        accesses = {"full": (rows, columns), "row": (1, columns), "col": (rows, 1), "one": (1, 1)}
        body = [f"VADD.{s} v0, v1, v10", f"VADD.{s} v2, v3, v11", f"VADD.{s} v10, v11, v100"]
        for outputs in (["full"], ["full", "rsum", "amax"]):
            moves = [f"VMOV.{s} v100, v{100 + k}" for k in range(1, len(outputs))]
            program = MapProgram(
                rows,
                columns,
                [(token, access) for access in accesses],
                [(token, what) for what in outputs],
                [*body, *moves],
            )
            arrays = [np.ones(shape).astype(NUMPY[token]) for shape in accesses.values()]
            result = program.run(fast, [guarded(array) for array in arrays])[0]
            assert (result == 4).all()


def test_write(fast: Machine, guarded: Guarded) -> None:
    """A map that writes the donated input that it reads."""
    for length in (1, 15, 17, 1025):
        text = f"""@program test, host
@in b0, f32, 1x{length}
@out o0, f32, 1x{length}, b0
@func main
  @tile X, am, f32, 1x{length}, 1, 0
  @tile Y, am, f32, 1x{length}, 1, 16384
    DLD b0[0], 1@1 | {length}@1, X
    DWAIT X
    @map 1 x {length}, X:v0 -> Y:v100
      VADD.F32 v0, 1.0, v100
    @endmap
    DST Y, o0[0], 1@1 | {length}@1
    DWAITALL
@ret
"""
        array = guarded(np.ones((1, length), np.float32))
        run_text(fast, text, [array], donate=(0,))
        assert (array == 2).all()
