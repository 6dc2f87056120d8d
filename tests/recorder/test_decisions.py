"""Reads that decide what Python does next: the CPU computes booleans of at most four operations, and
from the third decision in a row on, other small ones."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ftm_lazy import _C

pytestmark = pytest.mark.usefixtures("forgotten")


def count(name: str) -> int:
    return _C._counters().get(name, 0)


def overlaps(one: Tensor, others: Tensor) -> Tensor:
    """Intersection over union of a box with each of some others, as (x0, y0, x1, y1)."""
    low, high = torch.max(one[:2], others[:, :2]), torch.min(one[2:], others[:, 2:])
    shared = (high - low).clamp(min=0).prod(1)
    area = (one[2:] - one[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(1)
    return shared / (area - shared)


def kept_by_masks(boxes: Tensor, scores: Tensor) -> Tensor:
    """Non-maximum suppression: an index shrinks by a mask."""
    order, kept = scores.argsort(descending=True), []
    while order.numel() > 0:
        kept.append(order[0])
        others = order[1:]
        order = others[overlaps(boxes[order[0]], boxes[others]) <= 0.4]
    return torch.stack(kept)


def kept_by_conditions(boxes: Tensor, scores: Tensor) -> Tensor:
    """The same with a condition for each box, and a mask that is written in place."""
    order = scores.argsort(descending=True)
    boxes = boxes[order]
    suppressed = torch.zeros(len(boxes), dtype=torch.bool, device=boxes.device)
    kept = []
    for k in range(len(boxes)):
        if suppressed[k]:
            continue
        kept.append(k)
        suppressed[k + 1 :] |= overlaps(boxes[k], boxes[k + 1 :]) > 0.4
    return order[torch.tensor(kept, device=order.device)]


def drawn(seed: int, boxes: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    corner, size = torch.rand(boxes, 2), torch.rand(boxes, 2) * 0.5 + 0.1
    return torch.cat([corner, corner + size], 1), torch.rand(boxes)


@pytest.mark.parametrize("suppress", [kept_by_masks, kept_by_conditions])
def test_suppression_runs_few_programs(suppress: Callable[[Tensor, Tensor], Tensor]) -> None:
    for seed in range(4):
        boxes, scores = drawn(seed, 20 + seed)
        expected = suppress(boxes, scores)
        assert len(expected) > 5
        launched = count("executions")
        on_device = boxes.to("ftm") * 1, scores.to("ftm") * 1
        assert torch.equal(suppress(*on_device).cpu(), expected)
        assert count("executions") - launched <= 12, (
            "two decisions, and the indices put together step by step"
        )
        _C._sync(True)
    assert count("conditions_on_cpu") + count("places_on_cpu") > 20


def is_above(x: Tensor, bound: float) -> Tensor:
    """A decision of five operations, which is not the CPU's from the first one on."""
    return (x.abs().neg().neg() > bound).all()


def test_the_device_makes_the_first_decisions() -> None:
    x = torch.arange(4.0).to("ftm")
    launches = []
    for k in range(4):
        assert is_above(x.roll(k), -1)
        launches.append(count("executions"))
    assert launches == [1, 2, 2, 2]
    _C._sync(True)
    assert is_above(x, -1) and count("executions") == 3, "a step that ends begins anew"


def test_the_cpu_makes_short_decisions_on_values_in_memory() -> None:
    """As a check of boxes between the steps of a model."""
    x = torch.arange(4.0).to("ftm")
    y = (x[None] + x[:, None]).exp()
    assert not (y[:, 2:] >= y[:, :2] * 9).all()
    assert (count("conditions_on_cpu"), count("executions")) == (0, 1), "it needs five operations"
    assert (y[:, 2:] >= y[:, :2]).all()
    assert y[y > 100].shape == (3,)
    assert (count("conditions_on_cpu"), count("executions")) == (1, 1)
    assert int((y > 1).sum()) == 15 and count("executions") == 2, "a number is a result"


def test_the_cpu_computes_with_numbers_that_it_gave() -> None:
    """As a loss's number of boxes per process, between the steps of a model."""
    boxes, x = torch.as_tensor([7.0], device="ftm"), torch.ones(3).to("ftm") * 2
    assert torch.clamp(boxes / 2, min=1).item() == 3.5
    assert (count("conditions_on_cpu"), count("executions")) == (1, 0)
    assert (x.sum() / 2).item() == 3 and count("executions") == 1, "three elements, of the device"
    assert (x[0] / 4).item() == 0.5 and count("executions") == 2, "a number of the device"
    assert (boxes.expand(3).contiguous() * 2)[0].item() == 14 and count("executions") == 3
    sides = torch.tensor([2.0, 3.0]).to("ftm")
    assert (sides[1] * 2).item() == 6 and count("executions") == 4, "an element of two"


