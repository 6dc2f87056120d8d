"""Cuts of traces that are not read: loops become runs of one program, short steps remain whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from ftm_lazy import _C

LENGTH = 120
"""Recorded operations from which on a loop is cut, in these tests."""


@pytest.fixture(autouse=True)
def loop_length() -> Iterator[None]:
    _C._sync(True)
    _C._set_loop_length(LENGTH)
    _C._sync(True)
    yield
    _C._set_loop_length(700)


def done_by(function: Callable[[], object]) -> tuple[int, int]:
    """Programs launched and programs made while it runs, from a cut to a read."""
    _C._sync(True)
    _C._reset_counters()
    before = _C._program_count()
    function()
    _C._sync(True)
    return _C._counters()["syncs"], _C._program_count() - before


def recurrence(x: Tensor, weight: Tensor, steps: int) -> Tensor:
    for step in range(steps):
        x = torch.tanh(x @ weight) * (0.5 + step) + x
    return x


def test_a_loop_is_runs_of_one_program() -> None:
    x, weight = torch.ones(2, 2, device="ftm"), torch.eye(2, device="ftm")
    launches, programs = done_by(lambda: recurrence(x, weight, 1000).tolist())
    assert launches > 12 and programs <= 3  # up to the loop, in it, and what is left
    assert done_by(lambda: recurrence(x, weight, 1000).tolist()) == (launches, 0)
    more, programs = done_by(lambda: recurrence(x, weight, 2000).tolist())
    assert more > launches + 12 and programs <= 1  # what is left is another number of iterations


def test_other_sizes_are_cut_at_the_same_places() -> None:
    launches = [
        done_by(
            lambda: recurrence(
                torch.ones(size, 2, device="ftm"), torch.eye(2, device="ftm"), 500
            ).tolist()
        )[0]
        for size in (2, 3, 4)
    ]
    assert launches[0] > 6 and len(set(launches)) == 1


def test_a_loop_that_comes_after_others_is_cut_where_it_was() -> None:
    """The second time, more calls precede it; the programs of the loop's segments still exist."""
    x, weight = torch.ones(2, 2, device="ftm"), torch.eye(2, device="ftm")

    def run(before: int) -> None:
        y = x
        for _ in range(before):
            y = y.sin().cos().exp().neg()
        recurrence(y, weight, 1000).tolist()

    done_by(lambda: run(1))
    assert done_by(lambda: run(7))[1] <= 2  # up to the loop, and what is left


def test_short_loops_and_what_repeats_nothing_are_left_alone() -> None:
    x, weight = torch.ones(2, 2, device="ftm"), torch.eye(2, device="ftm")
    assert done_by(lambda: recurrence(x, weight, LENGTH // 4 - 1).tolist())[0] == 1

    def run() -> None:
        y = x
        for step in range(400):  # the bits of its square: no period
            for bit in f"{step * step:b}":
                y = y.sin() if bit == "1" else y.cos()
        y.tolist()

    assert done_by(run)[0] == 1


def test_a_training_step_of_equal_layers_is_one_program() -> None:
    _C._set_loop_length(150)
    net = nn.Sequential(
        *(layer for _ in range(12) for layer in (nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU()))
    ).to("ftm")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        net(torch.ones(2, 4, device="ftm")).sum().backward()
        optimizer.step()

    step()
    _C._sync(True)
    _C._reset_counters()
    step()
    assert _C._counters()["syncs"] == 1 and _C._counters()["ops_traced"] > 2 * 150


def unrolled(device: str, cell: nn.LSTMCell, draws: bool) -> list[Tensor]:
    """Views, writes in place and through views, random numbers, and gradients through all of it."""
    torch.manual_seed(1)
    cell = cell.to(device)
    x = torch.linspace(0, 1, 60).reshape(60, 1, 1).expand(60, 2, 3).contiguous().to(device)
    log, total = torch.zeros(60, 2, device=device), torch.zeros(2, device=device)
    h, c, outputs = torch.zeros(2, 4, device=device), torch.zeros(2, 4, device=device), []
    for step in range(60):
        h, c = cell(x[step], (h, c))
        if draws:
            h = nn.functional.dropout(h, 0.25)
        total.add_(h.detach().sum(1))
        log[step, :] = total
        log[:, 1].mul_(0.5)
        outputs.append(h[:, 1:].t())
    loss = torch.stack(outputs).square().mean()
    gradients = torch.autograd.grad(loss, list(cell.parameters()))
    return [value.cpu() for value in (loss.detach(), total, log, c.detach(), *gradients)]


def test_values_are_what_they_are() -> None:
    cell = nn.LSTMCell(3, 4)
    expected = unrolled("cpu", cell, draws=False)
    found = []
    launches, _ = done_by(lambda: found.extend(unrolled("ftm", cell, draws=False)))
    assert launches > 5
    torch.testing.assert_close(found, expected)


def test_random_numbers_do_not_depend_on_cuts() -> None:
    cell = nn.LSTMCell(3, 4)
    cut = unrolled("ftm", cell, draws=True)
    _C._set_loop_length(0)
    _C._sync(True)
    torch.testing.assert_close(cut, unrolled("ftm", cell, draws=True), rtol=0, atol=0)


def test_what_a_piece_throws_keeps_the_values_of_those_before() -> None:
    counter = torch.zeros(2, device="ftm")
    table = torch.ones(3, device="ftm")
    for step in range(400):
        counter.add_(1)
        y = table[counter.long()] if step == 399 else counter.sin()
    with pytest.raises(IndexError):
        y.tolist()
    assert counter.tolist() == [400, 400]


class GrowingCache(nn.Module):
    """A decoder of one layer, whose keys and values grow by a row for each token."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, width)
        self.inputs, self.mlp = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 20)

    @torch.no_grad()
    def decode(self, tokens: Tensor, count: int) -> Tensor:
        found, cache = [], None
        for _ in range(count):
            x = self.embedding(tokens)
            query, key, value = (
                part.unflatten(-1, (2, -1)).transpose(1, 2)
                for part in self.inputs(self.norm(x)).chunk(3, -1)
            )
            if cache is not None:
                key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
            cache = key, value
            attended = nn.functional.scaled_dot_product_attention(query, key, value)
            x = x + self.mlp(attended.transpose(1, 2).flatten(2)).relu()
            tokens = self.head(x[:, -1:]).argmax(-1)
            found.append(tokens)
        return torch.cat(found, 1)


def test_tokens_decoded_without_a_read_are_runs_of_few_programs() -> None:
    _C._set_loop_length(700)
    model, prompt = GrowingCache().eval(), torch.tensor([[3, 1, 4]])
    expected = model.decode(prompt, 120)
    model, prompt = model.to("ftm"), prompt.to("ftm")
    assert torch.equal(model.decode(prompt, 120).cpu(), expected)
    launches = []
    for _ in range(2):
        before, programs = _C._counters()["executions"], _C._program_count()
        model.decode(prompt, 120).tolist()
        launches.append(_C._counters()["executions"] - before)
        assert _C._program_count() == programs
    assert 1 < launches[0] <= 30 and launches[1] == launches[0]
