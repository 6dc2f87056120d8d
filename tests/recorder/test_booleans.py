"""Booleans of Python among the operands: results, dtypes and refusals are those of eager PyTorch,
and both booleans run one program."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ftm_lazy import _C

DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32]
CALLS: dict[str, Callable[[Tensor, bool], Tensor]] = {
    "or": lambda x, b: x | b,
    "and": lambda x, b: x & b,
    "xor": lambda x, b: b ^ x,
    "times": lambda x, b: x * b,
    "plus": lambda x, b: x + b,
    "minus": lambda x, b: x - b,
    "divides": lambda x, b: b / (x + 1),
    "equal": lambda x, b: x == b,
    "less": lambda x, b: x < b,
    "where": lambda x, b: torch.where(x > 0, b, x),
    "where of two": lambda x, b: torch.where(x > 0, b, not b),
    "in place": lambda x, b: x.clone().mul_(b),
    "or in place": lambda x, b: x.clone().__ior__(b),
    "out": lambda x, b: torch.mul(x, b, out=torch.empty_like(x)),
    "of one element": lambda x, b: x[0] + b,
    "masked": lambda x, b: x.masked_fill(x > 0, b),
}

BITS = ("or", "and", "xor", "or in place")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_like_the_cpu(name: str, dtype: torch.dtype) -> None:
    if dtype.is_floating_point and name in BITS:
        pytest.skip("the reference executor refuses these where it runs them")
    call, x = CALLS[name], torch.tensor([0, 1, 1, 0]).to(dtype)
    for boolean in (True, False):
        try:
            expected = call(x, boolean)
        except (RuntimeError, TypeError) as error:
            with pytest.raises(type(error)):
                call(x.to("ftm"), boolean)
            continue
        found = call(x.to("ftm"), boolean)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert torch.equal(found.cpu(), expected)


def test_both_run_one_program() -> None:
    _C._sync(True)
    _C._reset()
    _C._reset_counters()
    x = torch.tensor([0.0, 1.0]).to("ftm")
    for boolean in (True, False, True):
        assert ((x > 0) | boolean).tolist() == [boolean, True]
    assert (_C._counters()["executions"], _C._counters()["cache_hits_memory"]) == (3, 2)
