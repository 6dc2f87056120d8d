"""Warnings of eager's kernels: given for the same calls, with the same text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import pytest
import torch

Call = Callable[[str], torch.Tensor]


def _output(device: str, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(2, 3, dtype=dtype, device=device)


CALLS: dict[str, Call] = {
    "resized": lambda device: torch.sum(
        torch.ones(4, 4, device=device), 0, out=_output(device, torch.float32)
    ),
    "eye": lambda device: torch.eye(3, out=_output(device, torch.float32)),
    "multinomial": lambda device: torch.multinomial(
        torch.ones(4, device=device), 2, out=_output(device, torch.int64)
    ),
    "randperm": lambda device: torch.randperm(4, out=_output(device, torch.int64)),
    "index_reduce": lambda device: torch.ones(3, device=device).index_reduce(
        0, torch.tensor([0], device=device), torch.ones(1, device=device), "amax"
    ),
    "index_reduce_": lambda device: torch.ones(3, device=device).index_reduce_(
        0, torch.tensor([0], device=device), torch.ones(1, device=device), "amax"
    ),
    "triangular_solve": lambda device: (
        torch.triangular_solve(torch.eye(2, device=device), torch.eye(2, device=device)).solution
    ),
    "std of one element": lambda device: torch.ones(1, device=device).std(),
    "std of rows": lambda device: torch.ones(3, 2, device=device).std(1, correction=2),
    "var of enough": lambda device: torch.ones(3, 2, device=device).var(0, correction=2),
    "var_mean": lambda device: torch.var_mean(torch.ones(2, 1, device=device), 1)[0],
    "complex to real": lambda device: torch.ones(2, dtype=torch.complex64, device=device).to(
        torch.float32
    ),
}


@pytest.fixture(autouse=True)
def _warn_each_time() -> Iterator[None]:
    """Let warnings that are given once in a process be given by each call."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


def _given(call: Call, device: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(device).cpu()
    # The rest names the source that gives the warning.
    return [str(warning.message).partition(" (Triggered internally")[0] for warning in caught]


@pytest.mark.parametrize("name", CALLS)
def test_as_eager(name: str) -> None:
    assert _given(CALLS[name], "ftm") == _given(CALLS[name], "cpu")
