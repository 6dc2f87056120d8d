"""The text of tiles: what is printed reads back as the same program at every stage, and bad text is
shown with its line."""

import dataclasses
import re

import pytest

from ftm_backend import assembler
from ftm_backend.codegen import emit, pipeline
from ftm_backend.ir import asm
from ftm_backend.ir.asm.program import BufferDirective, ScalarArgument
from ftm_backend.ir.linalg.body_builder import constant
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.index_expr import Atom, Expr
from ftm_backend.ir.tile.kernel_tree import TileDecl, TileKernel, TileLoop
from ftm_backend.ir.tile.printer import print_tiles
from ftm_backend.ir.tile.program import TileProgram
from ftm_backend.ir.tile.reader import TileTextError, read_tiles

HEADER = "@stage tiles\n@program main, host\n@in b0, f32, 64\n@in b1, i64, 8\n@out o0, f32, 64\n\n@func main\n"
TILES = ["@tile T0, am, f32, 4x8, 1", "@tile T1, am, f32, 4x8, 2", "@tile T2, am, i64, 4x8, 1"]


def function(*lines):
    """A program of one function with TILES, whose first statement is in line FIRST."""
    return HEADER + "\n".join([*TILES, *lines, "@ret", ""])


FIRST = HEADER.count("\n") + len(TILES) + 1


# --- kernels that have everything
# -----------------------------------------------------------------------


def loops(b):
    X = b.tile("f32", 4, 8)
    with (
        b.for_(b.core_id(), 9) as i,
        b.for_(2, b.add(i, 40), 3) as j,
        b.for_(0, b.sub(b.num_cores(), 1)),
    ):
        height = b.max(b.min(b.sub(40, b.mul(i, 4)), 4), 1)
        at = b.add(
            b.mul(i, b.rem(j, 5)), b.sub(b.div(b.mul(j, 7), b.num_cores()), b.mul(b.core_id(), 3))
        )
        b.load(b.buffer("b0", "f32", 64), b.rem(at, 8), X, 0, [height, 2, 4], [8, 4, 1], 1)
        b.store(X, 0, b.buffer("o0", "f32", 64), b.div(at, 9), [height, 1, 8], [-8, 0, 1], 2)


def branches(b):
    X = b.tile("f32", 1, 1)
    with b.for_(0, 8) as i:
        for predicate in ("eq", "ne", "lt"):
            with b.if_(b.compare(predicate, i, b.rem(b.core_id(), 3))):
                b.map(1, 1, [], [(X, 0, "full")], lambda v: [constant(-0.5, "f32")])
        either = b.add(b.compare("lt", i, 3), b.compare("ne", b.core_id(), 0))
        with b.if_(b.compare("lt", 0, either)), b.if_(b.compare("eq", i, 7)), b.for_(0, 2) as j:
            at = b.max(i, b.mul(j, 2))
            b.store(X, 0, b.buffer("o0", "f32", 64), at, [1, 1], [1, 1], 1)


def rings(b):
    X, Y, Z = b.tile("f32", 4, 8, depth=3), b.tile("f32", 4, 8, "sm", 2), b.tile("f32", 4, 8, "gsm")
    b.load(b.buffer("b0", "f32", 64), 0, X, 0, [4, 8], [8, 1], 1)
    with b.for_(0, 8) as i:
        b.load(b.buffer("b0", "f32", 64), i, X, b.add(i, 1), [4, 8], [8, 1], 1)
        b.map(
            4,
            8,
            [(X, i, "full"), (Z, 0, "one")],
            [(Y, b.sub(7, i), "full")],
            lambda v: [Node("arith.addf", "f32", v)],
        )
        b.store(Y, b.sub(7, i), b.buffer("o0", "f32", 64), i, [4, 8], [8, 1], 1)


