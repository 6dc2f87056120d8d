"""A step that fails loses no state: what eager would have computed before the error is there, the
rest is as before."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import ftm_lazy
from ftm_lazy.frontends.capture import capture

Batch = tuple[Tensor, Tensor]


class Training:
    """A model, its optimizer and one batch of good data, on one device."""

    def __init__(self, model: nn.Module, device: str) -> None:
        self.device = device
        self.model = model.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)

    def step(self, inputs: Tensor, targets: Tensor) -> Tensor:
        # places that the device computes: a program has to find out
        outputs = self.model(inputs.to(self.device) + 0)
        loss = nn.functional.cross_entropy(outputs, targets.to(self.device) + 0)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def start_from(self, other: Training) -> None:
        """Adam blows rounding differences up where a gradient should be zero: both go on from one
        state."""
        self.model.load_state_dict(
            {name: value.cpu() for name, value in other.model.state_dict().items()}
        )
        self.optimizer.load_state_dict(copy.deepcopy(other.optimizer.state_dict()))

    def state(self) -> dict[str, Tensor]:
        """Everything that a checkpoint would hold and that lives on the device."""
        state = {name: value.cpu().clone() for name, value in self.model.state_dict().items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            for name in ("exp_avg", "exp_avg_sq"):
                state[f"{index}.{name}"] = moments[name].cpu().clone()
        return state


def digits_cnn() -> nn.Module:
    import digits

    return digits.CNN(dropout=0.0)


def language_model() -> nn.Module:
    return nn.Sequential(nn.Embedding(8, 6), nn.Flatten(), nn.Linear(12, 5))


def images(label: int) -> Batch:
    return torch.randn(8, 1, 8, 8), torch.tensor([0, 1, 2, 3, 4, 5, 6, label])


def words(token: int) -> Batch:
    return torch.tensor([[1, 2], [3, token]]), torch.tensor([1, 4])


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Batch], int, int, str]] = {
    "class": (digits_cnn, images, 7, 12, "Target 12 is out of bounds"),
    "negative class": (digits_cnn, images, 7, -3, "Target -3 is out of bounds"),
    "token": (language_model, words, 5, 9, "index out of range in self"),
}


@pytest.mark.parametrize("seen", ["at once", "a step later"])
@pytest.mark.parametrize("case", CASES)
def test_state_after_a_bad_batch(case: str, seen: str) -> None:
    build, batch, right, wrong, message = CASES[case]
    torch.manual_seed(0)
    model = build()
    cpu, ftm = Training(copy.deepcopy(model), "cpu"), Training(copy.deepcopy(model), "ftm")
    for _ in range(4):
        data = batch(right)
        torch.testing.assert_close(ftm.step(*data).cpu(), cpu.step(*data), rtol=1e-4, atol=1e-5)
    cpu.start_from(ftm)
    before, bad = ftm.state(), batch(wrong)
    with pytest.raises(IndexError, match=message) as raised:
        loss = ftm.step(*bad)
        if seen == "at once":
            loss.item()
        ftm.step(*batch(right)).item()
    assert "launched earlier on device ftm" in str(raised.value)
    if seen == "a step later":
        return
    with pytest.raises(IndexError, match=message):
        cpu.step(*bad)
    eager = cpu.state()
    for name, value in ftm.state().items():
        kept = torch.equal(value, before[name])
        assert kept or torch.allclose(value, eager[name], rtol=1e-4, atol=1e-6), name
    # Adam counts its steps on the CPU, and has counted the one whose update never ran.
    for index, moments in ftm.optimizer.state_dict()["state"].items():
        moments["step"].copy_(cpu.optimizer.state_dict()["state"][index]["step"])
    for _ in range(3):
        data = batch(right)
        torch.testing.assert_close(ftm.step(*data).cpu(), cpu.step(*data), rtol=1e-3, atol=1e-4)


def test_statistics_from_before_the_error_are_eagers() -> None:
    torch.manual_seed(0)
    model = digits_cnn()
    cpu, ftm = Training(copy.deepcopy(model), "cpu"), Training(copy.deepcopy(model), "ftm")
    bad = images(12)
    for training in (cpu, ftm):
        with pytest.raises(IndexError):
            training.step(*bad).item()
    mean, eager = (
        ftm.model.state_dict()["features.1.running_mean"],
        cpu.model.state_dict()["features.1.running_mean"],
    )
    assert eager.abs().max() > 0
    torch.testing.assert_close(mean.cpu(), eager)


def test_a_scatter_into_a_parameter() -> None:
    weight = nn.Parameter(torch.arange(12.0).reshape(4, 3).to("ftm"))
    count = torch.zeros(4, device="ftm")
    torch.ftm.synchronize()
    for bad in (4, -1, 10**12):
        with torch.no_grad():
            count.add_(1)
            weight.scatter_(0, torch.tensor([[0, bad, 1]]).to("ftm") + 0, 7.0)
        with pytest.raises(RuntimeError, match="out of bounds"):
            weight.cpu()
        assert weight.tolist() == torch.arange(12.0).reshape(4, 3).tolist()
    assert count.tolist() == [3.0] * 4


def test_a_value_that_the_failing_program_only_replaces() -> None:
    """The old content is not read by the program: it is kept all the same until the program has
    run."""
    table, kept = torch.ones(4, 2, device="ftm"), torch.full((3, 2), 5.0, device="ftm")
    torch.ftm.synchronize()
    kept.copy_(nn.functional.embedding(torch.tensor([0, 1, 9]).to("ftm") + 0, table) * 2)
    with pytest.raises(IndexError):
        torch.ftm.synchronize()
    assert kept.tolist() == [[5.0, 5.0]] * 3


def test_a_value_that_a_failing_captured_program_only_replaces() -> None:
    """With one input on the CPU, the program is launched by itself instead of being recorded."""

    def gather_into(kept: Tensor, table: Tensor, index: Tensor) -> list[Tensor]:
        kept.copy_(table[index] * 2)
        return [kept.sum()]

    examples = [torch.zeros(3), torch.zeros(4), torch.zeros(3, dtype=torch.long)]
    program = capture(gather_into, examples)
    table, kept = torch.arange(4.0).to("ftm"), torch.full((3,), 5.0, device="ftm")
    torch.ftm.synchronize()
    assert program.launch([kept, table, torch.tensor([0, 1, 3])])[0].item() == 8.0
    assert kept.tolist() == [0.0, 2.0, 6.0]
    with pytest.raises(IndexError):
        program.launch([kept, table, torch.tensor([0, 1, 9])])
    assert kept.tolist() == [0.0, 2.0, 6.0]


def test_an_error_is_told_once_and_reaches_what_depends_on_it() -> None:
    table = torch.ones(4, 2, device="ftm")
    total = torch.zeros(2, device="ftm")
    lost = nn.functional.embedding(torch.tensor([7]).to("ftm") + 0, table)
    ftm_lazy.sync()
    derived = lost + 1
    ftm_lazy.sync()
    total += derived[0]
    ftm_lazy.sync()
    other = table * 3
    with pytest.raises(IndexError):
        derived.cpu()
    assert other.sum().item() == 24.0  # told once
    assert total.tolist() == [0.0, 0.0]
    for value in (lost, derived):  # but who reads what is lost is told again
        with pytest.raises(IndexError, match="index out of range"):
            value.cpu()


def test_an_unread_error_surfaces_at_the_next_observation() -> None:
    table = torch.ones(4, 2, device="ftm")
    torch.ftm.synchronize()
    table.add_(nn.functional.embedding(torch.tensor([7]).to("ftm") + 0, table))
    ftm_lazy.sync()
    after = table + 1
    with pytest.raises(IndexError, match="index out of range"):
        after.cpu()
    assert after.tolist() == [[2.0, 2.0]] * 4


def test_counters_tell_of_replays() -> None:
    before = ftm_lazy.metrics.counters().get("fault_replays", 0)
    with pytest.raises(IndexError):
        nn.functional.embedding(
            torch.tensor([4]).to("ftm") + 0, torch.ones(4, 2, device="ftm")
        ).cpu()
    assert ftm_lazy.metrics.counters()["fault_replays"] == before + 1


def test_tensors_that_share_a_lost_value_get_their_own_old_values() -> None:
    table = torch.arange(4.0).to("ftm")
    one, two = torch.ones(2, device="ftm"), torch.full((2,), 2.0, device="ftm")
    torch.ftm.synchronize()
    lost = table[torch.tensor([0, 7]).to("ftm") + 0]
    for kept in (one, two):
        kept.copy_(lost)
    with pytest.raises(IndexError):
        torch.ftm.synchronize()
    assert one.tolist() == [1.0, 1.0] and two.tolist() == [2.0, 2.0]
    with pytest.raises(IndexError):
        lost.cpu()


def test_tensors_that_share_a_value_have_it_after_success() -> None:
    table = torch.arange(4.0).to("ftm")
    one, two = torch.ones(2, device="ftm"), torch.full((2,), 2.0, device="ftm")
    torch.ftm.synchronize()
    shared = table[torch.tensor([0, 3]).to("ftm") + 0]
    for overwritten in (one, two):
        overwritten.copy_(shared)
    two.add_(1)
    assert [each.tolist() for each in (shared, one, two)] == [[0.0, 3.0], [0.0, 3.0], [1.0, 4.0]]


def test_a_step_without_enough_memory_loses_no_state() -> None:
    """The results get their old values back without any new memory."""
    state = [torch.full((1 << 20,), float(i), device="ftm") for i in range(3)]
    torch.ftm.synchronize()
    torch.ftm.empty_cache()
    reserved = torch.ftm.memory_stats()["reserved_bytes.all.current"]
    total = torch.ftm.get_device_properties(0).total_memory
    room = 1 << 20  # less than one of the tensors
    torch.ftm.set_per_process_memory_fraction((reserved + room) / total)
    try:
        for value in state:
            value.mul_(2)
        others = [value + 1 for value in state]
        with pytest.raises(torch.OutOfMemoryError):
            torch.ftm.synchronize()
        del others
        assert [value[-1].item() for value in state] == [0.0, 1.0, 2.0]
    finally:
        torch.ftm.set_per_process_memory_fraction(1.0)
