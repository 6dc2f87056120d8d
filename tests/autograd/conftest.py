"""Autograd and its company: each test counts from zero, starts from one seed, and leaves nothing in
flight."""

from collections.abc import Iterator

import pytest
import torch

import ftm_lazy


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch.manual_seed(0)
    ftm_lazy.metrics.reset()
    yield
    torch.accelerator.synchronize()


@pytest.fixture
def native() -> Iterator[None]:
    """Nothing in the test may fall back to the CPU or fail to compile."""
    yield
    torch.accelerator.synchronize()
    counters = ftm_lazy.metrics.counters()
    assert not {
        name: n
        for name, n in counters.items()
        if n and name.startswith(("fallback::", "compile_failures"))
    }
