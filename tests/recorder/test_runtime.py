"""`_reset` leaves a process as a new one is: no programs, and no history of traces."""

from __future__ import annotations

import torch

from ftm_lazy import _C


def pieces_of(steps: int, weight: torch.Tensor) -> int:
    """How many programs a loop of so many iterations is launched as."""
    before = _C._counters().get("executions", 0)
    x = weight
    for _ in range(steps):
        x = (x @ weight).tanh()
    assert x.cpu().shape == (2, 2)
    return _C._counters()["executions"] - before


def test_programs_and_loops_are_forgotten(forgotten: None) -> None:
    weight = torch.eye(2).to("ftm")
    first = [pieces_of(steps, weight) for steps in (12, 15, 30)]
    assert first[0] == 1 < first[1], "the second number of iterations shows that it varies"
    assert _C._program_count() > 1
    _C._reset()
    assert _C._program_count() == 0
    assert [pieces_of(steps, weight) for steps in (12, 15, 30)] == first


def test_pending_values_survive(forgotten: None) -> None:
    x = torch.ones(3).to("ftm") + 1
    _C._reset()
    assert x.tolist() == [2.0] * 3
    y = x * 2
    _C._sync(True)
    _C._reset()
    assert y.tolist() == [4.0] * 3
