"""Programs whose values stay in GSM between kernels equal the CPU, in checked mode, on any number
of cores."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.executable import Executable
from ftm_backend.machine import Machine
from ftm_backend.target import presets
from ops import capture

CORES = (1, 2, 3, 7, 8)


def gradients(f: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, ...]]:
    """What gives a function's result and its gradients with respect to all floating arguments."""

    def step(*tensors: Tensor) -> tuple[Tensor, ...]:
        leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in tensors]
        result = f(*leaves)
        weight = torch.linspace(-1, 1, result.numel()).reshape(result.shape)
        return (
            result.detach(),
            *torch.autograd.grad((result * weight).sum(), [x for x in leaves if x.requires_grad]),
        )

    return step


def block(x: Tensor, w1: Tensor, s1: Tensor, w2: Tensor, s2: Tensor) -> Tensor:
    """Convolutions that read borders of what is kept, and normalizations that compute in place."""
    y = F.relu(F.batch_norm(F.conv2d(x, w1, padding=1), None, None, s1, s1, training=True))
    return F.relu(F.batch_norm(F.conv2d(y, w2, padding=1), None, None, s2, s2, training=True) + x)


def deep(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
    """More results than GSM has room for that the next kernel needs, and the backward pass."""
    for _ in range(3):
        x = F.silu(F.batch_norm(F.conv2d(x, w, padding=1), None, None, s, s, training=True))
    return x


def rows(table: Tensor, index: Tensor, w: Tensor) -> Tensor:
    """Gathers from what is kept, and scatters with sums into it backward."""
    return torch.tanh(torch.tanh(table @ w)[index] @ w)


def ordered(x: Tensor) -> Tensor:
    """Sorts, and gathers by where things went."""
    values, places = torch.sort(x * 2, -1)
    return values + torch.gather(x.cumsum(-1), -1, places)


def normal(*shape: int) -> Tensor:
    return torch.randn(shape) * 0.3


PROGRAMS: dict[str, tuple[Callable[..., Tensor], Callable[[], list[Tensor]]]] = {
    "block": (
        block,
        lambda: [
            normal(4, 16, 9, 9),
            normal(16, 16, 3, 3),
            normal(16),
            normal(16, 16, 3, 3),
            normal(16),
        ],
    ),
    "deep": (deep, lambda: [normal(2, 16, 40, 40), normal(16, 16, 3, 3), normal(16)]),
    "rows": (rows, lambda: [normal(40, 32), torch.randint(40, (70,)), normal(32, 32)]),
    "ordered": (ordered, lambda: [normal(50, 90)]),
}


def compiled(
    step: Callable[..., tuple[Tensor, ...]], tensors: list[Tensor], machine: str
) -> tuple[capture.Recording, Executable]:
    recording = capture.function(step, *tensors)
    return recording, driver.compile(str(recording.trace), CompileOptions(machine=machine))


@pytest.mark.parametrize(
    ("name", "preset"), [*((name, "m7032") for name in PROGRAMS), ("deep", "m7002")]
)
def test_programs_equal_the_cpu(name: str, preset: str) -> None:
    torch.manual_seed(0)
    f, make = PROGRAMS[name]
    tensors = make()
    step = gradients(f)
    wanted = step(*tensors)
    recording, executable = compiled(step, tensors, preset)
    assert "@gsm" in executable.asm
    for cores in CORES:
        with Machine(
            cores=cores, checked=True, gsm_bytes=presets.load(preset).gsm_bytes
        ) as machine:
            results = machine.load(executable.image).run(
                [p.detach().contiguous().numpy() for p in recording.params], recording.scalars
            )
        for got, expected in zip(results, wanted, strict=True):
            np.testing.assert_allclose(
                got.reshape(expected.shape),
                expected.numpy(),
                rtol=2e-3,
                atol=2e-4,
                err_msg=f"{cores} cores",
            )


def test_what_a_loop_reads_is_kept() -> None:
    """Windows of what was made before a loop move through GSM."""
    text = (Path(__file__).parents[1] / "golden" / "recurrent.trace").read_text()
    executable = driver.compile(text, CompileOptions(machine="m7032"))
    assert "@gsm" in executable.asm
    results = []
    for cores, image in (
        (2, driver.compile(text, CompileOptions(machine="host")).image),
        *((cores, executable.image) for cores in CORES),
    ):
        with Machine(
            cores=cores, checked=True, gsm_bytes=presets.load("m7032").gsm_bytes
        ) as machine:
            program = machine.load(image)
            numbers = np.random.default_rng(0)
            results.append(
                program.run(
                    [numbers.standard_normal(x.shape).astype(x.dtype) for x in program.inputs]
                )
            )
    for other in results[1:]:
        for got, wanted in zip(other, results[0], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("machine", ["host", "m7032"])
def test_only_where_transfers_overlap(machine: str) -> None:
    f, make = PROGRAMS["block"]
    _, executable = compiled(gradients(f), make(), machine)
    assert ("@gsm" in executable.asm) == (machine == "m7032")


def test_known_functions_keep_what_new_ones_keep() -> None:
    """Twins are made of what was lowered, and of what is known as assembly."""
    f, make = PROGRAMS["deep"]
    driver.forget()
    _, first = compiled(gradients(f), make(), "m7002")
    _, second = compiled(gradients(f), make(), "m7002")
    assert ".copy" in first.asm and first.asm == second.asm and first.image == second.image


class Disk(dict[str, bytes]):
    """Functions as a cache on disk keeps them."""

    def get(self, digests: Sequence[str]) -> dict[str, bytes]:  # type: ignore[override]
        return {digest: self[digest] for digest in digests if digest in self}

    def put(self, functions: Mapping[str, bytes]) -> None:
        assert not self.keys() & functions.keys(), "a function from disk was compiled again"
        self.update(functions)


def test_functions_from_disk_are_cloned_as_well() -> None:
    """Also the ones that only their clones replace: no program calls them."""
    f, make = PROGRAMS["deep"]
    trace, options = (
        str(capture.function(gradients(f), *make()).trace),
        CompileOptions(machine="m7002"),
    )
    disk = Disk()
    driver.forget()
    first = driver.compile(trace, options, disk)
    count = len(disk)
    driver.forget()
    second = driver.compile(trace, options, disk)
    assert ".copy" in first.asm and first.asm == second.asm and first.image == second.image
    assert len(disk) == count > 0


def test_what_is_needed_long_after_is_copied() -> None:
    """It is stored to the arena and to GSM; the next kernel reads it here, the backward pass
    there."""
    f, make = PROGRAMS["deep"]
    _, executable = compiled(gradients(f), make(), "m7002")
    twins = re.findall(r"@func (\S+)\.(x\d+)\n", executable.asm)
    assert "@gsm g0" in executable.asm and twins
    for name, parameter in twins:
        (body,) = re.findall(
            rf"@func {re.escape(name)}\.{parameter}\n(.*?)@ret", executable.asm, re.DOTALL
        )
        assert f"@param {parameter}.copy, f32, out" in body
        stores = re.findall(rf"DST (\S+), {parameter}(\[.*)", body)
        assert stores and stores == re.findall(rf"DST (\S+), {parameter}\.copy(\[.*)", body)
    assert all(
        f"@call {name}" in executable.asm
        for name in re.findall(r"@func (\S+)", executable.asm)
        if name != "main"
    )


def test_what_is_too_large_stays_in_the_arena() -> None:
    large = torch.zeros(1300, 1300)
    _, executable = compiled(lambda x: (((x.cumsum(0) * 2).cumsum(1)),), [large], "m7032")
    assert "@gsm" not in executable.asm and "@arena" in executable.asm
