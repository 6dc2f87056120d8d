"""Transposed convolutions as a product and col2im: results, matching and plans."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.nn import functional

from ftm_backend import assembler, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.linalg.function import Statement
from ftm_backend.machine import Machine
from ftm_backend.midend import pipeline
from ftm_backend.midend.retry_policy import Restrictions
from ftm_backend.midend.schedule.gemm import candidate_tile_sizes, panel_search
from ftm_backend.midend.schedule.gemm.kernel_schedule import schedule_statements
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.harness import tune

M7032 = presets.load("m7032")
KINDS = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
TOLERANCE = {"f32": 1e-4, "f64": 1e-10, "bf16": 5e-2, "f16": 5e-3}

SHAPES = {  # images, channels, filters, size of the image, window, stride, padding, dilation
    "3x3": (3, 7, 20, (9, 11), (3, 3), (1, 1), (1, 1), (1, 1)),
    "3x3 by 2": (5, 7, 11, (14, 18), (3, 3), (2, 2), (1, 1), (1, 1)),
    "odd sizes": (2, 5, 9, (15, 13), (3, 3), (2, 2), (1, 1), (1, 1)),
    "7x7 by 2, three channels": (2, 3, 16, (28, 32), (7, 7), (2, 2), (3, 3), (1, 1)),
    "1x1 by 2": (9, 6, 5, (8, 8), (1, 1), (2, 2), (0, 0), (1, 1)),
    "1x1 by 2, odd": (2, 6, 5, (9, 7), (1, 1), (2, 2), (0, 0), (1, 1)),
    "one place": (17, 30, 40, (1, 1), (3, 3), (1, 1), (1, 1), (1, 1)),
    "one window": (16, 12, 40, (2, 2), (3, 3), (2, 2), (1, 1), (1, 1)),
    "5x4 by 3 and 2": (2, 6, 5, (17, 22), (5, 4), (3, 2), (2, 0), (1, 1)),
    "stride beyond the window": (2, 4, 6, (13, 15), (2, 2), (4, 3), (0, 0), (1, 1)),
    "dilation 3": (1, 4, 6, (17, 19), (3, 2), (2, 2), (3, 1), (3, 3)),
    "dilation 2, stride 1": (2, 4, 6, (12, 10), (3, 3), (1, 1), (2, 2), (2, 2)),
    "one image, one channel": (1, 1, 4, (6, 6), (3, 3), (2, 2), (1, 1), (1, 1)),
    "vectors": (1, 1, 12, (10, 8), (7, 7), (1, 1), (3, 3), (1, 1)),
    "one filter, one channel": (8, 1, 1, (33, 5), (1, 1), (1, 1), (0, 0), (1, 1)),
    "more than a block": (3, 70, 130, (20, 20), (3, 3), (2, 2), (1, 1), (1, 1)),
    "7x7 by 2, large": (1, 2, 5, (134, 130), (7, 7), (2, 2), (3, 3), (1, 1)),
    "few windows": (16, 64, 128, (4, 4), (3, 3), (2, 2), (1, 1), (1, 1)),
    "pixels that no window sees": (2, 3, 4, (11, 12), (3, 3), (2, 4), (0, 0), (1, 1)),
}


def gradient(
    name: str, dtype: str, transposed: bool = False
) -> tuple[str, list[np.ndarray], np.ndarray]:
    """The trace of an input's gradient or a transposed convolution, its arguments and results."""
    n, c, f, size, window, stride, padding, dilation = SHAPES[name]
    generator = torch.Generator().manual_seed(0)
    kind = KINDS[dtype]
    x = torch.randn((n, c, *size), generator=generator).to(kind)
    w = torch.randn((f, c, *window), generator=generator).to(kind)
    exact = torch.float64 if dtype == "f64" else torch.float32
    leaf = x.to(exact).clone().requires_grad_()
    made = functional.conv2d(leaf, w.to(exact), None, stride, padding, dilation)
    grad = torch.randn(made.shape, generator=generator).to(kind)
    (wanted,) = torch.autograd.grad(made, [leaf], grad.to(exact))
    lists = {"stride": stride, "padding": padding, "dilation": dilation}
    reach = [
        (o - 1) * s - 2 * p + d * (k - 1) + 1
        for o, s, p, d, k in zip(grad.shape[2:], stride, padding, dilation, window, strict=True)
    ]
    lists["output_padding"] = (
        tuple(a - b for a, b in zip(size, reach, strict=True)) if transposed else (0, 0)
    )
    words = ", ".join(f"{key}=[{','.join(map(str, value))}]" for key, value in lists.items())
    tensors = (grad, w) if transposed else (grad, x, w)
    types = [f"{dtype}[{','.join(map(str, t.shape))}]" for t in tensors]
    lines = ["trace", *(f"  %{k} = param {t}" for k, t in enumerate(types))]
    result = f"{dtype}[{','.join(map(str, x.shape))}]"
    if transposed:
        lines += [
            f"  %2 = aten::convolution(input=%0, weight=%1, bias=none, {words}, transposed=true, groups=1) : {result}",
            "  return %2",
        ]
    else:
        lines += [
            f"  %3, %4, %5 = aten::convolution_backward(grad_output=%0, input=%1, weight=%2, bias_sizes=none, {words}, transposed=false, "
            f"groups=1, output_mask=[true,false,false]) : {result}, none, none",
            "  return %3",
        ]
    arrays = [(t.view(torch.uint16) if dtype == "bf16" else t).numpy() for t in tensors]
    return "\n".join(lines) + "\n", arrays, wanted.detach().numpy()


