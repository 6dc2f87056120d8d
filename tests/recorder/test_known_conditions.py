"""Conditions on integers in memory and on constants: the CPU evaluates them, and pending calls stay
pending."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import ftm_lazy
from ftm_lazy import _C

pytestmark = pytest.mark.usefixtures("forgotten")


def count(name: str) -> int:
    return _C._counters().get(name, 0)


def given(*rows: list[int]) -> Tensor:
    return torch.tensor(rows).to("ftm")


CONDITIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "all": lambda x: (x == 1).all(),
    "any": lambda x: (x < 0).any(),
    "sum": lambda x: x.to(torch.bool).sum() == 6,
    "of a column": lambda x: (x[:, -1] == 1).any(),
    "of a cat": lambda x: (torch.cat([x, x.new_ones(2, 1)], 1) == 1).all(),
    "of constants": lambda x: (
        (
            torch.ones(3, dtype=torch.long, device=x.device)
            & ~torch.zeros(3, dtype=torch.bool, device=x.device)
        ).max()
        == 0
    ),
    "of one element": lambda x: (x[0, 0] == 1).reshape(1, 1),
    "of a range": lambda x: (torch.arange(3, device=x.device) >= x).all(),
}


@pytest.mark.parametrize("row", [[1, 1, 1], [0, 1, -1]])
@pytest.mark.parametrize("name", CONDITIONS)
def test_answers_are_the_cpus(name: str, row: list[int]) -> None:
    x = given([1, 1, 1], row)
    assert bool(CONDITIONS[name](x)) == bool(CONDITIONS[name](x.cpu()))
    assert (count("conditions_on_cpu"), count("executions")) == (1, 0)


def test_what_is_pending_is_one_trace_with_what_comes() -> None:
    x, mask = torch.ones(4).to("ftm"), given([1, 1, 0])
    y = x * 2
    assert not (mask == 1).all()
    assert (y + 1).sum().item() == 12
    assert (count("conditions_on_cpu"), count("executions")) == (1, 1)


def test_an_answer_is_a_value_in_memory() -> None:
    """It is no result of the next program, which reads it."""
    done = (given([1, 2]) == 1).any()
    assert done
    assert torch.where(done, torch.tensor([3.0, 2.0], device="ftm"), 4.0).tolist() == [3, 2]
    assert count("executions") == 1


def test_what_a_program_computed_from_known_values_is_known() -> None:
    """A mask that grows with each token: the result of a step, and read in the next one."""
    mask, x = given([1, 1]), torch.ones(3).to("ftm")
    for step in range(12):
        mask = torch.cat([mask, mask.new_ones(1, 1)], 1)
        assert (x * step).sum().item() == 3 * step
        assert (mask == 1).all()
    assert (count("conditions_on_cpu"), count("executions")) == (12, 12)
    assert mask.cpu().tolist() == [[1] * 14]


def test_what_is_behind_many_launches_is_read() -> None:
    """A value that is not read does not keep its whole history: the CPU starts from a computed
    value."""
    mask, x = given([1, 1]), torch.ones(3).to("ftm")
    for _ in range(12):
        mask = mask * 1
        x.sum().item()
    assert (mask == 1).all()
    assert (count("conditions_on_cpu"), count("executions")) == (1, 12)


def test_what_a_program_computed_from_others_is_read_when_it_is_there() -> None:
    """The tokens that a model has found: whether one of them is the last."""
    token, y = (torch.tensor([0.5, 2.0]).to("ftm") * 3).argmax(), torch.ones(3).to("ftm") * 2
    assert token.item() == 1
    z = y + 1
    assert token == 1
    assert token != 0
    assert (count("conditions_on_cpu"), count("executions")) == (2, 1)
    assert z.sum().item() == 9
    assert count("executions") == 2


def test_a_failure_of_the_program_behind_it_is_told() -> None:
    table, far = torch.arange(3).to("ftm"), (torch.ones(2).to("ftm") * 9).long()
    found = table[far]
    ftm_lazy.sync(wait=False)
    with pytest.raises(IndexError):
        bool((found == 1).all())


NOT_KNOWN: dict[str, Callable[[], Tensor]] = {
    "floating numbers": lambda: (torch.ones(3).to("ftm").abs().neg().neg() == 1).all(),
    "made of floating numbers": lambda: (
        (torch.ones(3).to("ftm") * 2).neg().neg().long() == 2
    ).all(),
    "random numbers": lambda: (torch.randint(5, (3,), device="ftm") >= 0).all(),
    "large": lambda: (torch.ones(70000, dtype=torch.long).to("ftm") == 1).all(),
    "far": lambda: (sum((given([1]) for _ in range(20)), given([1])) == 21).all(),
}


@pytest.mark.parametrize("make", NOT_KNOWN.values(), ids=NOT_KNOWN)
def test_others_are_the_devices(make: Callable[[], Tensor]) -> None:
    assert make()
    assert count("conditions_on_cpu") == 0
    assert count("executions") > 0


def after_many_calls(x: Tensor) -> Tensor:
    for _ in range(40):
        x = x + 1
    return x


def test_a_long_trace_stays_one_behind_what_came_from_the_cpu() -> None:
    """A check of sizes or of a mask in the middle of a model."""
    sizes, mask = given([2, 2], [1, 1]), given([1, 1])
    x = after_many_calls(torch.ones(5).to("ftm"))
    assert (sizes[:, 0] * sizes[:, 1]).sum() == 5
    mask = torch.cat([mask, mask.new_zeros(1, 1)], 1)
    assert x[2:][mask[0] == 1].shape == (2,)
    assert (count("conditions_on_cpu"), count("places_on_cpu")) == (1, 1)
    assert x.sum().item() == 205
    assert count("executions") == 1
    x = after_many_calls(x)
    assert (mask == 1).any()
    assert (count("conditions_on_cpu"), count("executions")) == (2, 1), "a result that follows"


def test_a_long_trace_is_launched_where_others_are_read() -> None:
    """The device runs while Python waits for the program before."""
    token = (torch.tensor([0.5, 2.0]).to("ftm") * 3).argmax()
    assert token.item() == 1
    x = after_many_calls(torch.ones(4).to("ftm"))
    assert ((token + 1 - 1) * 2 + 1 == 3).all()
    assert (count("conditions_on_cpu"), count("executions")) == (0, 2)
    assert x.sum().item() == 164


@pytest.mark.parametrize("count_groups", [torch.unique, torch.bincount])
def test_the_number_of_groups_of_tokens_is_known(count_groups: Callable[[Tensor], Tensor]) -> None:
    x = torch.ones(2).to("ftm") * 2
    labels = (given([5, 0, 7, 0, 5]) * 2 % 7)[0]
    groups = count_groups(labels)
    assert torch.equal(groups.cpu(), count_groups(labels.cpu()))
    assert count("places_on_cpu") > 0 and count("sync::aten::_unique2") == 0
    assert x.sum().item() == 4


def test_strict_programs_compute_all() -> None:
    _C._set_strict(True)
    assert (given([1]) == 1).all()
    assert (count("conditions_on_cpu"), count("executions")) == (0, 1)


def test_numbers_are_the_devices() -> None:
    """Only conditions, not values that Python prints."""
    assert given([1, 2]).sum().item() == 3
    assert (given([1, 2]) == 1).tolist() == [[True, False]]
    assert (count("conditions_on_cpu"), count("executions")) == (0, 2)


def test_writes_are_seen() -> None:
    x = given([1, 1, 1])
    x[0, 1] = 5
    assert not (x == 1).all()
    x[0, 1] = 1
    assert (x == 1).all()
    x.copy_(torch.tensor([[2, 2, 2]]))
    assert (x == 2).all()
    x.add_(1)
    torch.ones(1, device="ftm").sum().item()
    assert (x == 3).all()
    assert x.tolist() == [[3, 3, 3]]


OPERATIONS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, y: x + y,
    lambda x, y: x * 2 - y,
    lambda x, y: torch.where(x > y, x, y),
    lambda x, y: (x == y).long(),
    lambda x, y: torch.cat([x[:, 1:], y[:, :1]], 1),
    lambda x, y: x.masked_fill(y > 2, 1),
    lambda x, y: x.t().reshape(2, 3) & y,
    lambda x, y: x.cumsum(1),
]


@pytest.mark.parametrize("byte", [0, 1])
def test_a_byte_of_another_number(byte: int) -> None:
    """The condition is a part of the value that is pending, not the value."""
    number = given([128]) * 2
    assert bool(number.view(torch.bool)[0, byte]) == (byte == 1)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_go_the_way_of_the_cpu(seed: int) -> None:
    """Operations, conditions and launches in any order have the CPU's results."""

    def run(device: str) -> list[object]:
        rng = random.Random(seed)
        x, y, number = (
            torch.arange(6).reshape(2, 3).to(device),
            torch.ones(2, 3, dtype=torch.long).to(device),
            torch.ones(2).to(device),
        )
        seen: list[object] = []
        for _ in range(30):
            chosen = rng.random()
            if chosen < 0.5:
                x, y = rng.choice(OPERATIONS)(x, y) % 7, x
            elif chosen < 0.6:
                x[rng.randrange(2), rng.randrange(3)] = rng.randrange(5)
            elif chosen < 0.8:
                seen.append(bool((x > rng.randrange(5)).any()))
            elif chosen < 0.9:
                number = number * 2 % 5
                seen.append(number.sum().item())
            else:
                seen.append((x + y).tolist())
        return [*seen, x.tolist(), y.tolist()]

    assert run("ftm") == run("cpu")
