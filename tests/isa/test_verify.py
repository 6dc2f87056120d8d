"""The assembler's checks: every rule has a program that breaks it, and a caret at the right
place."""

import pytest

from ftm_backend import assembler
from ftm_backend.ir import asm

TEXT = """\
@program t, host
@in b0, f32, 64x64
@in i0, i64, 64
@in u0, u8, 64
@scalar s0, f64
@scalar s1, i64
@out o0, f32, 64x64, b0
@const k0, f32, 1, 0000803f
@arena t0, 64, f32, 64
@func main
  @tile X, am, f32, 64x64, 2, 0
  @tile Y, am, f32, 64x64, 1, 32768
  @tile S, am, f32, 64x1, 1, 49152
  @tile I, am, i64, 64x1, 1, 49408
  @tile J, am, i8, 64x1, 1, 49920
  @tile D, am, f64, 8x8, 1, 50176
    SCID r1
    @map 64 x 64, X:v0, S:v1.col -> Y:v2
      VADD.F32 v0, v1, v2
    @endmap
  BB_end:
@ret
"""


def test_the_text_is_right():
    assembler.verify(TEXT)


REFUSED = {
    "@program t, host": [
        # header
        ("@program t, vax", "known presets: host", "vax"),
    ],
    "@in b0, f32, 64x64": [("@in b0, f31, 64x64", "unknown type 'f31'", "f31")],
    "@in i0, i64, 64": [("@in b0, i64, 64", "'b0' is declared twice; first on line 2", "b0")],
    "@scalar s0, f64": [
        ("@scalar s0, f32", "f64 or i64", "f32"),
        ("@scalar b0, f64", "'b0' is declared twice", "b0"),
    ],
    "@out o0, f32, 64x64, b0": [
        ("@out o0, f32, 64x64, k0", "which is no input", "k0"),
        ("@out o0, f32, 64x63, b0", "type or number of elements differ", "b0"),
    ],
    "@const k0, f32, 1, 0000803f": [
        (
            "@const k0, f32, 2, 0000803f",
            "4 bytes of data, but its shape and type make 8",
            "0000803f",
        ),
    ],
    "@arena t0, 64, f32, 64": [("@arena t0, 66, f32, 64", "not a multiple of its 4-byte", "66")],
    "@func main": [("@func start", "no @func main", "@program")],
    "  @tile Y, am, f32, 64x64, 1, 32768": [
        # tiles
        ("  @tile X, am, f32, 64x64, 1, 32768", "'X' is declared twice", "X"),
        ("  @tile b0, am, f32, 64x64, 1, 32768", "'b0' is declared twice", "b0"),
        ("  @tile Y, ddr, f32, 64x64, 1, 32768", "use am, sm or gsm", "ddr"),
        ("  @tile Y, am, f32, 0x64, 1, 32768", "at least 1x1", "0x64"),
        ("  @tile Y, am, f32, 64x64, 0, 32768", "at least 1", "0, 32768"),
        ("  @tile Y, am, f32, 64x64, 1, 32770", "multiple of 64", "32770"),
        ("  @tile Y, am, f32, 64x64, 39, 32768", "has 655360 bytes on machine host", "32768"),
        ("  @tile Y, sm, f32, 64x64, 17, 0", "has 262144 bytes", "0"),
    ],
    "    SCID r1": [
        # scalar code
        ("    SCID r64", "r64 does not exist", "r64"),
        ("    SADD r1, 2.5, r2", "scalar operands are integers", "2.5"),
        ("    SADD r1, s0, r2", "is f64; only map operations", "s0"),
        ("    SADD r1, s9, r2", "no scalar of the program", "s9"),
        ("    SADD r1, 9223372036854775808, r2", "does not fit in 64 bits", "9223"),
        ("    SADD r1, 1, 2", "writes a register", "2"),
        ("    SLDI b0[0], r2", "integer type", "b0"),
        ("    SLDI X[0], r2", "no buffer", "X"),
        ("  [r64] SCID r1", "r64 does not exist", "SCID"),
        ("    SBR nowhere", "no label 'nowhere'", "nowhere"),
        ("    @call absent", "no function 'absent'", "absent"),
        ("    @call main", "calls itself", "@func"),
        ("    VADD.F32 v0, v1, v2", "belongs inside @map", "VADD"),
        ("  BB_end:", "defined twice", "BB_end"),
        ("  LOOP_a: 5, 4", "not ordered", "5"),
        # transfers
        ("    DLD b0[0], 65@64 | 64@1, X", "extents 65x64 exceed tile X", "65@64"),
        ("    DLD b0[0], r1@64 | 13@8 5@1, X", "extents ?x65 exceed", "r1@64"),
        ("    DLD b0[1], 64@64 | 64@1, X", "touches elements 1 to 4096", "64@64"),
        ("    DLD b0[0], 2@-1 | 64@1, X", "touches elements -1 to 63", "2@-1"),
        ("    DLD b0[0], -2@1 | 64@1, X", "is negative", "-2@1"),
        ("    DLD i0[0], 1@1 | 64@1, X", "buffer i0 is i64: a transfer does not convert", "X"),
        ("    DLD X[0], 1@1 | 64@1, X", "'X' is no buffer", "X"),
        (
            "    DLD b0[0], 1@1 | 64@1, b0",
            "'b0' is no tile of this function; its tiles: X, Y",
            "b0\n",
        ),
        ("    DLD b0[0], 1 | 64@1, X", "of the form 16@64", "1 |"),
        ("    DST X, b0[0], 1@1 | 64@1", "is an input and cannot be written", "b0"),
        ("    DST X, k0[0], 1@1 | 1@1", "is a constant", "k0"),
        (
            "    DST.MAX X, o0[0], 1@1 | 1@1",
            "DST does not take .MAX there; its suffixes, in this order: none",
            "DST",
        ),
        ("    DGA b0[0], S, 64 | 1@1, X", "row indices are i64 or i32", "S"),
        ("    DGA b0[0], I, 64@1 | 1@1, X", "of the form 1024", "64@1"),
        ("    DGA b0[0], I, 64 | 65@1, X", "exceed tile X", "64 |"),
        ("    DCP X, D", "does not convert: f32 to f64", "D"),
        ("    DCP X[1], X[1]", "two different slots", "X[1]\n"),
        ("    DCW X, 1@1 | 1@1, D", "does not convert: f32 to f64", "D"),
        ("    DCW X, 1@1 | 65@1, X[1]", "exceed tile X", "1@1"),
        ("    DCW X, 1@1 | 64@1, X", "two different slots", "X\n"),
        # matrices
        ("    MM X, D, Y", "does not take f32 x f64 -> f32", "X"),
        ("    MM X, Y, X", "C must not be A or B", "X\n"),
        (
            "    MM.ACC.TA X, X[1], Y",
            "does not take .TA there; its suffixes, in this order: .TA, .TB, .ACC",
            "MM",
        ),
        ("    TRANS X, X", "two different slots", "X\n"),
    ],
    "      VADD.F32 v0, v1, v2": [
        # maps
        ("      VADD v0, v1, v2", "write VADD.<F64 F32", "VADD"),
        ("      VADD.B1 v0, v1, v2", "write VADD.<F64 F32", "VADD"),
        (
            "      VADD.F64 v0, v1, v2",
            "v0 is F32 where VADD reads F64: convert with VCVT.F64.F32",
            "v0",
        ),
        ("      VADD.F32 v0, v7, v2", "v7 is read before anything writes it", "v7"),
        ("      VADD.F32 v0, v1, v65536", "v65536 does not exist", "v65536"),
        ("      VADD.F32 v0, v1, r2", "writes a map register", "r2"),
        ("      VADD.F32 v0, X, v2", "no scalar of the program", "X"),
        ("      VADD.F32 v0, r64, v2", "r64 does not exist", "r64"),
        ("      VADD.F32 v0, v1, v3", "v2 is stored but nothing in the map writes it", None),
        ("      VCMPLT.F32 v0, v1, v2", "v2 is B1, tile Y is F32: convert with VCVT.F32.B1", None),
        ("      VCVT.I8.F32 v0, v1", "v2 is stored", None),
        ("      VBITC.I64.F32 v0, v2", "one size", "VBITC"),
        ("      VIDX v0, 1, 1, v2", "takes immediates", "v0"),
        ("      VGA.F64 b0[0], v0, v2", "buffer b0 is F32, not F64", "b0"),
        ("      VADD.I32 1.5, 2, v2", "1.5 is no integer", "1.5"),
        ("      VADD.I8 256, 2, v2", "256 does not fit in I8", "256"),
        ("      VADD.I64 s0, 2, v2", "s0 is f64 where I64 is read", "s0"),
        ("    [r1] VADD.F32 v0, v1, v2", "no predicates inside @map", "VADD"),
        ("      SADD r1, r2, r3", "does not belong inside @map", "SADD"),
    ],
    "    @map 64 x 64, X:v0, S:v1.col -> Y:v2": [
        ("    @map 65 x 64, X:v0, S:v1.col -> Y:v2", "extents 65x64 exceed tile X", "X:v0"),
        ("    @map -1 x 64, X:v0, S:v1.col -> Y:v2", "is negative", "-1"),
        ("    @map 64 x 64, X:v0, S:v1.row -> Y:v2", "extents 1x64 exceed tile S", "S:v1"),
        ("    @map 64 x 64, X:v0, S:v0.col -> Y:v2", "defined by two inputs", "S:v0"),
        ("    @map 64 x 64, X:v0, S:v1.col -> Y:v2, Y:v0", "two outputs", "Y:v0"),
        ("    @map 64 x 64, X:v0, S:v1.col -> Y:v2, S:v2.rsum.acc", "different accesses", "S:v2"),
        ("    @map 64 x 64, X:v0, S:v1.col -> S:v2.rand", "different", "S:v2"),
        ("    @map 64 x 64, X:v0, S:v1.col -> Y:v2.aand", "no reduction 'and'", "Y:v2"),
        ("    @map r64 x 64, X:v0, S:v1.col -> Y:v2", "r64 does not exist", "r64"),
    ],
}
"""Lines of the text; for each: the line instead, a part of the message, and where the caret is."""


