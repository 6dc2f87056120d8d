"""Functions with parameters: what declarations and calls say, what is refused, and how they run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ftm_backend import assembler
from ftm_backend.ir import asm
from ftm_backend.ir.asm import program as p
from ftm_backend.machine import Machine, MachineError

TEXT = """\
@program t, host
@in b0, f32, 16
@in b1, i64, 16
@scalar s0, f64
@scalar s1, i64
@out o0, f32, 16

@func scaled
  @param x, f32
  @param y, f32, out, x
  @scalar by, f64
  @scalar from, i64
  @tile T, am, f32, 1x4, 1, 0
    SMOV from, r1
    DLD x[r1], 1@1 | 4@1, T
    DWAIT T
    @map 1 x 4, T:v0 -> T:v1
      VMUL.F32 v0, by, v1
    @endmap
    DST T, y[0], 1@1 | 4@1
    DWAITALL
@ret

@func both
  @param y, f32, out
  @scalar by, f64
    @call scaled, b0[4], y[0], by, 1
    @call scaled, y[0], y[4], by, 0
@ret

@func main
    SMOV 8, r2
    @call both, o0[0], s0
    @call scaled, b0[r2-8], o0[r2], s0, s1
@ret
"""


def test_text_round_trips() -> None:
    assert str(asm.parse(TEXT)) == TEXT
    assert asm.parse(str(asm.parse(TEXT))) == asm.parse(TEXT)


@pytest.mark.parametrize("checked", [False, True])
def test_calls_bind(checked: bool) -> None:
    x = np.arange(16, dtype=np.float32)
    (out,) = (
        Machine(cores=1, checked=checked)
        .load(assembler.assemble(TEXT))
        .run([x, np.zeros(16, np.int64)], [3.0, 2])
    )
    assert out[:12].tolist() == [15, 18, 21, 24, 45, 54, 63, 72, 6, 9, 12, 15]


def test_a_window_ends_with_its_buffer() -> None:
    program = Machine(cores=1).load(assembler.assemble(TEXT))
    with pytest.raises(
        MachineError,
        match=r"reaches elements 13 to 16 of x \(b0 from element 0\), which has 16 elements",
    ):
        program.run([np.zeros(16, np.float32), np.zeros(16, np.int64)], [1.0, 13])
    with pytest.raises(
        MachineError,
        match=r"@func main, line 34: .*binds x to element -1 of b0, which has 16 elements",
    ):
        Machine(cores=1).load(assembler.assemble(TEXT.replace("SMOV 8, r2", "SMOV 7, r2"))).run(
            [np.zeros(16, np.float32), np.zeros(16, np.int64)], [1.0, 0]
        )


@pytest.mark.parametrize(
    ("line", "replacement", "message"),
    [
        (
            "    @call both, o0[0], s0",
            "    @call both, o0[0]",
            "both has 2 parameters (y, by), found 1 arguments",
        ),
        (
            "    @call both, o0[0], s0",
            "    @call both, b0[0], s0",
            "b0 is an input and cannot be written",
        ),
        ("    @call both, o0[0], s0", "    @call both, b1[0], s0", "b1 is i64, parameter y is f32"),
        (
            "    @call both, o0[0], s0",
            "    @call both, o0[0], s1",
            "expected the name of an f64 scalar",
        ),
        (
            "    @call both, o0[0], s0",
            "    @call both, o0[0], 1",
            "expected the name of an f64 scalar",
        ),
        ("    @call both, o0[0], s0", "    @call both, s0, o0[0]", "is no buffer"),
        ("    @call scaled, y[0], y[4], by, 0", "    @call scaled, y[0], y[4], by, by", "is f64"),
        (
            "    DST T, y[0], 1@1 | 4@1",
            "    DST T, x[0], 1@1 | 4@1",
            "declare it `@param x, f32, out`",
        ),
        ("  @param y, f32, out, x", "  @param x, f32, out", "'x' is declared twice"),
        (
            "  @param y, f32, out, x",
            "  @param y, f32, out, z",
            "which is no buffer parameter before it",
        ),
        ("  @param y, f32, out, x", "  @param y, f31, out, x", "unknown type 'f31'"),
        ("  @param y, f32, out, x", "  @param y, f32, in", "expected `out`"),
        (
            "  @scalar by, f64\n  @scalar from, i64",
            "  @scalar by, f32\n  @scalar from, i64",
            "f64 or i64",
        ),
        (
            "  @param y, f32, out\n",
            "  @scalar n, i64\n  @param y, f32, out\n",
            "buffers come before scalars",
        ),
        ("@func main\n", "@func main\n  @param x, f32\n", "main has no parameters"),
        ("    SMOV 8, r2\n", "    SMOV 8, r2\n  @param x, f32\n", "parameters come first"),
    ],
)
def test_refused_with_reason(line: str, replacement: str, message: str) -> None:
    assert line in TEXT
    with pytest.raises(asm.AsmError) as caught:
        assembler.assemble(TEXT.replace(line, replacement, 1))
    assert message in caught.value.message


def test_objects_give_the_same_image() -> None:
    """Functions that were encoded before are put in as they would be encoded, at other numbers and
    lines."""
    first = finished(TEXT)
    assert assembler.assemble(first) == assembler.assemble(TEXT)
    (scaled,) = (f for f in functions(first) if f.object)  # `both` calls, and `main`
    header, rest = TEXT.split("@func scaled")
    moved = (
        header.replace("@out", "@in b2, f32, 2\n@scalar s2, f64\n@out")
        + EARLY
        + "@func scaled"
        + rest
    )
    second = finished(moved)
    at = next(k for k, f in enumerate(second.functions) if getattr(f, "name", "") == "scaled")
    second.functions[at] = replace(scaled, items=scaled.parameters)
    assert assembler.assemble(second) == assembler.assemble(moved)


def finished(text: str) -> p.AsmProgram:
    """A program whose functions keep what they are assembled to, as those of the compiler do."""
    program = asm.parse(text)
    for function in functions(program):
        function.printed = tuple(program.source[function.line : function.end - 1])
    program.source = []
    return program


def functions(program: p.AsmProgram) -> list[p.AsmFunction]:
    return [f for f in program.functions if isinstance(f, p.AsmFunction)]


EARLY = """\
@func early
  @param q, i64
  @tile U, am, i64, 1x2, 1, 0
    DLD q[0], 1@1 | 2@1, U
  BB_0:
    @map 1 x 2, U:v0 -> U:v1
      VADD.I64 v0, 7, v1
    @endmap
@ret

"""


def test_objects_belong_to_their_machine() -> None:
    """What fits one machine's scratchpad is refused on another that has less."""
    big = "@program t, {}\n@in b0, f32, 4\n@func f\n  @param x, f32\n  @tile T, sm, f32, 64x1024, 1, 0\n@ret\n@func main\n    @call f, b0[0]\n@ret\n"
    assembler.assemble(big.format("host"))
    with pytest.raises(asm.AsmError, match="bytes on machine m7032"):
        assembler.assemble(big.format("m7032"))
