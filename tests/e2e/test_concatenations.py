"""Concatenations of a varying number of values are compiled to a few programs."""

from __future__ import annotations

import pytest
import torch

import ftm_lazy
from ftm_lazy.compile import compile_client
from ftm_lazy.compile.disk_cache import DiskCache

COUNTS = (20, 21, 64, 16, 4, 2, 66, 255, 200, 77, 3, 126, 127, 63, 42, 15, 8, 31)
"""Of values, one trace after the other."""


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.ones(1).to("ftm").tolist()
    monkeypatch.setattr(compile_client.client(), "_cache", DiskCache(None, 0))
    torch.ftm.empty_cache()


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_few_programs_serve_any_number_of_values(dim: int, trains: bool) -> None:
    """Five that concatenate, and up to three that read the result. The sizes of the values vary,
    too."""
    weight = torch.tensor(2.0, device="ftm", requires_grad=trains)
    for step, count in enumerate(COUNTS):
        if step == 1:
            before = ftm_lazy.metrics.counters()["pieces"]
        values = list(torch.randn(count, 2, 3 + step % 4).unbind())
        joined = torch.cat([v.to("ftm") for v in values], dim)
        loss = (joined * weight).square().mean()
        if trains:
            loss.backward()
        expected = (torch.cat(values, dim).double() * 2).square().mean()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert ftm_lazy.metrics.counters()["pieces"] - before <= 8