@pytest.mark.parametrize(
    ("line", "replacement", "message", "caret"),
    [(line, *case) for line, cases in REFUSED.items() for case in cases],
)
def test_refused_with_reason_and_place(line, replacement, message, caret):
    assert line + "\n" in TEXT
    text = TEXT.replace(line + "\n", replacement + "\n", 1)
    with pytest.raises(asm.AsmError) as caught:
        assembler.assemble(text)
    error = caught.value
    assert message in error.message
    source = text.split("\n")[error.line - 1]
    assert error.source == source and error.column >= 1
    if caret is not None:
        assert (source + "\n")[error.column - 1 :].startswith(caret)


@pytest.mark.parametrize(
    "line",
    [
        "DLD u0[0], 64@1 | 1@1, J",  # i8 and u8 are one type to transfers
        "DLD b0[0], 64@0 | 64@1, X",
        "DLD b0[4095], 1@0 | 64@-64, X",
        "DLD b0[r1], r2@r3 | s1@-1, X[r4-1]",
        "DLD b0[5000], 0@1 | 64@1, X",  # nothing is transferred
        "DST X, t0[0], 1@1 | 64@1",
        "DSC.MIN X, I, o0[r1], r2 | r3@1",
        "SADD 1, 2, r3",
        "SMOV s1, r63",
        "MM.TA.TB.ACC X, X[1], Y",
        "DCP X, X[1]",
        "DCW X, r1@r2 | 8@-1 2@0, X[1]",
        "SLDI u0[r1+1], r2",
    ],
)
def test_accepted(line):
    assembler.verify(TEXT.replace("    SCID r1\n", f"    {line}\n"))


