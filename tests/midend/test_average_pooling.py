"""Average pooling and its gradient through the whole compiler and the checked emulator.

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
from ftm_backend.target import presets
from midend.contraction_programs import assembly
from midend.harness import DTYPES, TOLERANCE
from ops.arrays import from_numpy, to_numpy

M7032 = presets.load("m7032")


@dataclass(frozen=True)
class Pool:
    """An average pooling of images or volumes, and its gradient."""

    shape: tuple[int, ...]
    kernel: tuple[int, ...] = (3, 3)
    stride: tuple[int, ...] = (2, 2)
    padding: tuple[int, ...] = (1, 1)
    ceil: bool = False
    padded: bool = True
    divisor: int | None = None
    dtype: str = "f32"

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "kernel_size": self.kernel,
            "stride": self.stride,
            "padding": self.padding,
            "ceil_mode": self.ceil,
            "count_include_pad": self.padded,
            "divisor_override": self.divisor,
        }

    def reference(self) -> tuple[np.ndarray, ...]:
        """x, a gradient, the averages, the gradient of x."""
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(self.shape, generator=generator).to(DTYPES[self.dtype])
        if x.numel():
            x.view(-1)[::997] = float("inf")
        x.requires_grad_()
        y = (functional.avg_pool2d if len(self.kernel) == 2 else functional.avg_pool3d)(
            x, **self.arguments
        )
        grad = torch.randn(y.shape, generator=generator).to(y.dtype)
        (gradient,) = torch.autograd.grad(y, x, grad)
        return tuple(to_numpy(t) for t in (x, grad, y, gradient))

    def trace(self) -> str:
        form, windows = (
            f"[{','.join(map(str, shape))}]" for shape in (self.shape, self.reference()[2].shape)
        )
        words = {None: "none", True: "true", False: "false"}
        given = ", ".join(
            f"{k}={words[v] if v is None or isinstance(v, bool) else v if isinstance(v, int) else list(v)}".replace(
                ", ", ","
            )
            for k, v in self.arguments.items()
        )
        op, d = f"aten::avg_pool{len(self.kernel)}d", self.dtype
        return (
            f"trace\n  %0 = param {d}{form}\n  %1 = param {d}{windows}\n  %2 = {op}(self=%0, {given}) : {d}{windows}\n"
            f"  %3 = {op}_backward(grad_output=%1, self=%0, {given}) : {d}{form}\n  return %2, %3\n"
        )


@lru_cache
def compiled(pool: Pool, cores: int) -> str:
    text = driver.run_from(
        "trace", pool.trace(), "linalg", CompileOptions(machine="m7032", cores=cores)
    )
    return assembly(text, replace(M7032, cores=cores))


def check(pool: Pool, text: str, cores: int) -> None:
    x, grad, *wanted = pool.reference()
    found = run_assembly(text, [x, grad], cores=cores)
    for got, expected in zip(found, wanted, strict=True):
        near = TOLERANCE[pool.dtype]
        torch.testing.assert_close(
            *(from_numpy(a, DTYPES[pool.dtype]).double() for a in (got, expected)),
            rtol=near,
            atol=near,
        )


CASES = {
    "halves": Pool((2, 33, 32, 34), kernel=(2, 2), padding=(0, 0)),
    "overlapping": Pool((2, 32, 40, 40)),
    "odd images": Pool((3, 21, 29, 37), padded=False),
    "windows apart": Pool((2, 40, 31, 34), kernel=(2, 3), stride=(3, 4), padding=(0, 1)),
    "the last ones are cut": Pool((2, 33, 30, 26), ceil=True, padded=False),
    "a divisor": Pool((2, 20, 26, 25), kernel=(5, 2), stride=(1, 3), padding=(2, 0), divisor=7),
    "whole images": Pool((4, 65, 7, 7), kernel=(7, 7), stride=(1, 1), padding=(0, 0)),
    "volumes": Pool((2, 24, 9, 12, 13), kernel=(2, 3, 3), stride=(2, 2, 1), padding=(0, 1, 1)),
}


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_every_pooling(name: str, cores: int) -> None:
    for count in {cores, 3}:
        check(CASES[name], compiled(CASES[name], cores), count)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["overlapping", "odd images"])
def test_every_type(name: str, dtype: str) -> None:
    pool = replace(CASES[name], dtype=dtype)
    check(pool, compiled(pool, 3), 3)


def test_empty_batches() -> None:
    pool = Pool((0, 32, 40, 40))
    check(pool, compiled(pool, 2), 2)
