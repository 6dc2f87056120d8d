"""Factors of 0 in scaled sums of products, and exponents that rounding would change, have eager's
values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

NAN, INF = float("nan"), float("inf")
FACTORS = [(1, 0), (0, 1), (0, 0), (2, 0), (1, 2), (0, NAN), (NAN, 0)]

OPS: dict[str, Callable[..., Tensor]] = {
    "addmm": lambda t, **f: torch.addmm(t(3, 4), t(3, 5), t(5, 4), **f),
    "addmm of a row": lambda t, **f: torch.addmm(t(4), t(3, 5), t(5, 4), **f),
    "addmm of nothing": lambda t, **f: torch.addmm(t(3, 4), t(3, 0), t(0, 4), **f),
    "addmv": lambda t, **f: torch.addmv(t(3), t(3, 5), t(5), **f),
    "addmv of nothing": lambda t, **f: torch.addmv(t(3), t(3, 0), t(0), **f),
    "addr": lambda t, **f: torch.addr(t(3, 4), t(3), t(4), **f),
    "addbmm": lambda t, **f: torch.addbmm(t(3, 4), t(2, 3, 5), t(2, 5, 4), **f),
    "small baddbmm": lambda t, **f: torch.baddbmm(t(2, 3, 4), t(2, 3, 5), t(2, 5, 4), **f),
    "large baddbmm": lambda t, **f: torch.baddbmm(t(2, 8, 8), t(2, 8, 8), t(2, 8, 8), **f),
    "baddbmm of nothing": lambda t, **f: torch.baddbmm(t(2, 3, 4), t(2, 3, 0), t(2, 0, 4), **f),
}
SCALED: dict[str, Callable[..., Tensor]] = {
    "add": lambda x, y, z, a: torch.add(x, y, alpha=a),
    "sub": lambda x, y, z, a: torch.sub(x, y, alpha=a),
    "rsub": lambda x, y, z, a: torch.rsub(x, y, alpha=a),
    "addcmul": lambda x, y, z, a: torch.addcmul(x, y, z, value=a),
    "addcdiv": lambda x, y, z, a: torch.addcdiv(x, y, z, value=a),
    "index_add": lambda x, y, z, a: x.index_add(
        0, torch.tensor([0, 0, 1, 2], device=x.device), y, alpha=a
    ),
    "lerp": lambda x, y, z, a: torch.lerp(x, y, a),
}


def filled(device: str, dtype: torch.dtype, bad: float, position: int) -> Callable[..., Tensor]:
    """Makes operands; the one at ``position`` has a ``bad`` first element."""
    made = 0

    def make(*shape: int) -> Tensor:
        nonlocal made
        torch.manual_seed(made)
        x = torch.randn(shape)
        if made == position and x.numel():
            x.view(-1)[0] = bad
        made += 1
        return x.to(dtype).to(device)

    return make


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("name", OPS)
def test_a_factor_of_zero_leaves_its_term_out(name: str, position: int, dtype: torch.dtype) -> None:
    for beta, alpha in FACTORS:
        if name == "large baddbmm" and alpha != alpha:
            continue  # MKL takes such a factor for 1
        for bad in (NAN, INF):
            eager, ours = (
                OPS[name](filled(device, dtype, bad, position), beta=beta, alpha=alpha)
                for device in ("cpu", "ftm")
            )
            torch.testing.assert_close(ours.cpu(), eager, equal_nan=True)


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("name", SCALED)
def test_elementwise_factors_of_zero_do_not(name: str, position: int) -> None:
    for bad in (NAN, INF):
        for factor in (0.0, 1.0, NAN):
            results = []
            for device in ("cpu", "ftm"):
                make = filled(device, torch.float32, bad, position)
                results.append(SCALED[name](make(4), make(4), make(4), factor).cpu())
            torch.testing.assert_close(results[1], results[0], equal_nan=True)


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
@pytest.mark.parametrize("factor", [0.0, 0.37, -2.0])
def test_the_factor_multiplies_the_first_tensor(name: str, factor: float) -> None:
    """As in eager, where the product or quotient of both tensors overflows."""
    for dtype in (torch.float32, torch.float64):
        large = torch.finfo(dtype).max / 2
        x = torch.randn(64, dtype=dtype)
        y = torch.cat([x.sin(), torch.tensor([large, -7.0, large], dtype=dtype)])
        z = torch.cat([x.cos(), torch.tensor([-5.0, large, 1e-3], dtype=dtype)])
        x = torch.cat([x, torch.tensor([1.0, 2.0, 3.0], dtype=dtype)])
        eager, ours = (
            SCALED[name](*(t.to(on) for t in (x, y, z)), factor) for on in ("cpu", "ftm")
        )
        torch.testing.assert_close(ours.cpu(), eager)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_the_factor_of_addr_multiplies_the_first_vector(dtype: torch.dtype) -> None:
    """As in eager, where the product of both vectors overflows."""
    large = torch.finfo(dtype).max / 2
    x = torch.randn(3, 4).to(dtype)
    rows, columns = torch.tensor([large, 1.5, -large], dtype=dtype), torch.randn(4).to(dtype) + 3
    for run in (torch.addr, torch.Tensor.addr_, lambda *t, **f: torch.addr(*t, **f, out=t[0])):
        eager, ours = (
            run(x.to(on, copy=True), rows.to(on), columns.to(on), beta=0.5, alpha=2**-6)
            for on in ("cpu", "ftm")
        )
        assert eager.isfinite().all()
        torch.testing.assert_close(ours.cpu(), eager)


def test_addr_converts_integers_before_it_multiplies() -> None:
    x, rows, columns = torch.zeros(1, 1, dtype=torch.double), torch.tensor([3]), torch.tensor([1.0])
    eager, ours = (
        torch.addr(x.to(on), rows.to(on), columns.to(on), alpha=0.1) for on in ("cpu", "ftm")
    )
    torch.testing.assert_close(ours.cpu(), eager, rtol=1e-15, atol=0)


def test_no_factor_is_a_new_program() -> None:
    from ftm_lazy import metrics

    make = filled("ftm", torch.float32, NAN, 1)
    x, y, z = make(3, 3), make(3, 3), make(3, 3)
    torch.addmm(x, y, z, alpha=1.5).cpu()
    before = metrics.counters()["compiles"]
    for alpha in (0.0, 0.5, 2.0):
        torch.addmm(x, y, z, alpha=alpha).cpu()
    assert metrics.counters()["compiles"] == before


@pytest.mark.parametrize(
    "exponent",
    [2.0000001, 3.00000001, 1.00000001, -1.00000001, -2.0000000001, 16777217.0, 2.001, 0.50000001],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_exponents_near_whole_numbers(dtype: torch.dtype, exponent: float) -> None:
    """As the CPU computes one element: its vectors round the exponent first."""
    if dtype is torch.float16 and exponent > 65504:
        pytest.skip("not a float16")
    for base in (-3.0, 3.0, -1.0, -0.0, 0.0, -INF, INF, NAN):
        x = torch.tensor([base], dtype=dtype)
        torch.testing.assert_close((x.to("ftm") ** exponent).cpu(), x**exponent, equal_nan=True)
