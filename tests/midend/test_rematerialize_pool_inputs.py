"""Pass `rematerialize-pool-inputs` through the whole compiler and the checked emulator.

Results are compared with PyTorch on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest
import torch
from torch.nn import functional

from emulation import run_assembly
from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.linalg.function import Statement
from ftm_backend.midend import pipeline
from ftm_backend.midend.transforms.tensor.rematerialize_pool_inputs import rematerialize_pool_inputs
from ftm_backend.target import presets
from midend.contraction_programs import assembly
from midend.harness import DTYPES, TOLERANCE
from ops.arrays import from_numpy, to_numpy

M7032 = presets.load("m7032")


@dataclass(frozen=True)
class Stem:
    """Batch norm of an input, an activation, a pooling; and their gradients."""

    shape: tuple[int, int, int, int]
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (2, 2)
    padding: tuple[int, int] = (1, 1)
    activation: str = "relu"
    average: bool = False
    dtype: str = "f32"
    shown: bool = False
    """The image is a result, too."""

    def reference(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Inputs (x, weight, bias, mean, variance, a gradient) and results.

        Results are the pooled feature map, the indices, and the gradient of x.
        """
        generator, dtype, channels = (
            torch.Generator().manual_seed(0),
            DTYPES[self.dtype],
            self.shape[1],
        )
        x = torch.randn(self.shape, generator=generator).to(dtype).requires_grad_()
        stats = torch.float32 if self.dtype in ("f16", "bf16") else dtype
        weight, bias, mean = (
            torch.randn(channels, generator=generator).to(stats) for _ in range(3)
        )
        variance = torch.rand(channels, generator=generator).to(stats)
        image = functional.batch_norm(
            x, mean.clone(), variance.clone(), weight, bias, training=True
        )
        image = functional.relu(image) if self.activation == "relu" else image
        given = {"kernel_size": self.kernel, "stride": self.stride, "padding": self.padding}
        if self.average:
            found = [functional.avg_pool2d(image, **given)]
        else:
            found = list(functional.max_pool2d(image, return_indices=True, **given))
        grad = torch.randn(found[0].shape, generator=generator).to(dtype)
        found += [*torch.autograd.grad(found[0], x, grad), *[image] * self.shown]
        entering = (x, weight, bias, mean, variance, grad)
        return [to_numpy(t.detach()) for t in entering], [to_numpy(t.detach()) for t in found]

    def trace(self) -> str:
        d, s = self.dtype, "f32" if self.dtype in ("f16", "bf16") else self.dtype
        x, pooled = (
            f"[{','.join(map(str, shape))}]" for shape in (self.shape, self.reference()[1][0].shape)
        )
        c = f"{s}[{self.shape[1]}]"
        lists = (
            f"{k}=[{a},{b}]"
            for k, (a, b) in zip(
                ("kernel_size", "stride", "padding"),
                (self.kernel, self.stride, self.padding),
                strict=True,
            )
        )
        given = ", ".join(lists)
        lines = [
            f"%0 = param {d}{x}",
            *(f"%{k} = param {c}" for k in range(1, 5)),
            f"%5 = param {d}{pooled}",
        ]
        lines.append(
            "%6, %7, %8, %9, %10 = aten::_native_batch_norm_legit_functional(input=%0, weight=%1, bias=%2, running_mean=%3, "
            f"running_var=%4, training=true, momentum=0.1, eps=1e-05) : {d}{x}, {c}, {c}, {c}, {c}"
        )
        image = 6
        if self.activation == "relu":
            image = 11
            lines.append(f"%11 = aten::relu(self=%6) : {d}{x}")
        pooled_image, last = (12 if image == 11 else 11), 0
        if self.average:
            given += ", ceil_mode=false, count_include_pad=true, divisor_override=none"
            lines.append(
                f"%{pooled_image} = aten::avg_pool2d(self=%{image}, {given}) : {d}{pooled}"
            )
            last = pooled_image + 1
            lines.append(
                f"%{last} = aten::avg_pool2d_backward(grad_output=%5, self=%{image}, {given}) : {d}{x}"
            )
        else:
            given += ", dilation=[1,1], ceil_mode=false"
            places = pooled_image + 1
            lines.append(
                f"%{pooled_image}, %{places} = aten::max_pool2d_with_indices(self=%{image}, {given}) : {d}{pooled}, i64{pooled}"
            )
            last = places + 1
            gradient = f"aten::max_pool2d_with_indices_backward(grad_output=%5, self=%{image}, {given}, indices=%{places})"
            lines.append(f"%{last} = {gradient} : {d}{x}")
        if self.activation == "relu":
            lines.append(
                f"%{last + 1} = aten::threshold_backward(grad_output=%{last}, self=%{image}, threshold=0) : {d}{x}"
            )
            last += 1
        lines.append(
            f"%{last + 1}, %{last + 2}, %{last + 3} = aten::native_batch_norm_backward(grad_out=%{last}, input=%0, weight=%1, "
            "running_mean=%9, running_var=%10, save_mean=%7, save_invstd=%8, train=true, eps=1e-05, output_mask=[true,true,true]) : "
            f"{d}{x}, {c}, {c}"
        )
        results = [
            f"%{pooled_image}",
            *[f"%{pooled_image + 1}"] * (not self.average),
            f"%{last + 1}",
            *[f"%{image}"] * self.shown,
        ]
        return "trace\n  " + "\n  ".join([*lines, f"return {', '.join(results)}"]) + "\n"

    def linalg(self, cores: int = 8) -> str:
        return str(
            driver.run_from(
                "trace", self.trace(), "linalg", CompileOptions(machine="m7032", cores=cores)
            )
        )


