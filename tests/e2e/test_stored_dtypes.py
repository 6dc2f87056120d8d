"""Unsigned integers and numbers of eight bits: stored, moved and converted by compiled programs;
bits read as another dtype."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

import ftm_lazy
from e2e.counting import fallbacks

UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
FLOAT8 = (
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)
STORED = (*UNSIGNED, *FLOAT8)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
WIDTHS = (
    torch.uint8, torch.int16, torch.float16, torch.float32, torch.int32, torch.float64, torch.int64,
    torch.uint16, torch.float8_e5m2,
)  # fmt: skip


@pytest.fixture(autouse=True)
def strict_compiles():
    """Nothing here may fall back or fail to compile."""
    yield
    counters = ftm_lazy.metrics.counters()
    assert not fallbacks(counters) and not counters["compile_failures"]


def bits(x: Tensor) -> Tensor:
    """The bytes of ``x`` on the CPU, NaN of the usual dtypes all alike."""
    x = x.cpu().contiguous()
    return x.nan_to_num(12345.0).view(torch.uint8) if x.dtype in FLOATS else x.view(torch.uint8)


def every(dtype: torch.dtype) -> Tensor:
    """Every number of a float8; unsigned integers of every size."""
    if dtype in FLOAT8:
        return torch.arange(256).to(torch.uint8).view(dtype)
    generator = torch.Generator().manual_seed(0)
    wide = torch.randint(-(2**63), 2**63 - 1, (300,), generator=generator)
    return torch.cat([wide >> shift for shift in (0, 20, 40, 52, 58)]).to(dtype)


def numbers(dtype: torch.dtype) -> Tensor:
    """Numbers of ``dtype`` of every size, and those at which roundings differ."""
    generator = torch.Generator().manual_seed(1)
    any_bits = (
        torch.randint(0, 2**32, (3000,), generator=generator).to(torch.uint32).view(torch.float32)
    )
    corners = [
        0.0,
        -0.0,
        float("inf"),
        -float("inf"),
        float("nan"),
        448.0,
        464.0,
        465.0,
        240.0,
        248.0,
        61440.0,
        1.5,
        6.0,
        1e-40,
    ]
    return torch.cat(
        [any_bits, torch.tensor(corners), torch.randn(500, generator=generator) * 100]
    ).to(dtype)


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_conversion_to_every_float(dtype: torch.dtype) -> None:
    x = every(dtype)
    for target in (*FLOATS, *FLOAT8):
        assert torch.equal(bits(x.to("ftm").to(target)), bits(x.to(target))), target


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_conversion_from_every_float(dtype: torch.dtype) -> None:
    for source in FLOATS:
        x = numbers(source)
        assert torch.equal(bits(x.to("ftm").to(dtype)), bits(x.to(dtype))), source


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_conversion_between_integers(dtype: torch.dtype) -> None:
    for other in (*INTEGERS, *UNSIGNED, torch.bool):
        x = every(dtype)
        assert torch.equal(bits(x.to("ftm").to(other)), bits(x.to(other))), other
        y = every(torch.int64).to(other)
        assert torch.equal(bits(y.to("ftm").to(dtype)), bits(y.to(dtype))), other


def test_unsigned_numbers_above_the_signed_range_come_from_floats() -> None:
    x = torch.tensor([0.0, 1.75, 3e9, 2.0**62, 2.0**63, 1.5 * 2**63], dtype=torch.float64)
    assert torch.equal(bits(x.to("ftm").to(torch.uint64)), bits(x.to(torch.uint64)))
    y = torch.tensor([0.0, 1.75, 2.0**31, 4e9])
    assert torch.equal(bits(y.to("ftm").to(torch.uint32)), bits(y.to(torch.uint32)))


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_moves(dtype: torch.dtype) -> None:
    def moved(device: str) -> list[Tensor]:
        x = (torch.arange(1.0, 13.0, device=device) * 2).to(dtype).view(3, 4)
        y = x.clone()
        y[1:, 2] = x[:2, 0]
        y[0].fill_(3)
        index = torch.tensor([2, 0], device=device)
        return [
            x.t().contiguous(),
            y,
            torch.cat([x, y]),
            x[index],
            torch.where(y.float() > 9, x, y),
            torch.stack([x[0], y[1]]),
            torch.zeros(3, dtype=dtype, device=device),
            torch.full((2,), 2, dtype=dtype, device=device),
            x.repeat(2, 2),
            nn_embedding(index, x),
            x.expand(2, 3, 4).clone(),
            x.roll(1, 0),
        ]

    def nn_embedding(index: Tensor, table: Tensor) -> Tensor:
        return torch.nn.functional.embedding(index, table)

    for got, want in zip(moved("ftm"), moved("cpu"), strict=True):
        assert got.dtype == want.dtype and torch.equal(bits(got), bits(want))


@pytest.mark.parametrize("source", [torch.float32, torch.int64, torch.float16, torch.int8], ids=str)
def test_pending_bits_are_read_as_another_width(source: torch.dtype) -> None:
    x = torch.arange(-24, 24).to(source)
    for dtype in WIDTHS:
        y = x.to("ftm")
        assert torch.equal(bits((y + y).view(dtype)), bits((x + x).view(dtype))), dtype


def test_pending_tensors_are_copied_deeply() -> None:
    x = torch.randn(4, 3)
    y = x.to("ftm") * 2
    assert torch.equal(copy.deepcopy(y).cpu(), x * 2)
