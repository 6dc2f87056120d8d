"""Pass `fuse-ops`: which statements share a kernel, and the kernels' results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ftm_backend.target import presets
from midend.channel_programs import channels_backward
from midend.harness import check, stages
from midend.linalg_text import Function

RNG = np.random.default_rng(5)
SUM = "%r = arith.addf %x, %a : f32\n linalg.yield %r : f32"
SMALL = replace(presets.load("m7032"), am_bytes=96 * 1024)
MAX = "%r = arith.maximumf %x, %a : f32\n linalg.yield %r : f32"


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def binary(op: str) -> str:
    return f"%r = arith.{op} %a, %b : f32\n linalg.yield %r : f32"


def unary(op: str) -> str:
    return f"%r = {op} %a : f32\n linalg.yield %r : f32"


def kernels(text: str) -> int:
    return stages(text)["fuse-ops"].count('"ftm.kernel"')


def softmax(f: Function, x: str, rows: int, columns: int) -> str:
    kind, stat = f"{rows}x{columns}xf32", f"{rows}xf32"
    low, zero = f.constant("0xFF800000", "f32"), f.constant("0.0", "f32")
    top = f.generic("i j", [(x, "i, j")], (f.fill(low, stat), "i"), MAX, "j")
    e = f.map(
        kind,
        [(x, "i, j"), (top, "i")],
        "%d = arith.subf %a, %b : f32\n %r = math.exp %d : f32\n linalg.yield %r : f32",
    )
    total = f.generic("i j", [(e, "i, j")], (f.fill(zero, stat), "i"), SUM, "j")
    return f.map(kind, [(e, "i, j"), (total, "i")], binary("divf"))


@pytest.mark.parametrize("rows,columns", [(1, 1), (3, 10), (64, 10), (700, 131), (5, 4096)])
def test_softmax_is_one_kernel_with_one_load_and_one_store(rows, columns):
    f = Function()
    x = f.argument(f"{rows}x{columns}xf32")
    text = f.text(softmax(f, x, rows, columns))
    check(text, [normal(rows, columns)])
    if rows > 1 and columns > 1:
        made = stages(text)
        assert made["fuse-ops"].count('"ftm.kernel"') == 1
        assert made["lower-kernels"].count("DLD ") == 1
        assert made["lower-kernels"].count("DST ") == 1


def test_softmax_wider_than_scratchpad_is_several_kernels():
    f = Function()
    x = f.argument("2x200000xf32")
    text = f.text(softmax(f, x, 2, 200_000))
    assert kernels(text) > 1


@pytest.mark.parametrize("length", [23, 24, 25])
def test_two_chains_that_fill_a_kernel_leave_their_reader_outside(length):
    """A kernel holds at most 48 statements, so the reader of both chains gets its own kernel."""
    f = Function()
    ends = [f.argument("10xf32") for _ in range(2)]
    for _ in range(length):
        ends = [f.map("10xf32", [(end, "i")], unary("math.tanh")) for end in ends]
    product = f.map("10xf32", [(ends[0], "i"), (ends[1], "i")], binary("mulf"))
    check(f.text(*ends, product), [normal(10), normal(10)])


def test_softmax_over_two_dimensions_of_four():
    f = Function()
    x = f.argument("2x3x4x5xf32")
    zero = f.constant("0.0", "f32")
    e = f.map("2x3x4x5xf32", [(x, "i, j, k, l")], unary("math.exp"))
    total = f.generic("i j k l", [(e, "i, j, k, l")], (f.fill(zero, "2x3xf32"), "i, j"), SUM, "k l")
    text = f.text(f.map("2x3x4x5xf32", [(e, "i, j, k, l"), (total, "i, j")], binary("divf")))
    assert kernels(text) == 1
    check(text, [normal(2, 3, 4, 5)])


def test_batch_statistics_over_outer_and_inner_dimensions():
    """Batch norm: reduce over n, h, w; normalise."""
    f = Function()
    x, w = f.argument("6x5x4x3xf32"), f.argument("5xf32")
    zero, scale = f.constant("0.0", "f32"), f.constant("0.01388888888", "f32")
    total = f.generic("n c h w", [(x, "n, c, h, w")], (f.fill(zero, "5xf32"), "c"), SUM, "n h w")
    mean = f.map(
        "5xf32", [(total, "i")], f"%r = arith.mulf %a, {scale} : f32\n linalg.yield %r : f32"
    )
    centred = f.map("6x5x4x3xf32", [(x, "i, j, k, l"), (mean, "j")], binary("subf"))
    squares = f.generic(
        "n c h w",
        [(centred, "n, c, h, w")],
        (f.fill(zero, "5xf32"), "c"),
        "%q = arith.mulf %a, %a : f32\n %r = arith.addf %x, %q : f32\n linalg.yield %r : f32",
        "n h w",
    )
    inverse = f.map("5xf32", [(squares, "i")], unary("math.rsqrt"))
    out = f.map(
        "6x5x4x3xf32",
        [(centred, "i, j, k, l"), (inverse, "j"), (w, "j")],
        "%p = arith.mulf %a, %b : f32\n %r = arith.mulf %p, %c : f32\n linalg.yield %r : f32",
    )
    text = f.text(out, mean, inverse)
    assert kernels(text) == 1
    check(text, [normal(6, 5, 4, 3), normal(5)], tolerance=1e-4)


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
def test_channels_that_fill_scratchpad_but_for_a_third_are_read_once(cores):
    """4 x 1500 elements of two inputs and the result take 72 KB of 96.

    Values with one element per channel take no tile.
    """
    f = Function()
    text = f.text(channels_backward(f, 4, 9, 1500))
    made = stages(text, SMALL)
    assert made["fuse-ops"].count('"ftm.kernel"') == 1
    inputs = [normal(4, 9, 1500), normal(4, 9, 1500), 1e-4 * normal(9)]
    check(text, inputs, tolerance=1e-3, machine=SMALL, cores=cores)


@pytest.mark.parametrize(
    "dtype,length,held",
    [("f64", 751, True), ("f64", 1000, False), ("f32", 1700, False), ("f32", 1, True)],
)
def test_channels_are_held_while_they_fit(dtype, length, held):
    f = Function()
    text = f.text(channels_backward(f, 4, 9, length, dtype))
    assert (stages(text, SMALL)["fuse-ops"].count('"ftm.kernel"') == 1) == held
    numbers = [normal(4, 9, length), normal(4, 9, length), 1e-4 * normal(9)]
    inputs = [a.astype({"f32": np.float32, "f64": np.float64}[dtype]) for a in numbers]
    check(text, inputs, tolerance=1e-3, machine=SMALL, cores=3)


@pytest.mark.parametrize("rows,columns", [(4, 6), (300, 96)])
def test_layer_norm_backward_reduces_rows_and_columns_in_one_pass(rows, columns):
    f = Function()
    kind = f"{rows}x{columns}xf32"
    x, dy, w = f.argument(kind), f.argument(kind), f.argument(f"{columns}xf32")
    mean, rstd = f.argument(f"{rows}x1xf32"), f.argument(f"{rows}x1xf32")
    zero = f.constant("0.0", "f32")
    xhat = f.map(
        kind,
        [(x, "i, j"), (mean, "i, 0"), (rstd, "i, 0")],
        "%p = arith.subf %a, %b : f32\n %r = arith.mulf %p, %c : f32\n linalg.yield %r : f32",
    )
    g = f.map(kind, [(dy, "i, j"), (w, "j")], binary("mulf"))
    gx = f.map(kind, [(g, "i, j"), (xhat, "i, j")], binary("mulf"))
    s1 = f.generic("i j", [(g, "i, j")], (f.fill(zero, f"{rows}xf32"), "i"), SUM, "j")
    s2 = f.generic("i j", [(gx, "i, j")], (f.fill(zero, f"{rows}xf32"), "i"), SUM, "j")
    dx = f.map(
        kind,
        [(g, "i, j"), (s1, "i"), (xhat, "i, j"), (s2, "i"), (rstd, "i, 0")],
        "%p = arith.subf %a, %b : f32\n %q = arith.mulf %c, %d : f32\n %s = arith.subf %p, %q : f32\n"
        "%r = arith.mulf %s, %e : f32\n linalg.yield %r : f32",
    )
    dyx = f.map(kind, [(dy, "i, j"), (xhat, "i, j")], binary("mulf"))
    dw = f.generic("i j", [(dyx, "i, j")], (f.fill(zero, f"{columns}xf32"), "j"), SUM, "i")
    db = f.generic("i j", [(dy, "i, j")], (f.fill(zero, f"{columns}xf32"), "j"), SUM, "i")
    text = f.text(dx, dw, db)
    assert kernels(text) == 1
    check(
        text,
        [
            normal(rows, columns),
            normal(rows, columns),
            normal(columns),
            normal(rows, 1),
            normal(rows, 1),
        ],
        tolerance=2e-3,
    )


@pytest.mark.parametrize("count", [1, 70, 50_001])
def test_adamw_step_of_a_parameter_is_one_kernel(count):
    f = Function()
    kind = f"{count}xf32"
    p, m, v, g = (f.argument(kind) for _ in range(4))
    lr = f.argument("f64")
    step = f.line(f"arith.truncf {lr} : f64 to f32", "f32")
    b1, b2, eps = f.constant("0.9", "f32"), f.constant("0.99", "f32"), f.constant("1.0e-08", "f32")
    decayed = f.map(kind, [(p, "i")], f"%q = arith.mulf %a, {b2} : f32\n linalg.yield %q : f32")
    m1 = f.map(
        kind,
        [(m, "i"), (g, "i")],
        f"%d = arith.subf %b, %a : f32\n %q = arith.mulf %d, {b1} : f32\n %r = arith.addf %a, %q : f32\n linalg.yield %r : f32",
    )
    v0 = f.map(kind, [(v, "i")], f"%q = arith.mulf %a, {b2} : f32\n linalg.yield %q : f32")
    v1 = f.map(
        kind,
        [(v0, "i"), (g, "i")],
        "%q = arith.mulf %b, %b : f32\n %r = arith.addf %a, %q : f32\n linalg.yield %r : f32",
    )
    root = f.map(kind, [(v1, "i")], unary("math.sqrt"))
    denominator = f.map(
        kind, [(root, "i")], f"%r = arith.addf %a, {eps} : f32\n linalg.yield %r : f32"
    )
    p1 = f.map(
        kind,
        [(decayed, "i"), (m1, "i"), (denominator, "i")],
        f"%q = arith.divf %b, %c : f32\n %s = arith.mulf %q, {step} : f32\n %r = arith.subf %a, %s : f32\n linalg.yield %r : f32",
    )
    text = f.text(p1, m1, v1)
    made = stages(text)
    assert made["fuse-ops"].count('"ftm.kernel"') == 1
    assert made["lower-kernels"].count("DLD ") == 4
    assert made["lower-kernels"].count("DST ") == 3
    for output, source in (("o0", "b0"), ("o1", "b1"), ("o2", "b2")):
        assert f'[\\"{output}\\", \\"f32\\", [{count}], \\"{source}\\"]' in made["assign-buffers"]
    check(text, [normal(count), normal(count), np.abs(normal(count)), normal(count)], [1e-2])


def test_chain_through_reshapes_shares_a_kernel():
    f = Function()
    x, bias = f.argument("12x20xf32"), f.argument("5xf32")
    a = f.map("12x20xf32", [(x, "i, j")], unary("math.exp"))
    b = f.map(
        "3x4x4x5xf32",
        [(f.view(a, "3x4x4x5xf32", 0, [80, 20, 5, 1]), "i, j, k, l"), (bias, "l")],
        binary("addf"),
    )
    c = f.map("48x5xf32", [(f.view(b, "48x5xf32", 0, [5, 1]), "i, j")], unary("math.tanh"))
    text = f.text(c, a)
    assert kernels(text) == 1
    check(text, [normal(12, 20), normal(5)])


def test_value_used_in_two_orders_is_two_kernels():
    f = Function()
    x = f.argument("20x20xf32")
    a = f.map("20x20xf32", [(x, "i, j")], unary("math.exp"))
    text = f.text(f.map("20x20xf32", [(a, "i, j"), (a, "j, i")], binary("addf")))
    assert kernels(text) == 2
    check(text, [normal(20, 20)])


@pytest.mark.parametrize("columns,count", [(512, 2), (16, 1)])
def test_second_product_of_a_vector_reads_its_weights_by_rows(columns, count):
    """In the kernel of the first product it would load them transposed, unless they are small."""
    f = Function()
    x, a, b = (
        f.argument(f"{shape}xf32") for shape in (columns, f"256x{columns}", f"{columns}x256")
    )
    zero = f.constant("0.0", "f32")
    dot = "%p = arith.mulf %a, %b : f32\n %r = arith.addf %x, %p : f32\n linalg.yield %r : f32"
    hidden = f.generic("i k", [(x, "k"), (a, "i, k")], (f.fill(zero, "256xf32"), "i"), dot, "k")
    active = f.map("256xf32", [(hidden, "i")], unary("math.tanh"))
    out = (f.fill(zero, f"{columns}xf32"), "i")
    text = f.text(f.generic("i k", [(active, "k"), (b, "i, k")], out, dot, "k"))
    assert kernels(text) == count
    scale = np.float32(columns**-0.5)
    check(
        text, [normal(columns) * scale, normal(256, columns), normal(columns, 256)], tolerance=1e-4
    )


def test_no_circle_between_kernels():
    """b depends on a through a transpose, d on b and c, c on a: fusing a, c, d around b would be a
    circle."""
    f = Function()
    x = f.argument("20x30xf32")
    a = f.map("20x30xf32", [(x, "i, j")], unary("math.exp"))
    b = f.map("30x20xf32", [(a, "j, i")], unary("math.tanh"))
    c = f.map("20x30xf32", [(a, "i, j")], unary("math.sqrt"))
    d = f.map("20x30xf32", [(b, "j, i"), (c, "i, j")], binary("addf"))
    e = f.generic("i j", [(d, "i, j")], (f.fill(f.constant("0.0", "f32"), "30xf32"), "j"), SUM, "i")
    check(
        f.text(
            d,
            e,
            f.map(
                "20x30xf32",
                [(d, "i, j"), (e, "j"), (c, "i, j")],
                "%p = arith.mulf %a, %b : f32\n %r = arith.addf %p, %c : f32\n linalg.yield %r : f32",
            ),
        ),
        [normal(20, 30)],
        tolerance=1e-4,
    )


def test_mean_loss_over_rows_of_a_softmax():
    f = Function()
    x, target = f.argument("64x10xf32"), f.argument("64xi64")
    y = softmax(f, x, 64, 10)
    zero = f.constant("0.0", "f32")
    picked = f.map(
        "64xf32",
        [(target, "i")],
        (
            f"%t = arith.index_cast %a : i64 to index\n %i = linalg.index 0 : index\n %v = tensor.extract {y}[%i, %t] : tensor<64x10xf32>\n"
            "%l = math.log %v : f32\n %r = arith.negf %l : f32\n linalg.yield %r : f32"
        ),
    )
    loss = f.generic("i", [(picked, "i")], (f.fill(zero, "f32"), ""), SUM, "i")
    check(f.text(loss, y), [normal(64, 10), RNG.integers(0, 10, 64)])


def test_wide_loss_sums_everything_with_row_statistics():
    f = Function()
    x = f.argument("900x40xf32")
    zero = f.constant("0.0", "f32")
    y = softmax(f, x, 900, 40)
    square = f.map(
        "900x40xf32", [(y, "i, j")], "%r = arith.mulf %a, %a : f32\n linalg.yield %r : f32"
    )
    total = f.generic("i j", [(square, "i, j")], (f.fill(zero, "f32"), ""), SUM, "i j")
    rows = f.generic("i j", [(square, "i, j")], (f.fill(zero, "900xf32"), "i"), SUM, "j")
    logs = f.map("900xf32", [(rows, "i")], unary("math.log"))
    both = f.generic("i", [(logs, "i")], (f.fill(zero, "f32"), ""), SUM, "i")
    text = f.text(total, both)
    assert kernels(text) == 1
    check(text, [normal(900, 40)], tolerance=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    """Random elementwise operations, broadcasts, transposes, reshapes and reductions over a few
    shapes."""
    rng = np.random.default_rng(seed)
    f = Function()
    rows, columns = 6, 8
    square = [f.argument(f"{rows}x{columns}xf32"), f.argument(f"{rows}x{columns}xf32")]
    tall = [f.argument(f"{columns}x{rows}xf32")]
    flat = [f.argument(f"{rows * columns}xf32")]
    row, column = [f.argument(f"{columns}xf32")], [f.argument(f"{rows}xf32")]
    zero = f.constant("0.0", "f32")

    def pick(pool):
        return pool[rng.integers(max(0, len(pool) - 4), len(pool))]

    op = ["addf", "mulf", "maximumf", "subf"]
    for _ in range(24):
        choice = rng.integers(9)
        o = binary(op[rng.integers(4)])
        kind = f"{rows}x{columns}xf32"
        if choice <= 1:
            square.append(f.map(kind, [(pick(square), "i, j"), (pick(square), "i, j")], o))
        elif choice == 2:
            square.append(f.map(kind, [(pick(square), "i, j"), (pick(row), "j")], o))
        elif choice == 3:
            square.append(f.map(kind, [(pick(square), "i, j"), (pick(column), "i")], o))
        elif choice == 4:
            tall.append(
                f.map(f"{columns}x{rows}xf32", [(pick(square), "j, i"), (pick(tall), "i, j")], o)
            )
        elif choice == 5:
            flat.append(
                f.map(
                    f"{rows * columns}xf32",
                    [
                        (f.view(pick(square), f"{rows * columns}xf32", 0, [1]), "i"),
                        (pick(flat), "i"),
                    ],
                    o,
                )
            )
        elif choice == 6:
            column.append(
                f.generic(
                    "i j", [(pick(square), "i, j")], (f.fill(zero, f"{rows}xf32"), "i"), MAX, "j"
                )
            )
        elif choice == 7:
            row.append(
                f.generic(
                    "i j", [(pick(square), "i, j")], (f.fill(zero, f"{columns}xf32"), "j"), MAX, "i"
                )
            )
        else:
            square.append(
                f.map(
                    kind,
                    [(f.view(pick(flat), kind, 0, [columns, 1]), "i, j"), (pick(tall), "j, i")],
                    o,
                )
            )
    inputs = [
        np.clip(normal(*s), -1, 1)
        for s in (
            (rows, columns),
            (rows, columns),
            (columns, rows),
            (rows * columns,),
            (columns,),
            (rows,),
        )
    ]
    results = [pool[-1] for pool in (square, tall, flat, row, column)] + [pick(square), pick(flat)]
    check(f.text(*results), inputs, tolerance=1e-4)


def matmul(f: Function, a: str, b: str, m: int, n: int) -> str:
    zero = f.constant("0.0", "f32")
    kind = f"tensor<{m}x{n}xf32>"
    return f.line(
        f"linalg.matmul ins({a}, {b} : {f.types[a]}, {f.types[b]}) outs({f.fill(zero, f'{m}x{n}xf32')} : {kind}) -> {kind}",
        kind,
    )


def test_reshape_between_a_product_and_its_epilogue():
    f = Function()
    a, b, bias, rest = (
        f.argument("24x16xf32"),
        f.argument("16x32xf32"),
        f.argument("32xf32"),
        f.argument("4x6x32xf32"),
    )
    c = f.view(matmul(f, a, b, 24, 32), "4x6x32xf32", 0, [192, 32, 1])
    text = f.text(
        f.map(
            "4x6x32xf32",
            [(c, "i, j, k"), (bias, "k"), (rest, "i, j, k")],
            "%p = arith.addf %a, %b : f32\n %q = math.tanh %p : f32\n %r = arith.addf %q, %c : f32\n linalg.yield %r : f32",
        )
    )
    assert kernels(text) == 1
    check(text, [normal(24, 16), normal(16, 32), normal(32), normal(4, 6, 32)], tolerance=1e-4)


def test_product_stored_as_heads():
    """[24, 32] = [2, 12, 4, 8] stored as [2, 4, 12, 8]: the product's own loops are split."""
    f = Function()
    a, b = f.argument("24x16xf32"), f.argument("16x32xf32")
    c = f.view(matmul(f, a, b, 24, 32), "2x12x4x8xf32", 0, [384, 32, 8, 1])
    text = f.text(
        f.map(
            "2x4x12x8xf32",
            [(c, "i, k, j, l")],
            "%r = arith.addf %a, %a : f32\n linalg.yield %r : f32",
        )
    )
    check(text, [normal(24, 16), normal(16, 32)], tolerance=1e-4)