@lru_cache
def compiled(stem: Stem, cores: int, machine: presets.MachineParameters = M7032) -> str:
    return assembly(stem.linalg(cores), replace(machine, cores=cores))


def images(stem: Stem, machine: presets.MachineParameters = M7032) -> bool:
    """Whether a feature map is recomputed: only gradients and summands of its size are stored."""
    function = pipeline.LINALG.read(stem.linalg(), machine)

    def relus() -> int:
        statements = [item for item in function.body if isinstance(item, Statement)]
        return sum(any(r.value.shape == stem.shape for r in s.results) for s in statements)

    before = relus()
    rematerialize_pool_inputs(function, machine)
    return relus() < before


def check(stem: Stem, text: str, cores: int) -> None:
    inputs, wanted = stem.reference()
    got = run_assembly(text, inputs, cores=cores)
    for number, (one, other) in enumerate(zip(got, wanted, strict=True)):
        if other.dtype == np.int64:
            np.testing.assert_array_equal(one, other)
            continue
        a, b = (from_numpy(array, DTYPES[stem.dtype]).double() for array in (one, other))
        tolerance = 20 * TOLERANCE[stem.dtype]
        torch.testing.assert_close(
            a, b, rtol=tolerance, atol=tolerance, msg=lambda text, at=number: f"result {at}: {text}"
        )


CASES = {
    "a network's first": Stem((2, 32, 40, 40)),
    "odd images": Stem((3, 21, 29, 37)),
    "channels in pieces": Stem((1, 133, 22, 23)),
    "windows apart": Stem((2, 40, 32, 33), kernel=(2, 3), stride=(3, 4), padding=(0, 1)),
    "without a border": Stem((2, 33, 32, 34), kernel=(2, 2), padding=(0, 0)),
    "without an activation": Stem(
        (2, 32, 26, 26), kernel=(5, 2), stride=(1, 3), padding=(2, 0), activation="none"
    ),
    "means": Stem((2, 32, 24, 26), average=True),
    "few channels": Stem((2, 3, 40, 41)),
    "one image of one channel": Stem((1, 1, 64, 64)),
}


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_every_stem(name: str, cores: int) -> None:
    assert images(CASES[name])
    for count in {cores, 3}:
        check(CASES[name], compiled(CASES[name], cores), count)


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("name", ["a network's first", "odd images", "means"])
@pytest.mark.parametrize("kilobytes", [48, 128])
def test_small_scratchpads(name: str, dtype: str, kilobytes: int) -> None:
    stem = replace(CASES[name], dtype=dtype)
    check(stem, compiled(stem, 3, replace(M7032, am_bytes=kilobytes * 1024)), 3)


def test_an_image_that_is_a_result_is_computed_once() -> None:
    stem = Stem((2, 32, 40, 40), shown=True)
    assert not images(stem)
    check(stem, compiled(stem, 3), 3)


def test_windows_that_leave_some_of_an_image_out() -> None:
    stem = Stem((2, 40, 31, 34), kernel=(2, 3), stride=(3, 4), padding=(0, 1))
    assert not images(stem)
    check(stem, compiled(stem, 3), 3)
