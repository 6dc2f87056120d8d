"""`bincount` and `unique`, whose results are as large as the values say, against the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ftm_lazy


def same(own: Any, want: Any) -> None:
    own, want = (x if isinstance(x, tuple) else (x,) for x in (own, want))
    for x, y in zip(own, want, strict=True):
        torch.testing.assert_close(x.cpu(), y, equal_nan=True)


@pytest.mark.parametrize("computed", [False, True])
def test_bincount(computed: bool) -> None:
    for numbers in (
        torch.tensor([1, 1, 5]),
        torch.tensor([3], dtype=torch.uint8),
        torch.empty(0, dtype=torch.int64),
    ):
        own = numbers.to("ftm") + 0 if computed else numbers.to("ftm")
        same(torch.bincount(own), torch.bincount(numbers))
        same(torch.bincount(own, minlength=9), torch.bincount(numbers, minlength=9))
        for dtype in (torch.float32, torch.float64, torch.int32, torch.bfloat16):
            weights = torch.arange(len(numbers)).to(dtype)
            same(torch.bincount(own, weights.to("ftm")), torch.bincount(numbers, weights))
    for numbers in (
        torch.tensor([-1]),
        torch.tensor([[1]]),
        torch.tensor([1.0]),
        torch.tensor([True]),
    ):
        with pytest.raises(RuntimeError) as want:
            torch.bincount(numbers)
        with pytest.raises(RuntimeError) as own_error:
            torch.bincount(numbers.to("ftm"))
        assert str(own_error.value) == str(want.value)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.int64, torch.int32, torch.uint8, torch.bool, torch.float32, torch.float64,
        torch.bfloat16,
    ],
)  # fmt: skip
def test_unique(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ftm_lazy.metrics.reset()
    for shape in ((7,), (3, 4), (), (0, 3)):
        numbers = torch.randint(4, shape).to(dtype)
        own = numbers.to("ftm")
        for inverse in (False, True):
            for counts in (False, True):
                same(
                    torch.unique(own, return_inverse=inverse, return_counts=counts),
                    torch.unique(numbers, return_inverse=inverse, return_counts=counts),
                )
                same(
                    torch.unique_consecutive(own, return_inverse=inverse, return_counts=counts),
                    torch.unique_consecutive(numbers, return_inverse=inverse, return_counts=counts),
                )
    assert not [
        name
        for name, count in ftm_lazy.metrics.counters().items()
        if name.startswith("fallback::") and count
    ]


def test_unique_of_special_numbers_and_rows() -> None:
    numbers = torch.tensor([float("nan"), 1.0, float("nan"), -float("inf")])
    same(
        torch.unique(numbers.to("ftm"), return_inverse=True),
        torch.unique(numbers, return_inverse=True),
    )
    rows = torch.tensor([[1, 2], [0, 1], [1, 2]])
    same(
        torch.unique(rows.to("ftm"), dim=0, return_counts=True),
        torch.unique(rows, dim=0, return_counts=True),
    )