def test_what_else_is_pending_stays_so() -> None:
    x = torch.arange(6.0).to("ftm")
    for _ in range(2):
        assert is_above(x, -1)
    y = x * 2
    assert x[x > 2].shape == (3,)
    assert (y + 1).sum().item() == 36 and count("executions") == 3


def test_tensors_that_a_decision_needed_have_their_values() -> None:
    x = torch.arange(6.0).to("ftm")
    for _ in range(2):
        assert is_above(x, -1)
    y = x.sqrt()
    z = y[1:] * y[:-1]
    assert (z > 4).any()
    assert [round(number, 3) for number in z.tolist()] == [0, 1.414, 2.449, 3.464, 4.472]
    assert y.sum().item() == pytest.approx(8.382, abs=1e-3)
    assert count("executions") == 3, "only the sum is the device's"


def test_large_and_random_values_are_the_devices() -> None:
    x = torch.ones(5000).to("ftm")
    for _ in range(4):
        assert (x * 2 > 1).all()
        assert (torch.rand(3, device="ftm") >= 0).all()
    assert (count("conditions_on_cpu"), count("executions")) == (0, 8)


def test_a_long_decision_whose_program_is_in_memory_is_the_devices() -> None:
    """As the check of a policy's distribution in each step of an agent."""
    x = torch.arange(6.0).to("ftm")
    for _ in range(4):
        assert (((x * 2 + 1).relu() - 3) * x > 0).any()
    assert (count("conditions_on_cpu"), count("executions")) == (0, 4)
    for k in range(3):
        assert (x.roll(k, 0).relu().sqrt() * x + x >= k).any()
    assert count("conditions_on_cpu") == 3, "each needs another program"


def test_strict_programs_ask_the_device() -> None:
    x = torch.ones(3).to("ftm")
    _C._set_strict(True)
    for _ in range(4):
        assert (x * 2 > 1).all()
    assert (count("conditions_on_cpu"), count("executions")) == (0, 4)


def test_an_index_outside_is_told() -> None:
    table = torch.arange(3.0).to("ftm")
    for _ in range(3):
        assert (table >= 0).all()
    far = (table * 9).long()
    with pytest.raises(IndexError):
        bool((table[far] > 0).any())


def test_training_goes_on_with_what_was_kept() -> None:
    """Gradients flow through an index that the CPU found."""

    def trained(device: str) -> list[Tensor]:
        boxes, scores = (each.to(device) for each in drawn(1, 16))
        torch.manual_seed(0)
        layer = nn.Linear(4, 4).to(device)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(3):
            found = layer(boxes).sigmoid().sort(1)[0]
            kept = kept_by_masks(found.detach(), scores)
            optimizer.zero_grad()
            found[kept][found[kept][:, 0] > 0.4].sum().backward()
            optimizer.step()
        return [parameter.detach().cpu() for parameter in layer.parameters()]

    torch.testing.assert_close(trained("ftm"), trained("cpu"))


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_go_the_way_of_the_cpu(seed: int) -> None:
    """Operations, writes, masks, conditions and launches in any order."""

    def run(device: str) -> list[object]:
        draw = random.Random(seed)
        x, index = (torch.arange(12.0).reshape(3, 4) / 4).to(device), torch.arange(3).to(device)
        seen: list[object] = []
        for _ in range(60):
            chosen = draw.random()
            row, bound = draw.randrange(3), draw.randrange(1, 12) / 4
            if chosen < 0.25:
                x = draw.choice(
                    [
                        lambda: x.flip(1),
                        lambda: x[index],
                        lambda: (x * 2 + 0.25) % 3,
                        lambda: torch.max(x, x.roll(1, 0)),
                    ]
                )()
            elif chosen < 0.4:
                x[row, draw.randrange(4) :] = bound
            elif chosen < 0.5:
                x[row] += x[x > bound].numel() / 4
            elif chosen < 0.6:
                index = torch.cat([index[index != row], index])[:3]
            elif chosen < 0.7:
                seen.append((x > bound).nonzero().tolist())
            elif chosen < 0.8:
                seen.append(int((x[row] * 4).long().sum()))
            elif chosen < 0.98:
                seen.append(bool((x[row] > bound).any()))
            else:
                seen.append(x.sum().item())
        return [*seen, x.tolist(), index.tolist()]

    assert run("ftm") == run("cpu")
