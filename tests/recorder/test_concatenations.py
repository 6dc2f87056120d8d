"""Concatenations of any number of values: split, they have the same results, and a few programs
serve all numbers."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ftm_lazy import _C

COUNTS = (5, 19, 7, 2, 64, 130, 8, 9, 1, 17, 16, 73)
"""Of values, one trace after the other."""

Make = Callable[[list[Tensor]], list[Tensor]]

MADE: dict[str, Make] = {
    "stack of scalars": lambda x: [torch.stack([v.sum() for v in x]) * 2],
    "stack": lambda x: [torch.stack(x).square()],
    "stack behind the last dimension": lambda x: [torch.stack(x, -1).square()],
    "stack between": lambda x: [torch.stack(x, 1).square()],
    "cat": lambda x: [torch.cat(x).square()],
    "cat of rows": lambda x: [torch.cat(x, 1).square()],
    "cat from the end": lambda x: [torch.cat(x, -2).square()],
    "cat that is kept": lambda x: [made := torch.cat(x, 1), made.square()],
    "stack that is kept": lambda x: [torch.stack(x, 1)],
    "cat of columns": lambda x: [torch.cat([v.t() for v in x], 1).square()],
    "cat of windows": lambda x: [torch.cat([v[:, 1:3] for v in x], 1).square()],
    "the same one again and again": lambda x: [torch.cat([x[0]] * len(x)).square()],
    "two, one after the other": lambda x: [
        torch.cat([torch.stack(x), torch.stack(x).flip(0)]).square()
    ],
    "what was computed in the trace": lambda x: [torch.cat([torch.sin(v) for v in x], 1).square()],
    "other sizes too": lambda x: [torch.cat([*x, x[0][:1]]).square(), torch.cat(x).sum(0)],
    "whole numbers": lambda x: [torch.cat([(v * 8).long() for v in x], 1) % 5],
    "halves and floats": lambda x: [torch.cat([x[0].bfloat16(), *x[1:]]).square()],
}

pytestmark = pytest.mark.usefixtures("forgotten")


def unrolled() -> int:
    return _C._counters().get("unrolled", 0)


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_any_number(make: Make) -> None:
    """Whatever is concatenated, and along which dimension."""
    for count in COUNTS:
        values = [torch.randn(2, 5) for _ in range(count)]
        made = make([v.to("ftm") for v in values])
        for result, expected in zip(made, make(values), strict=True):
            assert result.dtype == expected.dtype
            torch.testing.assert_close(result.cpu(), expected)


def test_fuse_conv_backward() -> None:
    """Through a concatenation into each of its values."""
    for count in COUNTS:
        values = [torch.randn(3, 2) for _ in range(count)]
        gradients = []
        for device in "cpu", "ftm":
            leaves = [v.to(device).detach().requires_grad_() for v in values]
            torch.stack(leaves, 1).square().mean().backward()
            gradients.append([leaf.grad.cpu() for leaf in leaves])
        for ours, expected in zip(*reversed(gradients), strict=True):
            torch.testing.assert_close(ours, expected)


def test_few_programs() -> None:
    """Once a second number has come; empty values change nothing."""
    parts = [torch.full((3,), float(i)).to("ftm") for i in range(200)]
    torch.cat(parts[:3] + [torch.zeros(0).to("ftm")]).sum().item()
    for count in 20, 12, 31:
        torch.cat(parts[:count]).sum().item()
    before = unrolled()
    for count in 7, 100, 200:
        assert torch.cat(parts[:count]).sum().item() == 3.0 * sum(range(count))
    assert unrolled() - before == 3


@pytest.mark.parametrize("dim", [0, 1])
def test_few_launches(dim: int) -> None:
    """At most 7 for less than 256 values."""
    parts = list(torch.arange(255.0 * 6).view(255, 2, 3).to("ftm").unbind())
    for count in (20, 21, 64, 16, 4, 2, 66, 255, 200, 77, 3, 126, 127, 63, 42, 15, 8, 31):
        before = _C._counters().get("executions", 0)
        joined = torch.cat(parts[:count], dim)
        assert joined.sum().item() == 3 * count * (6 * count - 1)
        launches = _C._counters()["executions"] - before
        assert launches <= 7 + 1, count  # and that of the sum


def test_a_number_that_stays_is_one_program() -> None:
    """And so is one that comes often among others."""
    parts = [torch.full((3,), float(i)).to("ftm") for i in range(40)]
    before = unrolled()
    for _ in range(4):
        torch.cat(parts[:20]).sum().item()
    assert unrolled() == before
    torch.cat(parts[:30]).sum().item()
    end = time.monotonic() + 60
    while time.monotonic() < end and unrolled() > before:
        before = unrolled()
        torch.cat(parts[:40]).sum().item()
    assert unrolled() == before


def test_values_of_one_type_by_chance_are_no_other_number() -> None:
    """A row after a cache of one row, and halves that always have the same type."""
    before = unrolled()
    for rows in 3, 1, 4:
        cache, row, half = (torch.ones(1, count, 2).to("ftm") for count in (rows, 1, 5))
        assert (
            torch.cat([cache, row], 1).sum() + torch.cat([half, half], 2).sum()
        ).item() == 2 * rows + 22
    assert unrolled() == before


def test_what_it_needs_in_memory() -> None:
    """Nothing is kept of the steps."""
    parts = [torch.zeros(1 << 12).to("ftm") for i in range(64)]
    for count in 20, 12, 31, 40:
        torch.cat(parts[:count]).sum().item()
    _C._sync(True)
    before = torch.ftm.memory_allocated()
    for count in 50, 64:
        torch.cat(parts[:count]).sum().item()
    _C._sync(True)
    assert torch.ftm.memory_allocated() == before


def test_one_value_is_copied_by_no_program() -> None:
    """Among empty ones too, and it is a copy."""
    x = torch.arange(6.0).reshape(2, 3).to("ftm")
    before = _C._counters()["executions"]
    made = [
        torch.cat([x]),
        torch.cat([x, x[:0]]),
        torch.cat([torch.zeros(0, device="ftm"), x], 1),
        torch.stack([x], 1),
    ]
    assert [y.tolist() for y in made[:3]] == [x.tolist()] * 3
    assert made[3].tolist() == x.unsqueeze(1).tolist()
    assert _C._counters()["executions"] == before
    for y in made:
        y.add_(1)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert made[3].tolist() == [[[1, 2, 3]], [[4, 5, 6]]]
    y = x * 2
    stacked, joined = torch.stack([y[:, 1:]], 1), torch.cat([y.t()], 1)
    assert (stacked.tolist(), joined.tolist()) == ([[[2, 4]], [[8, 10]]], [[0, 6], [2, 8], [4, 10]])
    assert torch.cat([x[1:, ::2]]).tolist() == [[3, 5]]
    leaf = torch.ones(3, device="ftm", requires_grad=True)
    torch.cat([leaf * 2]).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2, 2, 2]
