"""Random bodies of loops, unrolled into traces of many lengths: what they compute does not depend
on how they are cut.

A body is a list of steps on three matrices that live on from iteration to iteration, on views of
them that were made before the loop, and on a log with a row for each iteration. Steps write in
place, replace, and keep what they made.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from ftm_lazy import _C

pytestmark = pytest.mark.usefixtures("forgotten")

ROWS, COLUMNS, MOST = 3, 4, 24
COUNTS = (5, 7, 3, 12, 1, 24, 8)


@dataclass
class State:
    """Everything that the loop reads and writes.

    matrices: ROWS x COLUMNS each. row, part: views of the first two, from before the loop. log:
        MOST x COLUMNS.
    """

    matrices: list[Tensor]
    row: Tensor
    part: Tensor
    log: Tensor
    kept: list[Tensor]

    @classmethod
    def new(cls, device: str) -> State:
        matrices = [
            (torch.linspace(-1, 1, ROWS * COLUMNS).reshape(ROWS, COLUMNS) * (n + 1)).to(device)
            for n in range(3)
        ]
        log = torch.zeros(MOST, COLUMNS, device=device)
        return cls(matrices, matrices[0][1], matrices[1][:, ::2], log, [])


Step = Callable[[State, int, int, int], None]
"""Of the state, the iteration, and the numbers of two matrices."""


def replace(made: Callable[[Tensor, Tensor, int], Tensor]) -> Step:
    def step(s: State, k: int, i: int, j: int) -> None:
        s.matrices[i] = made(s.matrices[i], s.matrices[j], k)

    return step


def write(writes: Callable[[Tensor, Tensor, int], object]) -> Step:
    def step(s: State, k: int, i: int, j: int) -> None:
        writes(s.matrices[i], s.matrices[j].clone() if i == j else s.matrices[j], k)

    return step


def logged(s: State, k: int, i: int, j: int) -> None:
    s.log[k] = s.matrices[i][j % ROWS]


def keep(read: Callable[[Tensor, Tensor], Tensor]) -> Step:
    def step(s: State, k: int, i: int, j: int) -> None:
        s.kept.append(read(s.matrices[i], s.matrices[j]))

    return step


def through_the_row(s: State, k: int, i: int, j: int) -> None:
    s.row.mul_(0.75).add_(s.matrices[2][j].cos())


def through_the_part(s: State, k: int, i: int, j: int) -> None:
    s.part.copy_(torch.tanh(s.part + s.matrices[2][:, 1:3] + k))


REPEATED: list[Step] = [  # in every iteration
    replace(lambda x, y, k: torch.tanh(x @ y.t() @ y)),
    replace(lambda x, y, k: torch.cat([x[1:], y[:1]]).sin()),
    replace(lambda x, y, k: (x * 0.5 + y.sum(0, keepdim=True) / (k + 1)).clamp(-2, 2)),
    replace(lambda x, y, k: torch.where(x > y, x, y * 0.25).cos()),
    replace(lambda x, y, k: x.t().reshape(ROWS, COLUMNS).sigmoid()),
    replace(lambda x, y, k: x[:, [3, 0, 1, 2]] - y.mean()),
    replace(lambda x, y, k: x.t().contiguous().t().exp().clamp(max=3)),
    write(lambda x, y, k: x.mul_(0.5).add_(y.tanh())),
    write(lambda x, y, k: x[1:].copy_(y[:-1].cos())),
    write(lambda x, y, k: x.t()[2].sub_(y[:, 1]).clamp_(-1, 1)),
    write(
        lambda x, y, k: (
            x.as_strided((2, 4), (6, 1), x.storage_offset() + 1).add_(y[2], alpha=0.125).sin_()
        )
    ),
    through_the_row,
    through_the_part,
    keep(lambda x, y: x[1:] + y[:2]),
    keep(lambda x, y: x.max(dim=1).indices),
    keep(lambda x, y: x.clone()[:, 1]),
    keep(lambda x, y: (x > y).sum()),
]

STEPS: list[Step] = [
    *REPEATED,
    replace(lambda x, y, k: torch.softmax(x + y.flip(1), dim=k % 2)),
    write(lambda x, y, k: x[:, k % COLUMNS].fill_(0.5 * (k % 5))),
    write(lambda x, y, k: x.as_strided((3,), (4,), x.storage_offset() + k % 4).zero_()),
    logged,
]


def body(rng: random.Random) -> list[tuple[Step, int, int]]:
    return [
        (rng.choice(STEPS), rng.randrange(3), rng.randrange(3)) for _ in range(rng.randint(3, 12))
    ]


def run(device: str, steps: list[tuple[Step, int, int]], count: int) -> list[Tensor]:
    state = State.new(device)
    for k in range(count):
        for step, i, j in steps:
            step(state, k, i, j)
    return [
        tensor.cpu() for tensor in (*state.matrices, state.row, state.part, state.log, *state.kept)
    ]


@pytest.mark.parametrize("seed", range(24))
def test_a_random_body_computes_what_it_does_on_the_cpu(seed: int) -> None:
    steps = body(random.Random(seed))
    before = _C._counters().get("unrolled", 0)
    for count in COUNTS:
        torch.testing.assert_close(
            run("ftm", steps, count), run("cpu", steps, count), rtol=1e-4, atol=1e-5
        )
    cut = _C._counters().get("unrolled", 0) - before
    assert cut >= 1, "no loop was cut"


@pytest.mark.parametrize("seed", range(12))
def test_long_bodies_are_cut_at_once_and_in_another_order(seed: int) -> None:
    """What is cut into layers is put in order before (`csrc/partition/reorder_for_loops.h`)."""
    rng = random.Random(seed)
    steps = [
        (rng.choice(REPEATED), rng.randrange(3), rng.randrange(3))
        for _ in range(rng.randint(30, 40))
    ]
    _C._set_loop_length(0)
    whole = run("ftm", steps, MOST)
    _C._reset()
    _C._set_loop_length(100_000)  # the trace is not cut while it grows
    run("ftm", steps[:2], 1)  # that holds for the trace after this one
    before = _C._counters().get("unrolled", 0)
    torch.testing.assert_close(run("ftm", steps, MOST), whole, rtol=1e-5, atol=1e-6)
    assert _C._counters().get("unrolled", 0) == before + 1
