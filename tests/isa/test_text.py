"""Text to Program and back: the grammar, comments, canonical layout, and the speed of both."""

import pytest

from ftm_backend.ir import asm
from ftm_backend.ir.asm import program as p

CANONICAL = """\
// what a program looks like
@program mlp, host  // name and preset

// header
@in b0, f32, 64x64
@in empty, i64, 0x3
@scalar s0, f64
@scalar s1, i64
@out o0, f32, 64x64, b0
@out o1, bf16, []
@const k0, f32, 2, 0000803f00000040
@arena t0, 4096, f32, 64x10

@func kernel_0  // about it
  @tile X, am, f32, 144x96, 2, 0
  @tile S, sm, f32, 1x96, 1, 0
  @tile Q, gsm, f32, 144x1, 1, 64  // sums
    SCID r1
    SMUL r1, -32, r2
    SADD s1, r2, r2
    // a note
  LOOP_kernel_0_0: 1, 64  // rows
    DLD b0[r3-4], 2@512 r7@64 | 8@8 r9@-1, X[r5+1]
    DLD k0[1], 1@0 | 1@1, S
  [!r7] DWAIT X[r5]
    @map r7 x 64, X[r5]:v0, S:v1.row -> X[r5]:v4, Q:v4.rsum.acc
      // fused
      VFMA.F32 v0, v1, 1.5, v3  // sources first
      VADD.F32 v3, -inf, v3
      VMUL.F32 v3, s0, v3
      VEXP.F32 v3, v4
    @endmap
  [r7] @map 0 x 0 -> S:v0
      VMOV.F32 nan, v0
    @endmap
    DST X[r5], o0[r3], 16@64 | 64@1
    DSC.MAX X[0], X[r1], t0[0], 10 | 10@1
  [r7] SBR LOOP_kernel_0_0
  BB_end:
@ret  // done

@func main
  [r1] @call kernel_0
    BARRIER
@ret
"""


def test_canonical_text_round_trips_exactly():
    program = asm.parse(CANONICAL)
    assert str(program) == CANONICAL
    assert asm.parse(str(program)) == program


def test_layout_does_not_matter():
    loose = (
        CANONICAL.replace("    SCID r1", "\tSCID   r1   ")
        .replace(", ", "  ,  ")
        .replace("[r3-4]", "[ r3 - 4 ]")
    )
    assert str(asm.parse(loose)).replace("  ,  ", ", ") == CANONICAL


def test_parse_gives_plain_data():
    program = asm.parse(CANONICAL)
    function = next(f for f in program.functions if isinstance(f, p.AsmFunction))
    loads = [i for i in function.items if isinstance(i, p.AsmInstruction) and i.name == "DLD"]
    register, immediate = p.Register, p.Immediate
    assert loads[0].operands == (
        p.SlotReference("b0", 3, -4),
        p.Dims(
            ((immediate(2), immediate(512)), (register(7), immediate(64))),
            ((immediate(8), immediate(8)), (register(9), immediate(-1))),
        ),
        p.SlotReference("X", 5, 1),
    )
    block = next(i for i in function.items if getattr(i, "name", "") == "@map")
    assert block.outputs[1] == p.MapOutput(p.SlotReference("Q"), 4, "r", "sum", True)
    assert program.buffers("const")[0].data == bytes.fromhex("0000803f00000040")
    assert [b.elements for b in (*program.buffers("in"), *program.buffers("out"))] == [
        4096,
        0,
        4096,
        1,
    ]