def test_flat_epilogue_of_a_product():
    f = Function()
    a, b, rest = f.argument("24x16xf32"), f.argument("16x32xf32"), f.argument("768xf32")
    c = f.view(matmul(f, a, b, 24, 32), "768xf32", 0, [1])
    text = f.text(f.map("768xf32", [(c, "i"), (rest, "i")], binary("addf")))
    assert kernels(text) == 1
    check(text, [normal(24, 16), normal(16, 32), normal(768)], tolerance=1e-4)


def test_epilogue_that_stores_into_a_frame_keeps_its_own_loops():
    f = Function()
    a, b = f.argument("24x16xf32"), f.argument("16x32xf32")
    c = f.view(matmul(f, a, b, 24, 32), "4x6x32xf32", 0, [192, 32, 1])
    doubled = f.map(
        "4x6x32xf32", [(c, "i, j, k")], "%r = arith.addf %a, %a : f32\n linalg.yield %r : f32"
    )
    frame = f.fill(f.constant("0.0", "f32"), "4x8x34xf32")
    text = f.text(f.update(frame, doubled, 35, [272, 34, 1]))
    check(text, [normal(24, 16), normal(16, 32)], tolerance=1e-4)


def test_an_operand_that_is_never_read_orders_nothing():
    """The kernel of its reader may come before that of its maker."""
    f = Function()
    a, b = f.argument("30x20xf32"), f.argument("30x20xf32")
    unread = f.generic(
        "i j", [(a, "i, j")], (f.fill(f.constant("0.0", "f32"), "30xf32"), "i"), SUM, "j"
    )
    scaled = f.map(
        "30x20xf32",
        [(b, "i, j"), (unread, "i")],
        "%r = arith.mulf %a, %a : f32\n linalg.yield %r : f32",
    )
    later = f.map(
        "30x20xf32",
        [(scaled, "i, j"), (unread, "i")],
        "%r = arith.addf %a, %b : f32\n linalg.yield %r : f32",
    )
    check(f.text(scaled, later, unread), [normal(30, 20), normal(30, 20)], tolerance=1e-4)
    f = Function()
    a, b = f.argument("30x20xf32"), f.argument("30x20xf32")
    made = f.map("30x20xf32", [(a, "i, j")], "%r = arith.mulf %a, %a : f32\n linalg.yield %r : f32")
    over = f.generic(
        "i j", [(b, "i, j")], (made, "i, j"), "%r = arith.negf %a : f32\n linalg.yield %r : f32"
    )
    assert stages(f.text(over))["asm"].count("@func kernel_") == 1
    check(f.text(over), [normal(30, 20), normal(30, 20)])