def maps(b):
    X, S, R, I = b.tile("f32", 4, 8), b.tile("f32", 4, 1), b.tile("i32", 4, 8), b.tile("i64", 1, 8)
    A = b.tile("f32", 4, 1)
    x, seed, rate = b.buffer("b0", "f32", 64), b.scalar("s0", "i64"), b.scalar("s1", "f64")

    def body(i, j):
        def written(v):
            position = b.position(b.mul(i, 8), j, b.sub(1, j))
            near = Node(
                "arith.mulf", "f32", (b.gather(x, position), Node("arith.truncf", "f32", (rate,)))
            )
            far = b.gather(x, Node("arith.addi", "i64", (v[2], constant(3, "i64"))))
            random = Node("ftm.philox", "i32", (b.position(0, 8, 1), seed, seed))
            total = Node("arith.addf", "f32", (v[0], v[1]))
            return [Node("arith.maximumf", "f32", (near, far)), total, random]

        return written

    with b.for_(0, 4) as i, b.for_(0, 2) as j:
        b.map(
            b.min(b.sub(7, i), 4),
            8,
            [(X, 0, "full"), (S, 0, "col"), (I, 0, "row")],
            [(X, 0, "full"), (A, 0, "rsum.acc"), (R, 0, "full")],
            body(i, j),
        )


def addresses_from_memory(b):
    X, I = b.tile("f32", 4, 8), b.tile("i64", 4, 1)
    table, indices, out = (
        b.buffer("b0", "f32", 64),
        b.buffer("b1", "i64", 8),
        b.buffer("o0", "f32", 64),
    )
    first = b.load_index(indices, 0)
    with b.for_(0, b.min(first, 3)) as i:
        second = b.load_index(indices, b.add(i, 1))
        b.load(indices, b.rem(second, 4), I, 0, [4, 1], [1, 1], 1)
        b.load_rows(table, first, I, 0, X, 0, 8, b.min(second, 8))
        for reduce in ("set", "add", "mul", "min", "max"):
            b.store_rows(X, 0, I, 0, out, b.add(first, second), 8, 7, reduce)


def orders(b):
    X, C, Y = b.tile("i64", 4, 8), b.tile("i64", 4, 1), b.tile("i64", 4, 16, depth=2)
    D = b.tile("i64", 1, 8)
    b.map(4, 8, [], [(X, 0, "full")], lambda v: [b.position(9, -1, 2)])
    for tile in (C, D):
        b.map(tile.rows, tile.columns, [], [(tile, 0, "full")], lambda v: [constant(0, "i64")])
    with b.for_(0, 5) as i:
        b.sort(X, 0, X, 0)
        b.scan("add", X, 0, C, 0, X, 0)
        b.scan("max", X, 0, D, 0, X, 0, down=True)
        b.merge(X, 0, X, 0, Y, i)


def sums_made_in_another_order(b):
    X = b.tile("f32", 1, 1)
    with b.for_(0, 8) as i, b.for_(0, 3) as j:
        first, second, third = b.rem(i, 3), b.rem(i, 5), b.min(j, b.core_id())
        b.load(b.buffer("b0", "f32", 64), b.add(third, second), X, 0, [1, 1], [1, 1], 1)
        b.store(
            X, 0, b.buffer("o0", "f32", 64), b.add(b.add(first, second), third), [1, 1], [1, 1], 1
        )


def products(b):
    A, B, C = b.tile("f32", 8, 8, "sm"), b.tile("f32", 8, 8), b.tile("f32", 8, 8)
    for tile in (A, B):
        b.load(b.buffer("b0", "f32", 64), 0, tile, 0, [8, 8], [8, 1], 1)
    for k in range(8):
        b.mm(A, 0, B, 0, C, 0, trans_a=bool(k & 1), trans_b=bool(k & 2), acc=k > 3)
    b.barrier()
    b.transpose(A, 0, B, 0)


KERNELS = [
    loops, branches, rings, maps, addresses_from_memory, orders, products,
    sums_made_in_another_order,
]  # fmt: skip
SIGNATURE = [("f32", [64]), ("i64", [8])], [("f32", [64])], ["i64", "f64"]


def facts(program):
    """Everything that passes ask a program, as values that can be compared."""
    plain = {
        f.name: getattr(program, f.name)
        for f in dataclasses.fields(TileProgram)
        if f.name != "functions"
    }
    return plain, [known(kernel) for kernel in program.kernels]