@pytest.mark.parametrize(
    ("line", "replacement", "message", "column"),
    [
        ("    SCID r1", "    SCIID r1", "did you mean SCID?", 5),
        ("    SCID r1", "    SCID", "takes 1 operands (d), found 0", 5),
        ("    SCID r1", "    SCID r1, r2", "takes 1 operands (d), found 2", 5),
        ("    SCID r1", "    SMUL r1, , r2", "expected a register", 14),
        ("    SCID r1", "    [r7 SCID r1", "expected a predicate such as [r7]", 5),
        ("    SCID r1", "    [r7]", "needs an instruction", 5),
        ("    SCID r1", "    DLD b0[0], 16@64, S", "expected `|`", 21),
        ("    SCID r1", "    DLD b0[0], 16@64 | 3, S", "expected extent@stride, found '3'", 24),
        ("    SCID r1", "    DLD b0[0], | 3@1, S", "expected a register", 16),
        ("    SCID r1", "    DWAIT X[r5", "expected a tile slot", 11),
        ("    SCID r1", "    @ret r1", "@ret stands alone", 5),
        ("  LOOP_kernel_0_0: 1, 64  // rows", "  LOOP_kernel_0_0:", "needs trip count bounds", 3),
        (
            "  LOOP_kernel_0_0: 1, 64  // rows", "  LOOP_kernel_0_0: 1",
            "expected the least and the greatest", 3,
        ),
        ("@scalar s0, f64", "@scaler s0, f64", "unknown directive @scaler", 1),
        ("@scalar s0, f64", "@scalar r0, f64", "expected a scalar's name", 9),
        ("@scalar s0, f64", "@in b9, f32, 4 x 4", "expected a shape such as 64x64", 5),
        ("@scalar s0, f64", "@const k9, f32, 1, 00zz", "hexadecimal", 1),
        (
            "  @tile S, sm, f32, 1x96, 1, 0", "  @tile S, sm, f32, 96, 1, 0",
            "a tile has two extents", 3,
        ),
        (
            "  @tile S, sm, f32, 1x96, 1, 0",
            "  @tile S, sm, f32, 1x96, 1",
            "@tile name, space, type, RxC, depth, offset",
            3,
        ),
        ("      // fused", "      SCID r1, r2", "takes 1 operands", 7),
        ("      // fused", "  here:", "a label belongs", 3),
        ("      // fused", "    @map 1 x 1 -> S:v0", "not inside another @map", 5),
    ],
)  # fmt: skip
def test_errors_point_at_the_fault(line, replacement, message, column):
    text = CANONICAL.replace(line, replacement, 1)
    number = text.split("\n").index(replacement) + 1
    with pytest.raises(asm.AsmError) as caught:
        asm.parse(text)
    error = caught.value
    assert message in error.message
    assert (error.line, error.column) == (number, column)
    shown = str(error).split("\n")
    assert shown[1].lstrip() == replacement.strip() and shown[2].index("^") == column + 1


@pytest.mark.parametrize(
    ("header", "message", "column"),
    [
        ("@map 4 x 4, X:v0, S:v1.rows -> X:v0", ".row (1xC)", 23),
        ("@map 4 x 4, X -> X:v0", "expected slot:register", 17),
        ("@map 4 x 4 -> X:v0.rmean", ".c (1xC)", 19),
        ("@map 4 x 4 -> X:v0.acc", ".r (Rx1)", 19),
        ("@map 4 x 4, X:v0", "expected `->`", 5),
        ("@map 16, X:v0 -> X:v0", "expected `rows x columns`", 5),
    ],
)
def test_map_header_errors(header, message, column):
    text = f"@program t, host\n@func main\n    {header}\n    @endmap\n@ret\n"
    with pytest.raises(asm.AsmError) as caught:
        asm.parse(text)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (3, column)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no @program line"),
        ("// only a comment\n", "no @program line"),
        ("@in b0, f32, 4\n", "the first line must be"),
        ("@program t, host\nSCID r1\n", "outside of a function"),
        ("@program t, host\n@func main\n", "has no @ret"),
        ("@program t, host\n@func main\n@map 1 x 1 -> X:v0\n", "has no @endmap"),
        ("@program t, host\n@program t, host\n", "second"),
        ("@program t, host\n@func main\n@ret\n@in b0, f32, 4\n", "before the first @func"),
    ],
)
def test_structure_errors(text, message):
    with pytest.raises(asm.AsmError, match=message):
        asm.parse(text)
