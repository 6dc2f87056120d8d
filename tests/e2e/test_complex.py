"""Complex tensors: moves, arithmetic and Fourier transforms compile, the rest falls back, and all
agree with the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import ftm_lazy.metrics as metrics

torch.manual_seed(3)
Z = torch.randn(3, 4, dtype=torch.complex64)
W = torch.randn(4, dtype=torch.complex128).to(torch.complex64)
X = torch.randn(3, 2)


def gradient(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def run(z: Tensor) -> Tensor:
        leaf = z.detach().clone().requires_grad_()
        function(leaf).backward()
        assert leaf.grad is not None
        return leaf.grad

    return run


def written(z: Tensor) -> Tensor:
    made = z.clone()
    made[1] = 0
    made[:, 2] = z[0, 0]
    made.real.add_(1)
    made.imag[0] = 5
    made.view(-1)[::5] *= 2
    return made


NATIVE: dict[str, tuple[Any, ...]] = {
    "view_as_complex": (lambda x: torch.view_as_complex(x) * 2, X),
    "view_as_real": (lambda z: torch.view_as_real(z), Z),
    "from float": (lambda x: x.to(torch.complex128), X),
    "from integers": (lambda x: x.to(torch.complex64), torch.arange(5)),
    "to bool": (lambda z: z.bool(), torch.cat([Z, torch.zeros(1, 4)])),
    "parts": (lambda z: z.real + z.imag, Z),
    "conj": (lambda z: z.conj().clone(), Z),
    "imag of conj": (lambda z: z.conj().imag.clone(), Z),
    "flip of a number": (lambda z: z.flip(0) + z.flip(-1) * 2, Z[0, 0]),
    "adjoint": (lambda z: z.mH.contiguous(), Z),
    "greatest absolute value": (lambda z: torch.linalg.vector_norm(z, ord=torch.inf), Z),
    "norm of rows": (lambda z: torch.linalg.vector_norm(z, dim=-1, keepdim=True), Z),
    "add": (lambda z, w: z + w, Z, W),
    "add real": (lambda z, x: torch.sub(x, z, alpha=3), Z, torch.randn(4)),
    "mul": (lambda z, w: z * w, Z, W),
    "mul real": (lambda z, x: x * z * 2.5 + 1, Z, torch.randn(3, 1)),
    "mul wider": (lambda z, w: z * w, Z, W.to(torch.complex128)),
    "div": (lambda z, w: z / w, Z, W),
    "reciprocal": (lambda z: 2 / z, Z),
    "abs": (lambda z: z.abs(), torch.cat([Z * 1e25, torch.zeros(1, 4)])),
    "angle": (lambda z: z.angle(), Z),
    "sgn": (lambda z: z.sgn(), torch.cat([Z, torch.zeros(1, 4)])),
    "exp": (lambda z: z.exp(), Z),
    "log": (lambda z: z.log(), Z),
    "half": (lambda x: x.chalf().to(torch.complex64) * 2, X),
    "sum": (lambda z: z.sum(1, keepdim=True), Z),
    "mean": (lambda z: z.mean(), Z),
    "matrix product": (lambda z: z.mH @ z, Z),
    "polar": (lambda x: torch.polar(x.abs(), x), X),
    "complex": (lambda x: torch.complex(x, x[:, :1]), X),
    "cat": (lambda z, x: torch.cat([z, x], 1), Z, X),
    "equal": (lambda z: z == z.conj().conj(), Z),
    "where": (lambda z: torch.where(z.real > 0, z, z * 2), Z),
    "writes": (written, Z),
    "empty": (lambda z: z[:0] * 2 + 1, Z),
    "0-dim": (lambda z: z[0, 0] * z[1, 1], Z),
    "fft": (lambda z: torch.fft.fft(z, norm="ortho"), Z),
    "ifftn": (lambda z: torch.fft.ifftn(z), torch.randn(3, 4, 5, dtype=torch.complex128)),
    "rfft2": (lambda x: torch.fft.rfft2(x), torch.randn(5, 6)),
    "irfft odd": (lambda z: torch.fft.irfft(z, n=7), Z),
    "irfft cut": (lambda z: torch.fft.irfft(z, n=4), Z),
    "irfft long": (lambda z: torch.fft.irfft(z, n=200), torch.randn(2, 101, dtype=torch.complex64)),
    "fft split": (lambda z: torch.fft.fft(z, dim=0), torch.randn(360, 2, dtype=torch.complex64)),
    "fft of prime length": (
        lambda z: torch.fft.ifft(z),
        torch.randn(2, 521, dtype=torch.complex64),
    ),
    "gradient of fft": (gradient(lambda z: torch.fft.fft(z).abs().sum()), Z),
    "gradient of rfft": (gradient(lambda x: torch.fft.rfft(x).abs().sum()), X),
    "stft": (
        lambda x: torch.stft(
            x, 16, return_complex=True, window=torch.hann_window(16, device=x.device)
        ),
        torch.randn(2, 50),
    ),
    "gradient": (gradient(lambda z: (z * z.conj()).real.sum()), Z),
    "gradient of abs": (gradient(lambda z: (z * 3 + 1).abs().sum()), Z),
}
NUMBERS: dict[str, tuple[Any, ...]] = {
    "times": (lambda z: z * 2j, Z),
    "times real": (lambda x: x * (1 + 2j), X),
    "times integers": (lambda x: x * 2j, torch.arange(5)),
    "times double": (lambda x: (x * 2j, x[0, 0] * 2j)[1], X.double()),
    "add": (lambda z: z + 1j, Z),
    "alpha": (lambda z, w: torch.add(z, w, alpha=1 - 2j), Z, W),
    "sub": (lambda z: 1j - (z - 2j), Z),
    "div": (lambda z: z / (1 - 2j) + 1j / z, Z),
    "in place": (lambda z: z.clone().mul_(2j).add_(1j).div_(2 + 1j), Z),
    "equal": (lambda z: (z * 0 + 1j == 1j) & (z != 2j), Z),
    "equal real": (lambda x: x.round() == 0j, X),
    "filled": (
        lambda z: z.masked_fill(z.real > 0, 2 + 1j).index_fill(
            1, torch.tensor([1], device=z.device), 3j
        ),
        Z,
    ),
    "full": (lambda z: torch.full_like(z, 1j) * torch.full((4,), 2 - 1j, device=z.device), Z),
    "addcmul": (
        lambda z, w: torch.addcmul(z, z, w, value=0.5) + torch.addcdiv(z, w, z, value=2j),
        Z,
        W,
    ),
    "gradient": (gradient(lambda z: (z * 2j - 1j / z).abs().sum()), Z),
}
FALLING_BACK: dict[str, tuple[Any, ...]] = {
    "power of a number": (lambda z: z**2j, Z),
    "sin": (lambda z: z.sin() + 1, Z),
    "prod": (lambda z: z.prod(), Z),
    "eigenvalues": (lambda x: torch.linalg.eigvals(x @ x.T).real.sort()[0], X),
}


def counted() -> dict[str, int]:
    """Fallbacks and compile failures so far."""
    torch.ftm.synchronize()
    return {
        k: n
        for k, n in metrics.counters().items()
        if n and k.startswith(("fallback::", "compile_failures"))
    }


def agree(case: tuple[Any, ...]) -> None:
    function, *operands = case
    want = function(*operands)
    got = function(*(x.to("ftm") for x in operands))
    assert got.dtype == want.dtype
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NATIVE)
def test_complex_op_compiles(name: str) -> None:
    before = counted()
    agree(NATIVE[name])
    assert counted() == before


@pytest.mark.parametrize("name", NUMBERS)
def test_complex_number_is_recorded(name: str) -> None:
    before = counted()
    agree(NUMBERS[name])
    assert counted() == before


def test_complex_numbers_do_not_recompile() -> None:
    z = Z.to("ftm")
    for k in range(3):
        if k == 1:
            compiled = metrics.counters()["compiles"]
        torch.testing.assert_close((z * complex(k, 2)).cpu(), Z * complex(k, 2))
    assert metrics.counters()["compiles"] == compiled


@pytest.mark.parametrize("name", FALLING_BACK)
def test_complex_op_falls_back(name: str) -> None:
    before = counted()
    agree(FALLING_BACK[name])
    after = counted()
    assert after != before
    assert after.get("compile_failures") == before.get("compile_failures")
