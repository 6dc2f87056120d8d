"""Moves of complex elements run on the device, part by part, and give what the CPU gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import ftm_lazy
from e2e.counting import fallbacks

# x [4, 3], source [2, 3], index [2], mask [4, 3], places [2, 3] along the rows, all different in a
# column
CALLS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "gather": lambda x, s, i, m, p: x.gather(0, p),
    "take": lambda x, s, i, m, p: x.take(p),
    "index": lambda x, s, i, m, p: x[i],
    "scatter": lambda x, s, i, m, p: x.scatter(0, p, s),
    "scatter_add": lambda x, s, i, m, p: x.scatter_add(0, p, s),
    "index_add": lambda x, s, i, m, p: x.index_add(0, i, s, alpha=2),
    "index_copy": lambda x, s, i, m, p: x.index_copy(0, i, s),
    "index_fill by a real number": lambda x, s, i, m, p: x.index_fill(0, i, 2.5),
    "index_put": lambda x, s, i, m, p: x.index_put((i,), s, accumulate=True),
    "index_put of one number": lambda x, s, i, m, p: x.index_put((m,), s[0, 0]),
    "masked_scatter": lambda x, s, i, m, p: x.masked_scatter(m, torch.cat([s, s])),
    "masked_fill by a real number": lambda x, s, i, m, p: x.masked_fill(m, 3.0),
    "put": lambda x, s, i, m, p: x.put(i, s[0, :2]),
    "roll": lambda x, s, i, m, p: x.roll(1, 0),
    "tril": lambda x, s, i, m, p: x.tril(),
    "repeat": lambda x, s, i, m, p: x.repeat(2, 2),
    "stack": lambda x, s, i, m, p: torch.stack([x, x]),
    "pad by a real number": lambda x, s, i, m, p: torch.nn.functional.pad(x, (1, 1), value=2.0),
    "slice_scatter": lambda x, s, i, m, p: x.slice_scatter(s, 0, 1, 3),
}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("name", CALLS)
def test_moves(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    operands: list[Any] = [
        torch.randn(4, 3, dtype=dtype),
        torch.randn(2, 3, dtype=dtype),
        torch.tensor([1, 3]),
        torch.rand(4, 3) > 0.5,
        torch.tensor([[0, 3, 1], [2, 1, 0]]),
    ]
    got = CALLS[name](*(x.to("ftm") for x in operands)).cpu()
    torch.testing.assert_close(got, CALLS[name](*operands))
    assert not fallbacks(ftm_lazy.metrics.counters())
