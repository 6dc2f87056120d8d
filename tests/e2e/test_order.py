"""Scans and sorts on the device against the CPU: all dtypes, every dimension, rows longer than
scratchpad, gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import ftm_lazy

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool,
]  # fmt: skip


def rows(dtype: torch.dtype, *shape: int) -> Tensor:
    """Values with ties and, in floats, all that is special."""
    generator = torch.Generator().manual_seed(len(shape))
    x = torch.randint(0, 2 if dtype == torch.bool else 100, shape, generator=generator)
    if not dtype.is_floating_point:
        return x.to(dtype)
    x = (x - 50) / 7
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0])
    chosen = torch.randint(0, 40, shape, generator=generator)
    return torch.where(chosen < 5, special[chosen.clamp(max=4)].to(x.dtype), x).to(dtype)


def check(
    function: Callable[[Tensor], Tensor | tuple[Tensor, ...]], x: Tensor, **tolerance: float
) -> None:
    """The same results on both devices, and no operation left to the CPU."""
    counted = sum(v for k, v in ftm_lazy.metrics.counters().items() if k.startswith("fallback::"))
    want, got = function(x), function(x.to("ftm"))
    pairs = [(want, got)] if isinstance(want, Tensor) else list(zip(want, got, strict=True))
    for expected, result in pairs:
        torch.testing.assert_close(
            result.cpu(), expected, equal_nan=True, **(tolerance or {"rtol": 0, "atol": 0})
        )
    assert counted == sum(
        v for k, v in ftm_lazy.metrics.counters().items() if k.startswith("fallback::")
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_stable_sort(dtype: torch.dtype) -> None:
    for x in (
        rows(dtype, 3, 41, 2),
        rows(dtype, 50).expand(2, 50),
        rows(dtype, 1),
        rows(dtype, 0, 3),
        rows(dtype),
    ):
        for dim in range(-1, x.dim() - 1):
            for descending in (False, True):
                check(
                    lambda t, d=dim, r=descending: torch.sort(t, stable=True, dim=d, descending=r),
                    x,
                )


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.int64, torch.bfloat16], ids=str
)
def test_rows_longer_than_scratchpad(dtype: torch.dtype) -> None:
    x = rows(dtype, 2, 150_000)
    check(lambda t: torch.sort(t, stable=True, dim=1), x)
    check(lambda t: torch.sort(t, stable=True, dim=0, descending=True), x)
    check(lambda t: t.topk(100)[0], x)
    check(lambda t: t.kthvalue(75_000)[0], x)


def test_long_rows_of_many_lengths_share_a_program() -> None:
    """The program merges two to four sorted runs. The last run is complete or shorter."""
    for length in (100_000, 70_000, 131_072, 131_071, 65_537, 200_000, 262_144):
        check(lambda t: torch.sort(t, stable=True), rows(torch.int64, length))


def test_zeros_keep_their_signs() -> None:
    x = torch.tensor([0.0, -0.0, 1.0, -0.0, 0.0, -1.0])
    for dtype in (torch.float32, torch.float64, torch.float16):
        check(lambda t: torch.sort(t, stable=True)[0].signbit(), x.to(dtype))


@pytest.mark.parametrize("dtype", DTYPES[:-1], ids=str)
def test_order_statistics(dtype: torch.dtype) -> None:
    x = rows(dtype, 5, 33)
    for dim in (0, 1):
        check(lambda t, d=dim: t.kthvalue(3, d)[0], x)
        check(lambda t, d=dim: t.median(d)[0], x)
        check(lambda t, d=dim: t.nanmedian(d, keepdim=True)[0], x)
        check(lambda t, d=dim: t.mode(d)[0], x.nan_to_num() if dtype.is_floating_point else x)
        for largest in (True, False):
            check(lambda t, d=dim, r=largest: t.topk(4, d, r)[0], x)
    check(torch.median, x)
    check(torch.nanmedian, x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_running_sums(dtype: torch.dtype) -> None:
    tolerance = (
        {"rtol": 2e-2, "atol": 2e-2}
        if dtype in (torch.float16, torch.bfloat16)
        else {"rtol": 1e-6, "atol": 1e-6}
    )
    x = rows(dtype, 7, 300).nan_to_num(1, 1, 1) if dtype.is_floating_point else rows(dtype, 7, 300)
    for dim in (0, 1):
        check(lambda t, d=dim: t.cumsum(d), x, **tolerance)
        check(lambda t, d=dim: t.flip(d).cumsum(d).flip(d), x, **tolerance)
        check(
            lambda t, d=dim: (
                (t[:, :20] > 0).to(t.dtype).add(1 if t.dtype != torch.bool else False).cumprod(d)
            ),
            x,
            **tolerance,
        )


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_running_sums_of_complex_numbers(dtype: torch.dtype) -> None:
    x = torch.complex(
        rows(torch.float64, 5, 9).nan_to_num(1, 1, 1),
        rows(torch.float64, 9, 5).t().nan_to_num(1, 1, 1),
    ).to(dtype)
    for dim in (0, -1):
        check(lambda t, d=dim: t.cumsum(d), x, rtol=1e-6, atol=1e-6)
    check(lambda t: t.real.cumsum(0, dtype=dtype), x, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_running_extremes(dtype: torch.dtype) -> None:
    for dim in (0, 1):
        check(lambda t, d=dim: torch.cummax(t, d), rows(dtype, 9, 40))
        check(lambda t, d=dim: torch.cummin(t, d), rows(dtype, 9, 40))


def test_long_scans_round_like_the_cpu() -> None:
    x = torch.rand(300_000) - 0.5
    check(lambda t: t.cumsum(0), x, rtol=1e-6, atol=1e-6)
    check(lambda t: torch.logcumsumexp(t, 0), x, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sort(1)[0],
        lambda x: x.topk(3, 0)[0],
        lambda x: x.kthvalue(2, 1)[0],
        lambda x: x.median(0)[0],
        lambda x: x.median(),
        lambda x: x.cumsum(0),
        lambda x: x.cumprod(1),
        lambda x: x.cummax(1)[0],
        lambda x: x.logcumsumexp(0),
        lambda x: x.msort(),
        lambda x: x.quantile(torch.tensor([0.2, 0.7]).to(x.device), 1),
        lambda x: x.mode(1)[0],
    ],
    ids=[
        "sort", "topk", "kthvalue", "median dim", "median", "cumsum", "cumprod", "cummax",
        "logcumsumexp", "msort", "quantile", "mode",
    ],
)  # fmt: skip
def test_fuse_conv_backward(function: Callable[[Tensor], Tensor]) -> None:
    def gradient(x: Tensor) -> Tensor:
        leaf = x.detach().requires_grad_()
        made = function(leaf)
        (
            made * torch.arange(1.0, made.numel() + 1).reshape(made.shape).to(x.device)
        ).sum().backward()
        return leaf.grad

    check(
        gradient,
        torch.randn(6, 9, generator=torch.Generator().manual_seed(0)),
        rtol=1e-5,
        atol=1e-5,
    )