def known(thing):
    """A part of a kernel: expressions by their text and bounds, the rest field by field."""
    if isinstance(thing, (list, tuple)):
        return [type(thing).__name__, *map(known, thing)]
    if isinstance(thing, TileKernel):
        return thing.name, [dataclasses.astuple(tile) for tile in thing.tiles], known(thing.body)
    if isinstance(thing, TileDecl):
        return thing.name
    if dataclasses.is_dataclass(thing):
        return type(thing).__name__, *(
            known(getattr(thing, f.name)) for f in dataclasses.fields(thing)
        )
    if isinstance(thing, (Expr, Atom)):
        return repr(thing), thing.low, thing.high, thing.level
    return thing


# --- what is printed reads back
# -------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("build", KERNELS)
def test_every_stage_reads_back_and_goes_on_from_there(lab, build, overlap):
    machine = lab.overlapping if overlap else lab.plain
    program = lab.program(build, *SIGNATURE)
    expected = str(pipeline.run(lab.program(build, *SIGNATURE), machine))
    assembler.assemble(expected)
    passes = pipeline.pipeline(machine)
    for done in range(len(passes) + 1):
        text = print_tiles(program, "any")
        back = read_tiles(text)
        assert print_tiles(back, "any") == text
        assert facts(back) == facts(program)
        for step in passes[done:]:
            back = step.run(back, machine)
        assert str(emit(back, machine)) == expected, f"read back after {done} passes"
        if done < len(passes):
            program = passes[done].run(program, machine)


def test_plans_and_waits_are_in_the_text(lab):
    program = lab.program(rings, *SIGNATURE)
    for step in pipeline.pipeline(lab.overlapping):
        program = step.run(program, lab.overlapping)
    text = print_tiles(program, "insert-waits")
    assert "@tile T0, am, f32, 4x8, 3, 0\n" in text and "@tile T1, sm, f32, 4x8, 2, 0\n" in text
    assert (
        "DWAIT T0[{i1}]\n" in text
        and "DWAIT T1[{-1*i1 + 7}]\n" in text
        and "    DWAITALL\n@ret" in text
    )


def test_declarations_read_back():
    program = TileProgram(
        "m7032",
        in_bounds=set(),
        header=[
            BufferDirective("in", "b0", "f32", (2, 3)),
            BufferDirective("in", "b1", "i64", ()),
            BufferDirective("in", "b2", "u8", (0, 4)),
            ScalarArgument("s0", "f64"),
            ScalarArgument("s1", "i64"),
            BufferDirective("out", "o0", "f32", (2, 3), "b0"),
            BufferDirective("out", "o1", "i1", ()),
            BufferDirective("const", "c0", "i64", (2,), data=bytes([1, 2] * 8)),
            BufferDirective("const", "c1", "f32", (0,)),
            BufferDirective("arena", "w0", "f32", (6,), offset=0),
            BufferDirective("gsm", "w1", "bf16", (2, 2), offset=64),
        ],
    )
    assert facts(read_tiles(print_tiles(program, "tiles"))) == facts(program)


def test_kernels_that_cannot_fault_stay_marked(lab):
    program = lab.program(loops, *SIGNATURE, in_bounds=True)
    assert read_tiles(print_tiles(program, "tiles")).in_bounds == {"kernel_0"}


