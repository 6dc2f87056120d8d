"""Pass `fold-pad-into-load`: which copies disappear, and that results stay right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from emulation import run_assembly
from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.linalg.function import Update
from ftm_backend.midend import pipeline
from ftm_backend.midend.transforms.tensor.fold_pad_into_load import fold_pad_into_load
from ftm_backend.target import presets

M7032 = presets.load("m7032")
TIGHT = replace(M7032, am_bytes=32 * 1024, sm_bytes=3 * 1024, gsm_bytes=64 * 1024)
CASES = {  # images, channels, filters, size, window, stride, padding, dilation, groups
    "3x3": (3, 19, 40, (17, 13), (3, 3), 1, (1, 1), 1, 1),
    "7x7 by 2": (2, 3, 24, (29, 31), (7, 7), 2, (3, 3), 1, 1),
    "wide": (2, 5, 33, (19, 16), (3, 2), 1, (6, 4), 3, 1),
    "rows alone": (2, 8, 9, (15, 12), (3, 1), 1, (1, 0), 1, 1),
    "columns alone": (2, 8, 9, (15, 12), (1, 3), 2, (0, 1), 1, 1),
    "larger than the image": (2, 4, 6, (1, 2), (3, 3), 1, (1, 1), 1, 1),
    "groups": (2, 6, 9, (14, 11), (3, 3), 1, (1, 1), 1, 3),
    "one line": (2, 4, 6, (31,), (5,), 1, (2,), 1, 1),
    "three dimensions": (1, 3, 8, (5, 6, 7), (3, 3, 3), 1, (1, 1, 1), 1, 1),
}
DIRECTIONS = ("forward", "input", "weight")
from midend.contraction_programs import assembly


def program(
    name: str, direction: str, dtype: str = "f32"
) -> tuple[str, list[np.ndarray], np.ndarray]:
    """A trace, its arguments and PyTorch's results."""
    n, c, f, size, window, stride, padding, dilation, groups = CASES[name]
    kind = {"f32": torch.float32, "f64": torch.float64}[dtype]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((n, c, *size), generator=generator, dtype=kind, requires_grad=True)
    w = torch.randn((f, c // groups, *window), generator=generator, dtype=kind, requires_grad=True)
    dims = len(size)
    made = [functional.conv1d, functional.conv2d, functional.conv3d][dims - 1](
        x, w, None, stride, padding, dilation, groups
    )
    grad = torch.randn(made.shape, generator=generator, dtype=kind)
    gradients = torch.autograd.grad(made, [x, w], grad)
    wanted = {"forward": made.detach(), "input": gradients[0], "weight": gradients[1]}[direction]
    arrays = [t.detach().numpy() for t in ((x, w) if direction == "forward" else (grad, x, w))]
    types = [f"{dtype}[{','.join(map(str, a.shape))}]" for a in (*arrays, wanted)]
    lists = {
        "stride": (stride,) * dims,
        "padding": padding,
        "dilation": (dilation,) * dims,
        "output_padding": (0,) * dims,
    }
    words = (
        ", ".join(f"{key}=[{','.join(map(str, value))}]" for key, value in lists.items())
        + f", transposed=false, groups={groups}"
    )
    text = "trace\n" + "".join(f"  %{k} = param {t}\n" for k, t in enumerate(types[:-1]))
    if direction == "forward":
        return (
            f"{text}  %2 = aten::convolution(input=%0, weight=%1, bias=none, {words}) : {types[-1]}\n  return %2\n",
            arrays,
            wanted.numpy(),
        )
    mask, kinds, last = (
        ("true,false", f"{types[-1]}, none", 3)
        if direction == "input"
        else ("false,true", f"none, {types[-1]}", 4)
    )
    text += (
        "  %3, %4, %5 = aten::convolution_backward(grad_output=%0, input=%1, weight=%2, bias_sizes=none, "
        f"{words}, output_mask=[{mask},false]) : {kinds}, none\n  return %{last}\n"
    )
    return text, arrays, wanted.numpy()


def compiled(text: str, machine: presets.MachineParameters) -> str:
    linalg = driver.run_from("trace", text, "linalg", CompileOptions(machine="m7032"))
    return assembly(linalg, machine)


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", CASES)
def test_every_direction(name: str, direction: str, cores: int) -> None:
    text, arrays, wanted = program(name, direction)
    for machine in (M7032, TIGHT):
        made = compiled(text, replace(machine, cores=cores))
        (got,) = run_assembly(made, arrays, cores=cores)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", CASES)
def test_in_f64(name: str, direction: str) -> None:
    text, arrays, wanted = program(name, direction, "f64")
    (got,) = run_assembly(compiled(text, replace(M7032, cores=3)), arrays, cores=3)
    np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_no_copy_is_made(direction: str) -> None:
    made = compiled(program("3x3", direction)[0], M7032)
    # windows that are summed on chip need no border
    assert ("FOLD" if direction == "input" else "DLB") in made
    assert made.count("@call") == 1


def _after(text: str, machine: presets.MachineParameters = M7032) -> list[Update]:
    """The updates that the pass leaves."""
    linalg = driver.run_from("trace", text, "linalg", CompileOptions(machine="m7032"))
    function = fold_pad_into_load(pipeline.LINALG.read(linalg, machine), machine)
    return [item for item in function.body if isinstance(item, Update)]


def test_what_others_read_is_copied() -> None:
    x, w, y = "f32[2,4,8,8]", "f32[4,4,3,3]", "f32[2,4,8,8]"
    padded = "  %2 = aten::constant_pad_nd(self=%0, pad=[1,1,1,1], value=0.0) : f32[2,4,10,10]\n"
    words = "stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1"
    product = f"  %3 = aten::convolution(input=%2, weight=%1, bias=none, {words}) : {y}\n"
    head = f"trace\n  %0 = param {x}\n  %1 = param {w}\n"
    assert not _after(f"{head}{padded}{product}  return %3\n")
    assert _after(f"{head}{padded}{product}  return %3, %2\n")
    assert _after(
        f"{head}{padded}{product}  %4 = aten::relu(self=%2) : f32[2,4,10,10]\n  return %3, %4\n"
    )
    assert _after(f"{head}{padded.replace('0.0', '1.0')}{product}  return %3\n")


def test_a_residual_does_not_replace_what_windows_read() -> None:
    shape = (2, 6, 40, 40)
    kind = f"f32[{','.join(map(str, shape))}]"
    words = "stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1"
    text = (
        f"trace\n  %0 = param {kind}\n  %1 = param f32[6,6,3,3]\n  %2 = aten::relu(self=%0) : {kind}\n"
        f"  %3 = aten::convolution(input=%2, weight=%1, bias=none, {words}) : {kind}\n"
        f"  %4 = aten::add.Tensor(self=%2, other=%3, alpha=1) : {kind}\n  %5 = aten::relu(self=%4) : {kind}\n"
        f"  %6 = aten::convolution(input=%5, weight=%1, bias=none, {words}) : {kind}\n"
        f"  %7 = aten::add.Tensor(self=%5, other=%6, alpha=1) : {kind}\n  return %7\n"
    )
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in (shape, (6, 6, 3, 3)))
    kernel = torch.from_numpy(w)
    held = torch.from_numpy(x).relu()
    for _ in range(2):
        held = held + functional.conv2d(held, kernel, padding=1)
        wanted, held = held, held.relu()
    for cores in (1, 3, 8):
        (got,) = run_assembly(compiled(text, replace(M7032, cores=cores)), [x, w], cores=cores)
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=1e-4)