def test_mutual_recursion_is_refused():
    text = (
        TEXT.replace("    SCID r1\n", "    @call f\n")
        + "@func f\n    @call g\n@ret\n@func g\n    @call f\n@ret\n"
    )
    with pytest.raises(asm.AsmError, match="calls itself"):
        assembler.verify(text)


def test_diamond_of_calls_is_accepted():
    calls = "    @call f\n    @call g\n    @call f\n"
    assembler.verify(
        TEXT.replace("    SCID r1\n", calls) + "@func f\n    @call g\n@ret\n@func g\n@ret\n"
    )


def test_built_programs_are_checked_with_their_printed_lines():
    program = asm.parse(TEXT)
    program.source = []
    program.functions[0].items[0].offset = 1
    with pytest.raises(asm.AsmError, match="multiple of 64") as caught:
        assembler.assemble(program)
    assert "@tile X, am, f32, 64x64, 2, 1" in caught.value.source


def test_extents_are_as_many_as_an_image_can_count():
    text = "@program t, host\n@out o0, f32, {}\n@func main\n@ret\n"
    # more than numpy has, as PyTorch's tensors may have
    assembler.verify(text.format("x".join(["1"] * 65)))
    with pytest.raises(asm.AsmError, match="larger than any memory: 65536 extents"):
        assembler.verify(text.format("x".join(["1"] * 65536)))
