"""Pooling with line buffers through the whole compiler and the checked emulator.

Results are compared with PyTorch on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from emulation import run_assembly
from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.contraction_programs import assembly
from midend.harness import DTYPES, TOLERANCE
from ops.arrays import from_numpy, to_numpy

M7032 = presets.load("m7032")


@dataclass(frozen=True)
class Pool:
    """A maximum pooling and its gradient."""

    shape: tuple[int, ...]
    kernel: tuple[int, ...] = (3, 3)
    stride: tuple[int, ...] = (2, 2)
    padding: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    ceil: bool = False
    dtype: str = "f32"

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "kernel_size": self.kernel,
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
            "ceil_mode": self.ceil,
        }

    def reference(self) -> tuple[np.ndarray, ...]:
        """x, a gradient, the maxima, their places, the gradient of x."""
        generator = torch.Generator().manual_seed(0)
        # many are equal
        x = torch.randint(-40, 40, self.shape, generator=generator).to(DTYPES[self.dtype])
        flat = x.view(-1)
        flat[::97], flat[::101], flat[::1009] = float("nan"), float("-inf"), float("inf")
        x.requires_grad_()
        pool = functional.max_pool2d if len(self.kernel) == 2 else functional.max_pool3d
        y, places = pool(x, return_indices=True, **self.arguments)
        grad = torch.randn(y.shape, generator=generator).to(y.dtype)
        (gradient,) = torch.autograd.grad(y, x, grad)
        return tuple(to_numpy(t) for t in (x, grad, y, places, gradient))

    def trace(self) -> str:
        y = self.reference()[2].shape
        form, windows = (f"[{','.join(map(str, shape))}]" for shape in (self.shape, y))
        given = ", ".join(
            f"{k}={str(v).lower() if isinstance(v, bool) else list(v)}".replace(", ", ",")
            for k, v in self.arguments.items()
        )
        op, d = f"aten::max_pool{len(self.kernel)}d_with_indices", self.dtype
        return (
            f"trace\n  %0 = param {d}{form}\n  %1 = param {d}{windows}\n"
            f"  %2, %3 = {op}(self=%0, {given}) : {d}{windows}, i64{windows}\n"
            f"  %4 = {op}_backward(grad_output=%1, self=%0, {given}, indices=%3) : {d}{form}\n"
            "  return %2, %3, %4\n"
        )


@lru_cache
def compiled(pool: Pool, cores: int, machine: presets.MachineParameters = M7032) -> str:
    text = driver.run_from(
        "trace", pool.trace(), "linalg", CompileOptions(machine="m7032", cores=cores)
    )
    return assembly(text, replace(machine, cores=cores))


def check(pool: Pool, text: str, cores: int) -> None:
    x, grad, *wanted = pool.reference()
    got = run_assembly(text, [x, grad], cores=cores)
    values, places, gradient = (
        from_numpy(a, DTYPES[pool.dtype] if k != 1 else torch.int64).double()
        for k, a in enumerate(got)
    )
    y, indices, expected = (
        from_numpy(a, DTYPES[pool.dtype] if k != 1 else torch.int64).double()
        for k, a in enumerate(wanted)
    )
    torch.testing.assert_close(values, y, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(places, indices, rtol=0, atol=0)
    torch.testing.assert_close(
        gradient, expected, rtol=TOLERANCE[pool.dtype], atol=TOLERANCE[pool.dtype], equal_nan=True
    )


CASES = {
    "a network's first": Pool((2, 32, 40, 40)),
    "odd images": Pool((3, 21, 29, 37)),
    "planes in pieces": Pool((1, 133, 22, 23)),
    "windows apart": Pool((2, 40, 31, 34), kernel=(2, 3), stride=(3, 4), padding=(0, 1)),
    "windows of all strides": Pool((2, 32, 26, 25), kernel=(5, 2), stride=(1, 3), padding=(2, 0)),
    "the last ones are cut": Pool((2, 33, 30, 26), ceil=True),
    "spread windows": Pool((2, 32, 30, 33), dilation=(2, 1)),
    "tiles": Pool((2, 33, 32, 34), kernel=(2, 2), padding=(0, 0)),
    "volumes": Pool(
        (2, 24, 9, 12, 13),
        kernel=(2, 3, 3),
        stride=(2, 2, 1),
        padding=(0, 1, 1),
        dilation=(1, 1, 1),
    ),
}


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_every_pooling(name: str, cores: int) -> None:
    text = compiled(CASES[name], cores)
    assert "DCW" in text
    for count in {cores, 3}:
        check(CASES[name], text, count)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["a network's first", "odd images"])
def test_every_type(name: str, dtype: str) -> None:
    pool = replace(CASES[name], dtype=dtype)
    text = compiled(pool, 3)
    assert "DCW" in text
    check(pool, text, 3)


@pytest.mark.parametrize("name", ["a network's first", "odd images", "volumes"])
@pytest.mark.parametrize("kilobytes", [24, 64])
def test_small_scratchpads(name: str, kilobytes: int) -> None:
    check(CASES[name], compiled(CASES[name], 3, replace(M7032, am_bytes=kilobytes * 1024)), 3)


def test_empty_batches() -> None:
    pool = Pool((0, 32, 40, 40))
    check(pool, compiled(pool, 2), 2)


def test_few_planes_and_small_images_are_left_to_nests() -> None:
    assert "DCW" not in compiled(Pool((1, 2, 8, 8)), 8)


@pytest.mark.parametrize(
    ("pool", "least"), [(Pool((8, 64, 112, 112)), 0.78), (Pool((16, 48, 64, 61)), 0.75)]
)
def test_images_are_fetched_once(pool: Pool, least: float) -> None:
    text = compiled(pool, 8)
    names = [function.split()[0] for function in text.split("@func ") if "DCW" in function]
    kernels = [
        k for k in cycle_model.model(text, machine="m7032", cores=8).kernels if k.name in names
    ]
    assert len(kernels) == 2
    assert all(k.dma_bytes <= 1.25 * k.least_bytes and k.roofline >= least for k in kernels)
