"""Elements that eager refuses by looking at them are refused: with its words, and the line that
recorded the call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _numbers(device: str, *numbers: float) -> Tensor:
    return torch.tensor(numbers).to(device) + 0.0  # computed there: a program has to find out


CALLS: dict[str, Callable[[str], Tensor]] = {
    "probability above 1": lambda d: F.binary_cross_entropy(
        _numbers(d, 0.5, 1.5), _numbers(d, 1, 0)
    ),
    "probability below 0": lambda d: F.binary_cross_entropy(
        _numbers(d, -0.1, 0.5), _numbers(d, 1, 0), reduction="sum"
    ),
    "probability that is no number": lambda d: F.binary_cross_entropy(
        _numbers(d, 0.5, torch.nan), _numbers(d, 1, 0), reduction="none"
    ),
    "target above 1": lambda d: F.binary_cross_entropy(_numbers(d, 0.5, 0.5), _numbers(d, 1, 1.5)),
    "target that is no number": lambda d: F.binary_cross_entropy(
        _numbers(d, 0.5), _numbers(d, torch.nan), reduction="none"
    ),
    "deviation below 0": lambda d: torch.normal(0.0, _numbers(d, 1, -1)),
    "chance above 1": lambda d: torch.bernoulli(_numbers(d, 0.5, 1.5)),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_eager_refuses_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError) as eager:
        CALLS[name]("cpu")
    with pytest.raises(RuntimeError) as error:
        CALLS[name]("ftm").cpu()
    said = str(error.value)
    assert str(eager.value).partition("\n")[0].removeprefix("Expected ") in said
    assert "test_demands.py" in said


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(4, 3), (), (0, 2)])
def test_probabilities_from_0_to_1_are_taken(reduction: str, shape: tuple[int, ...]) -> None:
    p, t = torch.rand(shape).round(decimals=1), torch.rand(shape).round()  # ends among them
    torch.testing.assert_close(
        F.binary_cross_entropy(p.to("ftm"), t.to("ftm"), reduction=reduction).cpu(),
        F.binary_cross_entropy(p, t, reduction=reduction),
        equal_nan=True,
    )


def test_a_refused_step_writes_nothing() -> None:
    """As in eager, where the call raises before the optimizer's step."""
    model = nn.Linear(3, 1).to("ftm")
    before = model.weight.detach().cpu()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        loss = F.binary_cross_entropy(
            model(torch.ones(5, 3).to("ftm")) + 9, torch.ones(5, 1).to("ftm")
        )
        loss.backward()
        optimizer.step()
        loss.item()
    assert torch.equal(model.weight.cpu(), before)


@pytest.mark.parametrize("call", [F.binary_cross_entropy, torch.cdist, torch.linalg.cross])
def test_operands_of_two_types_are_refused_as_in_eager(
    call: Callable[[Tensor, Tensor], Tensor],
) -> None:
    one, other = torch.rand(3, 3), torch.rand(3, 3).double()
    with pytest.raises(RuntimeError) as eager:
        call(one, other)
    with pytest.raises(RuntimeError) as error:
        call(one.to("ftm"), other.to("ftm"))
    assert str(eager.value).partition("\n")[0] in str(error.value)


def test_equal_takes_operands_of_two_types() -> None:
    one = torch.tensor([1.0, 0.1])
    for other in (one.double(), one.to(torch.float64).round(decimals=3), torch.tensor([1, 0])):
        assert torch.equal(one.to("ftm"), other.to("ftm")) == torch.equal(one, other)
