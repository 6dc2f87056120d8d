"""Convolutions and their gradients as contractions over windows, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from midend.contraction_programs import (
    HOST,
    OVERLAPPED,
    SMALL,
    assembly,
    product,
    run,
    tensor,
    zeros,
)

MACHINES = {"host": (HOST, 2), "small": (SMALL, 1), "overlapped": (OVERLAPPED, 3)}
SHAPES = {  # images, channels, filters, height, width, window, stride, dilation
    "3x3": (4, 3, 8, 10, 10, (3, 3), 1, 1),
    "stride 2, 3x2": (3, 5, 7, 11, 9, (3, 2), 2, 1),
    "dilation 2": (2, 4, 6, 12, 12, (3, 3), 1, 2),
    "1x1": (9, 4, 6, 8, 8, (1, 1), 1, 1),
    "1x1, stride 2": (3, 4, 6, 9, 9, (1, 1), 2, 1),
    "one output": (2, 3, 4, 5, 5, (5, 5), 1, 1),
}


def tensors(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Random tensors."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def sizes(shape: tuple) -> tuple:
    """Extents of the result."""
    _, _, _, height, width, (kh, kw), stride, dilation = shape
    return (height - dilation * (kh - 1) - 1) // stride + 1, (
        width - dilation * (kw - 1) - 1
    ) // stride + 1


def forward(shape: tuple) -> str:
    """A program with one named convolution."""
    n, c, f, height, width, (kh, kw), stride, dilation = shape
    ti, tw, to = (
        tensor((n, c, height, width)),
        tensor((f, c, kh, kw)),
        tensor((n, f, *sizes(shape))),
    )
    return f"""
func.func @main(%x: {ti}, %w: {tw}) -> {to} {{{zeros("i", (n, f, *sizes(shape)), "f32")}
  %r = linalg.conv_2d_nchw_fchw {{strides = dense<{stride}> : tensor<2xi64>, dilations = dense<{dilation}> : tensor<2xi64>}}
      ins(%x, %w : {ti}, {tw}) outs(%i : {to}) -> {to}
  return %r : {to}
}}"""


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", SHAPES)
def test_forward(name: str, machine: str) -> None:
    shape = SHAPES[name]
    n, c, f, height, width, window, stride, dilation = shape
    x, w = tensors((n, c, height, width), (f, c, *window))
    parameters, cores = MACHINES[machine]
    (got,) = run(forward(shape), [x, w], parameters, cores)
    wanted = functional.conv2d(
        torch.from_numpy(x), torch.from_numpy(w), stride=stride, dilation=dilation
    )
    np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", SHAPES)
def test_weight_gradient(name: str, machine: str) -> None:
    shape = SHAPES[name]
    n, c, f, height, width, window, stride, dilation = shape
    x, g = tensors((n, c, height, width), (n, f, *sizes(shape)))
    ti, tg, tw = tensor(x.shape), tensor(g.shape), tensor((f, c, *window))
    body = product(
        "r",
        ("g", tg, "n, f, h, w"),
        ("x", ti, f"n, c, h * {stride} + y * {dilation}, w * {stride} + x * {dilation}"),
        "i",
        (tw, "f, c, y, x"),
        "f,c,y,x,n,h,w",
        "n,h,w",
    )
    text = f"func.func @main(%x: {ti}, %g: {tg}) -> {tw} {{{zeros('i', (f, c, *window), 'f32')}{body}\n  return %r : {tw}\n}}"
    parameters, cores = MACHINES[machine]
    (got,) = run(text, [x, g], parameters, cores)
    wanted = torch.nn.grad.conv2d_weight(
        torch.from_numpy(x), (f, c, *window), torch.from_numpy(g), stride=stride, dilation=dilation
    )
    np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("machine", MACHINES)
def test_input_gradient_walks_the_window_backwards(machine: str) -> None:
    n, c, f, size, window = 3, 5, 4, 7, 3
    padded = np.pad(tensors((n, f, size, size))[0], ((0, 0), (0, 0), (2, 2), (2, 2)))
    (w,) = tensors((f, c, window, window))
    tg, tw, ti = tensor(padded.shape), tensor(w.shape), tensor((n, c, size + 2, size + 2))
    flip = f"""
  %flipped = "ftm.view"(%w) {{offset = {window * window - 1} : i64, strides = array<i64: {c * window * window}, {window * window}, {-window}, -1>}}
      : ({tw}) -> {tw}"""
    body = flip + product(
        "r",
        ("g", tg, "n, f, h + y, w + x"),
        ("flipped", tw, "f, c, y, x"),
        "i",
        (ti, "n, c, h, w"),
        "n,c,h,w,f,y,x",
        "f,y,x",
    )
    text = f"func.func @main(%g: {tg}, %w: {tw}) -> {ti} {{{zeros('i', (n, c, size + 2, size + 2), 'f32')}{body}\n  return %r : {ti}\n}}"
    parameters, cores = MACHINES[machine]
    (got,) = run(text, [padded, w], parameters, cores)
    gradient = torch.from_numpy(np.ascontiguousarray(padded[:, :, 2:-2, 2:-2]))
    wanted = torch.nn.grad.conv2d_input((n, c, size + 2, size + 2), torch.from_numpy(w), gradient)
    np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("groups", "channels", "filters"), [(2, 6, 8), (6, 6, 6), (3, 3, 6)])
def test_groups(groups: int, channels: int, filters: int) -> None:
    n, size, window = 3, 9, 3
    out = size - window + 1
    x, w = tensors(
        (n, groups, channels // groups, size, size),
        (groups, filters // groups, channels // groups, window, window),
    )
    to = tensor((n, groups, filters // groups, out, out))
    text = f"""
func.func @main(%x: {tensor(x.shape)}, %w: {tensor(w.shape)}) -> {to} {{{zeros("i", (n, groups, filters // groups, out, out), "f32")}
  %r = linalg.conv_2d_ngchw_gfchw {{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
      ins(%x, %w : {tensor(x.shape)}, {tensor(w.shape)}) outs(%i : {to}) -> {to}
  return %r : {to}
}}"""
    (got,) = run(text, [x, w], SMALL)
    wanted = functional.conv2d(
        torch.from_numpy(x.reshape(n, channels, size, size)),
        torch.from_numpy(w.reshape(filters, channels // groups, window, window)),
        groups=groups,
    )
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted.numpy(), rtol=1e-4, atol=1e-4)


def test_windows_are_fetched_by_dma_without_a_matrix_in_memory() -> None:
    text = assembly(forward(SHAPES["3x3"]))
    assert text.count("@func kernel_") == 1
    assert "@arena" not in text
