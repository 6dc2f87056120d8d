"""Pass `fuse-pool-reduction` through the whole compiler and the checked emulator.

Results are compared with PyTorch on the CPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest
import torch
from torch.nn import functional

from emulation import run_assembly
from ftm_backend import codegen, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.midend import pipeline
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.harness import DTYPES, TOLERANCE, tune
from midend.test_rematerialize_pool_inputs import Stem
from ops.arrays import from_numpy, to_numpy

M7032 = presets.load("m7032")
SMALL = replace(M7032, am_bytes=96 * 1024)
"""Tiles do not hold several channels of small images there."""


@dataclass(frozen=True)
class Sums:
    """The gradient of a normalized image behind activation and pooling, and its sums: the gradients
    of the normalization's parameters, or one over ``dims``."""

    stem: Stem
    dims: tuple[int, ...] = ()
    special: bool = False

    @property
    def stats(self) -> str:
        """Element type of the channels' statistics."""
        return "f32" if self.stem.dtype in ("f16", "bf16") else self.stem.dtype

    def reference(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """As `Stem` enters; the gradient of the image, and the sums."""
        inputs, _ = self.stem.reference()
        kinds = [self.stem.dtype, *[self.stats] * 4, self.stem.dtype]
        x, weight, bias, mean, variance, grad = (
            from_numpy(a, DTYPES[kind]).clone() for a, kind in zip(inputs, kinds, strict=True)
        )
        if self.special:
            x[0, 1, 3, 2], x[0, 2, 5, 5], grad[0, 3, 1, 1], grad[0, 4, 0, 0] = (
                float("nan"),
                float("inf"),
                float("nan"),
                float("inf"),
            )
        weight.requires_grad_()
        bias.requires_grad_()
        image = functional.batch_norm(
            x, mean.clone(), variance.clone(), weight, bias, training=True
        )
        given = {
            "kernel_size": self.stem.kernel,
            "stride": self.stem.stride,
            "padding": self.stem.padding,
        }
        pooled = functional.max_pool2d(functional.relu(image), **given)
        found = torch.autograd.grad(pooled, (image, weight, bias), grad)
        sums = [found[0].double().sum(self.dims)] if self.dims else [found[1], found[2]]
        return [to_numpy(t.detach()) for t in (x, weight, bias, mean, variance, grad)], [
            to_numpy(t) for t in (found[0], *sums)
        ]

    def trace(self) -> str:
        """That of the stem, without the gradient of x."""
        lines = self.stem.trace().splitlines()[:-1]
        found = re.match(r"  %(\d+), %(\d+), %(\d+) = .*grad_out=(%\d+)", lines[-1])
        assert found is not None
        _, weight, bias, image = found.groups()
        results = f"{image}, %{weight}, %{bias}"
        if self.dims:
            x = f"{self.stem.dtype}[{','.join(map(str, self.stem.shape))}]"
            left = ",".join(str(n) for k, n in enumerate(self.stem.shape) if k not in self.dims)
            over = f"dim=[{','.join(map(str, self.dims))}], keepdim=false, dtype=none"
            lines[-1] = (
                f"  %{found[1]} = aten::sum.dim_IntList(self={image}, {over}) : {x[: x.index('[')]}[{left}]"
            )
            results = f"{image}, %{found[1]}"
        else:
            lines[-1] = re.sub(
                r"mask=\[true,(.*)\) : [^,]*\],", r"mask=[false,\1) : none,", lines[-1]
            )
        return "\n".join([*lines, f"  return {results}"]) + "\n"


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """It pays wherever it is possible."""
    tune(monkeypatch, fuse_pool_reduction="fuse")
    compiled.cache_clear()


@lru_cache
def compiled(
    program: Sums, cores: int, machine: presets.MachineParameters = SMALL
) -> tuple[str, bool]:
    """Assembly, and whether sums were joined."""
    machine = replace(machine, cores=cores)
    value = pipeline.LINALG.read(
        driver.run_from(
            "trace", program.trace(), "linalg", CompileOptions(machine="m7032", cores=cores)
        ),
        machine,
    )
    joined = False
    for step in pipeline.pipeline(machine):
        value = step.run(value, machine)
        if step.name == "fuse-pool-reduction":
            joined = any(k.kind == "summed-strips" for k in value.kernels)
    return str(codegen.pipeline.run(value, machine)), joined


def check(program: Sums, text: str, cores: int) -> None:
    inputs, wanted = program.reference()
    got = run_assembly(text, inputs, cores=cores)
    dtype = program.stem.dtype
    stats = dtype if program.dims else program.stats
    tolerance = 20 * TOLERANCE[dtype]
    for mine, other, kind in zip(got, wanted, [dtype, stats, stats], strict=False):
        a = from_numpy(mine, DTYPES[kind]).double()
        b = from_numpy(other, DTYPES[kind] if other.dtype != np.float64 else torch.float64).double()
        scale = float(b[b.isfinite()].abs().max()) if b.isfinite().any() else 1.0
        torch.testing.assert_close(
            a, b, rtol=tolerance, atol=tolerance * max(scale, 1), equal_nan=True
        )


CASES = {
    "a network's first": Sums(Stem((2, 32, 40, 40))),
    "odd images": Sums(Stem((3, 21, 29, 37))),
    "many channels": Sums(Stem((3, 131, 22, 26))),
    "many images": Sums(Stem((37, 5, 24, 26))),
    "windows apart": Sums(Stem((2, 40, 32, 33), kernel=(2, 3), stride=(3, 4), padding=(0, 1))),
    "neighbours": Sums(Stem((2, 33, 32, 34), kernel=(2, 2), padding=(0, 0))),
    "NaN and inf": Sums(Stem((3, 33, 40, 36)), special=True),
    "each plane": Sums(Stem((2, 40, 30, 34)), dims=(2, 3)),
}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, cores: int) -> None:
    text, _ = compiled(CASES[name], cores)
    for count in {cores, 3}:
        check(CASES[name], text, count)


@pytest.mark.usefixtures("always")
def test_what_is_joined() -> None:
    joined = {name for name, program in CASES.items() if compiled(program, 2)[1]}
    assert joined >= {"a network's first", "many channels", "NaN and inf", "each plane"}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dims", [(0, 1, 2, 3), (1, 2, 3), (3,), (0,)])
def test_sums_that_do_not_go_with_strips(dims: tuple[int, ...]) -> None:
    program = Sums(Stem((3, 16, 22, 26)), dims=dims)
    check(program, compiled(program, 3)[0], 3)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16"])
@pytest.mark.parametrize("name", ["a network's first", "many channels"])
def test_types(name: str, dtype: str) -> None:
    program = replace(CASES[name], stem=replace(CASES[name].stem, dtype=dtype))
    check(program, compiled(program, 3)[0], 3)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kilobytes", [48, 160, 768])
def test_other_scratchpads(kilobytes: int) -> None:
    program = CASES["a network's first"]
    check(program, compiled(program, 3, replace(M7032, am_bytes=kilobytes * 1024))[0], 3)


def test_it_is_done_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Sums(Stem((8, 16, 64, 64)))
    compiled.cache_clear()
    text, joined = compiled(program, 8, M7032)
    assert joined
    tune(monkeypatch, fuse_pool_reduction="keep")
    compiled.cache_clear()
    apart, _ = compiled(program, 8, M7032)
    assert (
        cycle_model.model(text, machine="m7032", cores=8).cycles
        < cycle_model.model(apart, machine="m7032", cores=8).cycles
    )
    assert not compiled(program, 8, presets.load("host"))[1]
