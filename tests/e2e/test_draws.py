"""What an op draws is a function of seed and offset, whether its program is compiled or runs op by
op."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ftm_lazy import _C
from ftm_lazy.device import registration

DRAWS: dict[str, Callable[[Tensor], Tensor | tuple[Tensor, ...]]] = {
    "uniform": lambda x: x.uniform_(-1, 3),
    "normal": lambda x: x.normal_(1, 2),
    "normal of tensors": lambda x: torch.normal(x[:, None], x + 1),
    "normal of means": lambda x: torch.normal(x, 2.0),
    "normal of deviations": lambda x: torch.normal(1.0, x + 1),
    "log_normal": lambda x: x.log_normal_(0.2, 0.5),
    "exponential": lambda x: x.exponential_(1.5),
    "cauchy": lambda x: x.cauchy_(0.5, 2),
    "geometric": lambda x: x.geometric_(0.25),
    "bernoulli": lambda x: x.bernoulli_(0.3),
    "bernoulli of itself": lambda x: torch.bernoulli(x + 0.4),
    "bernoulli of a tensor": lambda x: x.bernoulli_(x + 0.3),
    "integers": lambda x: x.random_(),
    "integers up to": lambda x: x.random_(9),
    "integers between": lambda x: x.random_(3, 17),
    "permutation": lambda x: torch.randperm(50, device=x.device),
    "long permutation": lambda x: torch.randperm(5000, device=x.device),
    "choice": lambda x: torch.multinomial(x + 1, 5),
    "choice with replacement": lambda x: torch.multinomial(x + 1, 50, replacement=True),
    "dropout": lambda x: torch.native_dropout(x + 1, 0.3, True),
}


def drawn(
    draw: Callable[[Tensor], Tensor | tuple[Tensor, ...]], dtype: torch.dtype, executor: str
) -> list[Tensor]:
    registration.initialize()
    before = _C._executor()
    _C._set_executor(executor)
    try:
        torch.manual_seed(7)
        found = draw(torch.zeros(40, dtype=dtype, device="ftm"))
        return [result.cpu() for result in (found if isinstance(found, tuple) else (found,))]
    finally:
        _C._set_executor(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", DRAWS)
def test_both_executors_draw_the_same(name: str, dtype: torch.dtype) -> None:
    compiled, by_op = (drawn(DRAWS[name], dtype, executor) for executor in ("machine", "reference"))
    torch.testing.assert_close(compiled, by_op)