def run(
    text: str,
    arrays: list[np.ndarray],
    dtype: str,
    cores: int,
    machine: str = "m7032",
    folds: bool = True,
) -> np.ndarray:
    assembly = driver.run_from("trace", text, "asm", CompileOptions(machine=machine, cores=cores))
    assert "FOLD" in assembly or not folds
    with Machine(cores=cores, checked=True) as emulator:
        (got,) = emulator.load(assembler.assemble(assembly)).run(arrays, [])
    return torch.from_numpy(got).view(torch.bfloat16).float().numpy() if dtype == "bf16" else got


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """It always pays."""
    tune(monkeypatch, conv_transpose="col2im")


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", SHAPES)
def test_gradient_of_the_input(name: str, cores: int) -> None:
    text, arrays, wanted = gradient(name, "f32")
    np.testing.assert_allclose(
        run(text, arrays, "f32", cores), wanted, rtol=TOLERANCE["f32"], atol=TOLERANCE["f32"]
    )


@pytest.mark.parametrize("cores", [1, 8])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_folded_where_it_pays(name: str, transposed: bool, cores: int) -> None:
    """Also where the phases' products are no work for the matrix unit, as those of single
    channels."""
    text, arrays, wanted = gradient(name, "f32", transposed)
    np.testing.assert_allclose(
        run(text, arrays, "f32", cores, folds=False), wanted, rtol=1e-4, atol=1e-4
    )


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["f64", "bf16", "f16"])
@pytest.mark.parametrize(
    "name",
    ["3x3 by 2", "7x7 by 2, three channels", "1x1 by 2, odd", "one window", "more than a block"],
)
def test_types(name: str, dtype: str) -> None:
    text, arrays, wanted = gradient(name, dtype)
    np.testing.assert_allclose(
        run(text, arrays, dtype, 3),
        wanted,
        rtol=TOLERANCE[dtype],
        atol=TOLERANCE[dtype] * np.abs(wanted).max(),
    )


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("machine", ["mt3000", "m7002"])
def test_other_machines(machine: str) -> None:
    text, arrays, wanted = gradient("3x3 by 2", "f32")
    np.testing.assert_allclose(run(text, arrays, "f32", 2, machine), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "name", ["3x3 by 2", "5x4 by 3 and 2", "dilation 3", "stride beyond the window"]
)
def test_transposed_convolution(name: str) -> None:
    text, arrays, wanted = gradient(name, "f32", transposed=True)
    np.testing.assert_allclose(run(text, arrays, "f32", 3), wanted, rtol=1e-4, atol=1e-4)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of few windows, so that they are rows of small images, too."""
    caches = (panel_search.panel_schedule, panel_search._coarse)
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(candidate_tile_sizes, "LARGE_FEATURE_MAP", 0)
    monkeypatch.setitem(candidate_tile_sizes.LARGEST, "n", 64)
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.usefixtures("always", "small_blocks")
@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize(
    "name", [name for name in SHAPES if "large" not in name and name != "vectors"]
)
def test_rows_of_images(name: str, cores: int) -> None:
    """Windows that see rows of two blocks are computed for both."""
    text, arrays, wanted = gradient(name, "f32")
    np.testing.assert_allclose(
        run(text, arrays, "f32", cores), wanted, rtol=TOLERANCE["f32"], atol=TOLERANCE["f32"]
    )


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 3, 8])
def test_a_large_image_is_made_by_rows(cores: int) -> None:
    text, arrays, wanted = gradient("7x7 by 2, large", "f32")
    np.testing.assert_allclose(run(text, arrays, "f32", cores), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_few_windows_of_an_image_wait_as_they_lie(dtype: str, cores: int) -> None:
    """Where cores share them, their rows are put together on chip."""
    text, arrays, wanted = gradient("few windows", dtype)
    (made,) = folded(text)
    found = schedule_statements("fold", [made], M7032)
    assert found is not None and found.plan is not None
    assert found.plan.split_rows
    got = run(text, arrays, dtype, cores)
    np.testing.assert_allclose(
        got, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * np.abs(wanted).max()
    )


def folded(text: str) -> list[Statement]:
    """The statements that the pass creates for a trace."""
    linalg = driver.run_from("trace", text, "linalg", CompileOptions(machine="m7032"))
    function = pipeline.LINALG.read(linalg, M7032)
    for step in pipeline.PASSES[
        : 1 + [step.name for step in pipeline.PASSES].index("choose-algorithm")
    ]:
        function = step.run(function, M7032)
    return [
        item
        for item in function.body
        if isinstance(item, Statement) and item.op == "ftm.conv_transpose"
    ]


def convolution(side: int, window: int, stride: int, backward: bool, groups: int = 1) -> str:
    out = side // stride
    x, w, y = (
        f"f32[16,64,{side},{side}]",
        f"f32[128,{64 // groups},{window},{window}]",
        f"f32[16,128,{out},{out}]",
    )
    words = f"stride=[{stride},{stride}], padding=[{window // 2},{window // 2}], dilation=[1,1], transposed=false, output_padding=[0,0]"
    if not backward:
        return f"trace\n  %0 = param {x}\n  %1 = param {w}\n  %2 = aten::convolution(input=%0, weight=%1, bias=none, {words}, groups={groups}) : {y}\n  return %2\n"
    return (
        f"trace\n  %0 = param {y}\n  %1 = param {x}\n  %2 = param {w}\n  %3, %4, %5 = aten::convolution_backward(grad_output=%0, input=%1, "
        f"weight=%2, bias_sizes=none, {words}, groups={groups}, output_mask=[true,false,false]) : {x}, none, none\n  return %3\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        convolution(28, 3, 2, False),
        convolution(28, 3, 1, False),
        convolution(28, 3, 2, True, groups=2),
    ],
)
def test_what_is_no_transposed_convolution_stays(text: str) -> None:
    assert not folded(text)


@pytest.mark.parametrize(
    ("side", "window", "stride"), [(28, 3, 2), (56, 1, 2), (14, 3, 2), (32, 3, 2)]
)
def test_a_plan_costs_what_is_charged(side: int, window: int, stride: int) -> None:
    """Within 10%; where all is over soon, within 20%."""
    text = convolution(side, window, stride, backward=True)
    (made,) = folded(text)
    found = schedule_statements("fold", [made], M7032)
    assert found is not None and found.plan is not None
    profile = cycle_model.model(
        driver.run_from("trace", text, "asm", CompileOptions(machine="m7032", cores=8)),
        machine="m7032",
        cores=8,
    )
    charged = sum(kernel.cycles for kernel in profile.kernels if kernel.flops)
    assert found.plan.cycles == pytest.approx(charged, rel=0.1 if side > 14 else 0.2)


VIEWS = {
    "a slice": "sizes=[3,20,9,11], strides=[2970,99,11,1], offset=495",
    "channels last": "sizes=[3,20,9,11], strides=[1980,1,220,20], offset=0",
    "a broadcast": "sizes=[3,20,9,11], strides=[1980,0,11,1], offset=0",
}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_read_in_place(name: str) -> None:
    """A broadcast tensor is no operand of col2im, whatever the user wants."""
    x = torch.randn((3, 30, 9, 11), generator=torch.Generator().manual_seed(0))
    w = torch.randn((20, 7, 3, 3), generator=torch.Generator().manual_seed(1))
    sizes, strides, offset = (
        [int(n) for n in part.split("=")[1].strip("[], ").split(",")]
        for part in VIEWS[name].split(", ")
    )
    view = x.as_strided(sizes, strides, offset[0])
    wanted = functional.conv_transpose2d(view, w, stride=2, padding=1)
    words = "stride=[2,2], padding=[1,1], dilation=[1,1], transposed=true, output_padding=[0,0]"
    text = (
        f"trace\n  %0 = param f32[3,30,9,11]\n  %1 = param f32[20,7,3,3]\n"
        f"  %2 = ftm.view(base=%0, {VIEWS[name]}) : f32[3,20,9,11]\n"
        f"  %3 = aten::convolution(input=%2, weight=%1, bias=none, {words}, groups=1) : "
        f"f32[3,7,17,21]\n  return %3\n"
    )
    got = run(text, [x.numpy(), w.numpy()], "f32", 3, folds=name != "a broadcast")
    np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=1e-4)


def test_another_attempt_takes_the_expansion() -> None:
    """A compilation that leaves the choice out has phases, also where col2im is cheaper."""
    text, _, _ = gradient("3x3 by 2", "f32")
    linalg = driver.run_from("trace", text, "linalg", CompileOptions(machine="m7032"))
    function = pipeline.LINALG.read(linalg, M7032)
    restrictions = Restrictions(skipped=frozenset(["choose-algorithm"]))
    for step in pipeline.pipeline(M7032):
        function = pipeline.apply(step, function, M7032, restrictions)
    assert "FOLD" not in pipeline.TILES.write(function, "")
