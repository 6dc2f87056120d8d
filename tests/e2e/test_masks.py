"""Elements chosen by masks: gathered on the device. A mask of at most four operations is computed
on the CPU; a longer one costs a synchronization, which is counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import ftm_lazy
from e2e.counting import fallbacks


def grid(device: str) -> Tensor:
    return (torch.arange(8.0) - 3).view(4, 2).to(device)


def known(device: str) -> Tensor:
    return torch.tensor([True, False, True, True]).to(device)


def is_positive(x: Tensor) -> Tensor:
    """A mask of five operations, for which the device has to be waited for."""
    return x * 2 / 2 + 1 - 1 > 0


def replaced(device: str) -> Tensor:
    x = grid(device)
    x[x > 0] = torch.tensor([9.0, 8, 7, 6]).to(device)
    x[known(device), 0] = 5.0
    return x


def gradient(device: str) -> Tensor:
    x = grid(device).requires_grad_()
    x[is_positive(x[:, 0])].square().sum().backward()
    return x.grad


# and whether the device has to be waited for
CHOICES: dict[str, tuple[Callable[[str], Tensor], bool]] = {
    "rows that came from the CPU": (lambda d: grid(d)[known(d)], False),
    "beside indices": (lambda d: grid(d)[known(d), torch.tensor([0, 1, 1]).to(d)], False),
    "bytes": (lambda d: grid(d)[known(d).to(torch.uint8)], False),
    "rows by a short mask": (lambda d: grid(d)[grid(d)[:, 0] * 2 > 0], False),
    "elements by a short mask": (lambda d: grid(d)[grid(d) > 0], False),
    "no row": (lambda d: grid(d)[grid(d)[:, 0] > 100], False),
    "masked_select by a short mask": (lambda d: grid(d).masked_select(grid(d) > 0), False),
    "nonzero of a short mask": (lambda d: (grid(d) > 0).nonzero(), False),
    "computed rows": (lambda d: grid(d)[is_positive(grid(d)[:, 0])], True),
    "computed elements": (lambda d: grid(d)[is_positive(grid(d))], True),
    "masked_select": (lambda d: grid(d).masked_select(is_positive(grid(d))), True),
    "nonzero": (lambda d: is_positive(grid(d)).nonzero(), True),
    "nonzero of data": (lambda d: grid(d).nonzero(), False),
    "replaced": (replaced, False),
    "gradient": (gradient, True),
}


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize("name", CHOICES)
def test_choices(name: str) -> None:
    choose, waits = CHOICES[name]
    got, want = choose("ftm"), choose("cpu")
    assert torch.equal(got.cpu(), want)
    counters = ftm_lazy.metrics.counters()
    assert not fallbacks(counters)
    assert any(n for counter, n in counters.items() if counter.startswith("sync::")) == waits


def test_a_mask_of_another_shape_is_refused_as_on_the_cpu() -> None:
    for device in ("cpu", "ftm"):
        with pytest.raises(
            IndexError, match="The shape of the mask \\[2\\] at index 0 does not match"
        ):
            grid(device)[torch.tensor([True, False]).to(device)]