def test_text_of_a_kernel(lab):
    def build(b):
        X, Y = b.tile("f32", 4, 8, depth=2), b.tile("f32", 4, 1)
        with (
            b.for_(0, 5) as i,
            b.if_(b.compare("lt", i, b.load_index(b.buffer("b1", "i64", 8), i))),
        ):
            b.load(
                b.buffer("b0", "f32", 64), b.mul(i, 8), X, i, [b.min(b.sub(7, i), 4), 8], [8, 1], 1
            )
            b.map(
                4,
                8,
                [(X, i, "full")],
                [(Y, 0, "rsum")],
                lambda v: [Node("math.exp", "f32", (v[0],))],
            )

    assert (
        print_tiles(lab.program(build, *SIGNATURE, in_bounds=True), "tiles")
        == """\
@stage tiles
@program main, host
@in b0, f32, 64
@in b1, i64, 8
@scalar s0, i64
@scalar s1, f64
@out o0, f32, 64

@func kernel_0, in_bounds
  @tile T0, am, f32, 4x8, 2
  @tile T1, am, f32, 4x1, 1
    for i1 = 0, 5 {
      SLDI b1[{i1}], m1
      if lt(i1, m1) {
        DLD b0[{8*i1}], {min(-1*i1 + 7, 4)}@8 | 8@1, T0[{i1}]
        @map 4 x 8, T0[{i1}]:v0 -> T1:v1.rsum
          VEXP.F32 v0, v1
        @endmap
      }
    }
@ret

@func main
    @call kernel_0
@ret
"""
    )


def test_text_by_hand_with_an_else_and_comments(lab):
    text = function(
        "for i1 = 0, 4 {   // four times",
        "",
        "if eq(core, 0) {",
        "DLD b0[{8*i1}], 1@8 | 8@1, T0",
        "} else {",
        "  // the others",
        "DLD b0[0], 1@8 | 8@1, T0",
        "}",
        "DST T0, o0[{8*i1}], 1@8 | 8@1",
        "}",
    )
    program = read_tiles(text)
    (kernel,) = program.kernels
    (loop,) = kernel.body
    assert (
        isinstance(loop, TileLoop)
        and [i.kind for b in (loop.body[0].body, loop.body[0].otherwise) for i in b] == ["load"] * 2
    )
    assert print_tiles(read_tiles(print_tiles(program, "tiles")), "tiles") == print_tiles(
        program, "tiles"
    )
    assembler.assemble(pipeline.run(program, lab.plain))


# --- bad text
# -------------------------------------------------------------------------------------------


BAD = [  # lines, which of them (from 0) is at fault, what the message says of it
    (["NONSENSE T0"], 0, "unknown instruction NONSENSE"),
    (["BARRIER", "DWAIT T9"], 1, "T9 is no slot"),
    (["DWAIT T1[{i7}]"], 0, "i7"),
    (["for i1 = 0, 4 {", "DWAIT T1[{i1}]", "}", "DWAIT T1[{i1}]"], 3, "i1"),
    (["DWAIT T1[{i1 $ 3}]"], 0, "no index expression"),
    (["DWAIT T1[{3 4}]"], 0, "'4' does not belong there"),
    (["DWAIT T1[{min(core, 3}]"], 0, "parenthesis"),
    (["DWAIT T1[{frobnicate(core, 3)}]"], 0, "frobnicate"),
    (["DWAIT T1[{min(core)}]"], 0, "min"),
    (["SORT T2"], 0, "SORT"),
    (["SORT T2, T2, T2"], 0, "SORT"),
    (["DLD b0[0], 4@8 | 8@1"], 0, "DLD"),
    (["DLD b0[0], 4@8 | 8@1, T0, T0"], 0, "DLD"),
    (["DLD b0[0], 32@1, T0"], 0, "at least one row and one column dimension"),
    (["DLD b0[0], 4@8 | 8, T0"], 0, "DLD"),
    (["DLD 64, 4@8 | 8@1, T0"], 0, "64 is no address"),
    (["DST.SUB T0, o0[0], 4@8 | 8@1"], 0, "SUB"),
    (["MM.TC T0, T0, T0"], 0, "TC"),
    (["SCAN T2, T2, T2"], 0, "SCAN"),
    (["SCAN.MEAN T2, T2, T2"], 0, "SCAN does not take .MEAN"),
    (["DSC.MEAN T0, T2, o0[0], 8 | 8@1"], 0, "DSC does not take .MEAN"),
    (["for i1 in 4 {", "}"], 0, "for i1 = 0, 8 {"),
    (["for i1 = 4 {", "}"], 0, "for i1 = 4 {"),
    (["for i1 = 0, 4 {", "BARRIER"], 2, "@ret"),
    (["BARRIER", "}"], 1, "}"),
    (["if core {", "} else {", "} else {", "}"], 2, "} else {"),
    (["@tile T5, l2, f32, 4x8, 1"], 0, "l2"),
    (["@tile T5, am, f33, 4x8, 1"], 0, "f33"),
    (["@tile T5, am, f32, 32, 1"], 0, "@tile T5"),
    (["@tile T5, am, f32, 0x8, 1"], 0, "0x8"),
    (["@tile T0, am, f32, 4x8, 1"], 0, "T0"),
    (["@map 4, T0:v0 -> T0:v0", "@endmap"], 0, "@map 4"),
    (["@map 4 x 8, T0:v0 -> T0:v1", "VIDX 0, {i7}, 1, v1", "@endmap"], 1, "i7"),
    (["@map 4 x 8, T0:v0 -> T0:v0", "VNEG.F32 v0, v1"], 0, "@map"),
    (["@map 4 x 8, T0:v0.diagonal -> T0:v0", "@endmap"], 0, "unknown access"),
    (["@map 4 x 8, T0:v0 -> T0:v0.rmean", "@endmap"], 0, "unknown reduction"),
    (["@map 4 x 8, T0:v0 -> T0:v1", "VFROB.F32 v0, v1", "@endmap"], 1, "VFROB is no operation"),
    (["BARRIER", "@ret", "@frob f, 1"], 2, "@frob"),
]


