"""Im2col operands, read in place by ``MMW``, on machines whose DMA overlaps compute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from ftm_backend import assembler
from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, Value
from ftm_backend.machine import Machine
from ftm_backend.midend.lowering.gemm.im2col_geometry import WindowSide, overread_limit, windows
from ftm_backend.midend.schedule.gemm.contraction import axes_of, match
from ftm_backend.target import presets
from midend import trace_programs
from midend.contraction_programs import assembly, product, tensor, zeros
from midend.trace_builder import Program
from midend.trace_programs import M7032, check, convolution

TIGHT = replace(M7032, am_bytes=24 * 1024, sm_bytes=2 * 1024, gsm_bytes=48 * 1024)
SHAPES: dict[str, tuple[Any, ...]] = {
    # images, channels, filters, size, window, stride, dilation
    "3x3": (4, 3, 8, (10, 10), (3, 3), 1, 1),
    "stride 2, 3x2": (3, 5, 7, (11, 9), (3, 2), 2, 1),
    "dilation 2": (2, 4, 6, (12, 12), (3, 3), 1, 2),
    "1x1": (9, 4, 6, (8, 8), (1, 1), 1, 1),
    "1x1, stride 2": (3, 4, 6, (9, 9), (1, 1), 2, 1),
    "one output": (2, 3, 4, (5, 5), (5, 5), 1, 1),
    "3x3 in ragged blocks": (3, 19, 40, (17, 13), (3, 3), 1, 1),
    "stride 2": (2, 23, 100, (15, 21), (3, 3), 2, 1),
    "7x7, stride 2": (2, 3, 24, (29, 31), (7, 7), 2, 1),
    "dilation 3": (2, 5, 33, (19, 16), (3, 2), 1, 3),
    "1x1, stride 3": (2, 9, 50, (16, 19), (1, 1), 3, 1),
}


def tensors(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Random tensors."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def forward(*sizes: Any) -> Program:
    """A convolution without padding."""
    *given, stride, dilation = sizes
    return convolution("forward", *given, stride=stride, dilation=dilation)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", SHAPES)
def test_convolution(name: str, cores: int) -> None:
    program = forward(*SHAPES[name])
    text = trace_programs.assembly(program, replace(TIGHT, cores=cores))
    check(program, text, *{1, 3, cores}, tolerance=1e-4)


def test_strided_windows_are_read_in_place() -> None:
    program = forward(4, 32, 96, (31, 31), (3, 3), 2, 1)
    assert "MMW" in trace_programs.assembly(program)


def test_windows_are_fetched_by_dma_without_a_matrix_in_memory() -> None:
    text = trace_programs.assembly(forward(*SHAPES["3x3"]), presets.load("host"))
    assert text.count("@func ") == 2, "the convolution and main"
    assert "@arena" not in text


def test_sides_are_joined_where_a_granule_holds_what_is_between() -> None:
    # c, n, f, ky, kx: 3x3 windows of images of 16x16, with stride 2 in 15x15
    rows = Affine(0, (256, 1024, 0, 16, 1))
    image = replace(rows, coeffs=(*rows.coeffs, 32, 2))  # and oy, ox
    extents = (4, 2, 8, 3, 3, 7, 7)
    found = windows(
        extents, image, (0, 3, 4), (1, 5, 6), 8, 32, overread_limit(extents, image, 2048, 32)
    )
    assert found is not None
    assert [(side.unit, side.full, side.padded_length) for side in found[-2:]] == [
        (16, 15, 16),
        (1, 15, 16),
    ]
    assert [side.fetched(15) for side in found[-2:]] == [16, 16]
    assert [side.fetched(11) for side in found[-2:]] == [11, 11]
    beyond = windows(
        extents,
        image.shifted(1),
        (0, 3, 4),
        (1, 5, 6),
        8,
        32,
        overread_limit(extents, image.shifted(1), 2048, 32),
    )
    assert beyond is not None
    assert not any(side.padded_length for side in beyond[:-1]), (
        "the last image would be read beyond its end"
    )
    # every second one of 64: to fetch all takes two granules in place of one
    wide = Affine(0, (1024, 64, 2))
    assert all(
        not side.padded_length for side in windows((3, 8, 16), wide, (0,), (1, 2), 8, 32, 32) or ()
    )


@pytest.mark.parametrize("cores", [1, 3, 8])
def test_a_kernel_is_not_shared_with_one_that_reads_nearer_to_the_end(cores: int) -> None:
    """Every third element of rows of 29, from the first on and from the second on: only the former
    may be fetched as whole rows."""
    n, c, f, length = 3, 8, 16, 10
    x, g = tensors((n, c, 29), (n, f, length))
    tx, tg, to = tensor(x.shape), tensor(g.shape), tensor((f, c))
    body = zeros("i", (f, c), "f32")
    for start in (0, 1):
        body += product(
            f"r{start}",
            ("g", tg, "n, f, o"),
            ("x", tx, f"n, c, o * 3 + {start}"),
            "i",
            (to, "f, c"),
            "f,c,n,o",
            "n,o",
        )
    text = f"func.func @main(%x: {tx}, %g: {tg}) -> ({to}, {to}) {{{body}\n  return %r0, %r1 : {to}, {to}\n}}"
    image = assembler.assemble(assembly(text, replace(M7032, cores=cores)))
    with Machine(cores=cores, checked=True) as emulator:
        found = emulator.load(image).run([x, g], [])
    for start, got in enumerate(found):
        np.testing.assert_allclose(
            got, np.einsum("nfo,nco->fc", g, x[:, :, start::3][:, :, :length]), rtol=1e-4, atol=1e-4
        )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("side, window", [(2, 3), (8, 3), (7, 3), (14, 1), (6, 5)])
@pytest.mark.parametrize("direction", ["forward", "input", "weight"])
def test_small_images_two_apart(direction: str, side: int, window: int, cores: int) -> None:
    where = {"stride": 2, "padding": window // 2}
    program = convolution(direction, 3, 6, 20, (side, side), (window, window), **where)
    check(program, trace_programs.assembly(program), cores, tolerance=1e-4)


def test_sides_of_an_image() -> None:
    # n, oh, ow, f, c, ky, kx: rows of 10 pixels, every second one
    image = Affine(0, (300, 20, 2, 0, 100, 10, 1))
    found = windows((4, 4, 4, 8, 3, 3, 3), image, (0, 1, 2), (4, 5, 6), 1)
    assert found == (
        WindowSide(300, ((0, 1),)),
        WindowSide(100, ((3, 1),)),
        WindowSide(10, ((4, 1), (1, 2))),
        WindowSide(1, ((5, 1), (2, 2))),
    )


def test_rows_that_do_not_overlap_make_no_windows() -> None:
    assert windows((4, 8), Affine(0, (8, 1)), (0,), (1,), 8) is None


def test_weights_read_backwards_are_a_box() -> None:
    found = windows((5, 4, 3, 2), Affine(5, (6, 30, -2, -1)), (0,), (1, 2, 3), 1)
    assert found == (
        WindowSide(30, ((1, 1),)),
        WindowSide(6, ((0, 1),)),
        WindowSide(2, ((2, -1),)),
        WindowSide(1, ((3, -1),)),
    )


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
def test_windows_walked_backwards(cores: int) -> None:
    n, f, c, side, window = 2, 19, 23, 9, 3
    x, w = tensors((n, f, side, side), (f, c, window, window))
    out = side - window + 1
    ti, tw, to = tensor(x.shape), tensor(w.shape), tensor((n, c, out, out))
    flipped = product(
        "r",
        ("x", ti, f"n, f, h - y + {window - 1}, w - x + {window - 1}"),
        ("w", tw, "f, c, y, x"),
        "i",
        (to, "n, c, h, w"),
        "n,c,h,w,f,y,x",
        "f,y,x",
    )
    text = f"func.func @main(%x: {ti}, %w: {tw}) -> {to} {{{zeros('i', (n, c, out, out), 'f32')}{flipped}\n  return %r : {to}\n}}"
    wanted = functional.conv_transpose2d(
        torch.from_numpy(x), torch.from_numpy(w), padding=window - 1
    )
    for parameters in (replace(TIGHT, cores=cores), replace(M7032, cores=cores)):
        image = assembler.assemble(assembly(text, parameters))
        with Machine(cores=cores, checked=True) as emulator:
            (got,) = emulator.load(image).run([x, w], [])
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=1e-4)


def test_taps_of_overlapping_windows_stay_in_one_block() -> None:
    """Even if the taps are the outermost dimension of the weights, k is in channel order.

    A box then serves all taps of a window.
    """
    shape = Statement(
        "linalg.generic", (4, 8, 6, 6, 16, 3, 3), (False,) * 4 + (True,) * 3, [], [], []
    )
    image, weight = Value("f32", (4, 16, 8, 8)), Value("f32", (3, 3, 16, 8))
    a = Operand(image, Affine(0, (1024, 0, 8, 1, 64, 8, 1)))
    b = Operand(weight, Affine(0, (0, 1, 0, 0, 8, 384, 128)))
    made = Value("f32", (4, 8, 6, 6))
    factors = Node("in", "f32", (), a), Node("in", "f32", (), b)
    index = Affine(0, (288, 36, 6, 1, 0, 0, 0))
    shape.operands[:] = [a, b]
    shape.results[:] = [
        FunctionResult(
            made,
            index,
            (),
            Node("arith.mulf", "f32", factors),
            "sum",
            Node("constant", "f32", (), 0),
        )
    ]
    found = match(shape)
    assert found is not None
    taps_last, taps_first = (axes_of(found, [], window_boxes=boxes) for boxes in (True, False))
    assert [taps_last.accesses[0].coeffs[axis] for axis in taps_last.k] == [64, 8, 1]
    assert [taps_first.accesses[1].coeffs[axis] for axis in taps_first.k] == [384, 128, 8]