@pytest.mark.parametrize(
    ("lines", "at", "message"), BAD, ids=[" / ".join(lines) for lines, _, _ in BAD]
)
def test_bad_text_is_shown_with_its_line(lines, at, message):
    with pytest.raises(TileTextError) as failure:
        read_tiles(function(*lines))
    said = str(failure.value)
    assert re.search(rf"\bline {FIRST + at}\b", said), said
    assert message in said, said


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("@program main, host", "@program main"),
        ("@in b0, f32, 64", "@in b0, f32"),
        ("@in b0, f32, 64", "@in b0, f32, sixty"),
        ("@in b1, i64, 8", "@frob b1, i64, 8"),
        ("@out o0, f32, 64", "@arena o0, f32, 64"),
    ],
)
def test_bad_declarations_are_shown_with_their_line(line, bad):
    text = function()
    with pytest.raises(
        TileTextError, match=rf"line {text[: text.index(line)].count(chr(10)) + 1}\b.*{bad}"
    ):
        read_tiles(text.replace(line, bad))


def test_a_function_without_an_end_is_named():
    with pytest.raises(TileTextError, match=r"@func main has no @ret"):
        read_tiles(function().replace("@ret\n", ""))


# --- rules of the machine: text that reads, but that no machine executes
# --------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("MM T3, T3, T3", "MM does not take f16 x f16 -> f16"),
        ("TRANS T0, T2", "TRANS does not convert: f32 to i64"),
        ("SORT T0, T0", "SORT takes tiles of i64"),
        ("MERGE T2, T2, T0", "MERGE takes tiles of i64"),
        ("SCAN.ADD T0, T2, T0", "the carry of a scan of f32 is f64, not i64"),
        ("SCAN.ADD T0, T0, T0", "the carry of a scan of f32 is f64, not f32"),
        ("DLD b0[0], 5@8 | 8@1, T0", "extents 5x8 exceed tile T0"),
        ("DLD b0[0], 4@8 | 3@1 3@1, T0", "extents 4x9 exceed tile T0"),
        ("DLD b0[0], 4@8 | 8@1, T2", "tile T2 is i64, buffer b0 is f32"),
        ("@map 4 x 8, T0:v0 -> T2:v0\n@endmap", "v0 is F32, tile T2 is I64"),
    ],
)
def test_what_breaks_a_rule_of_the_machine_does_not_assemble(lab, line, message):
    text = function("@tile T3, am, f16, 4x4, 1", *line.split("\n"))
    with pytest.raises(asm.AsmError) as failure:
        assembler.assemble(pipeline.run(read_tiles(text), lab.plain))
    assert message in str(failure.value)
