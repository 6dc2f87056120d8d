"""A place outside is an error in every op that reads or writes where data says, and no op reads or
writes elsewhere. The error names the line that recorded the op."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import ftm_lazy


def _x(device: str, *shape: int) -> Tensor:
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape).to(device)


def _zeros(device: str, *shape: int) -> Tensor:
    return torch.zeros(shape, device=device)


def _at(device: str, *numbers: int) -> Tensor:
    return torch.tensor(numbers).to(device) + 0  # computed there: a program has to find out


def _place(device: str, number: int) -> Tensor:
    return _at(device, number).reshape(1, 1)


CALLS: dict[str, Callable[[str], Tensor]] = {
    "index": lambda d: _x(d, 4, 3)[_at(d, 0, 4)],
    "index below": lambda d: _x(d, 4, 3)[_at(d, 0, -5)],
    "index of columns": lambda d: _x(d, 4, 3)[:, _at(d, 3)],
    "two indices": lambda d: _x(d, 4, 3)[_at(d, 0), _at(d, 3)],
    "index of extent 1": lambda d: _x(d, 1, 3)[_at(d, 1)],
    "index of one element": lambda d: _x(d, 1)[_at(d, 1)],
    "index of an expanded dimension": lambda d: _x(d, 1, 3).expand(4, 3)[_at(d, 4)],
    "index of zeros": lambda d: _zeros(d, 10)[_at(d, 10)],
    "index of an expanded number": lambda d: torch.full((1,), 2.0, device=d).expand(5)[_at(d, 5)],
    "constant index": lambda d: _x(d, 5)[torch.full((2,), 5, device=d)],
    "constant index of zeros": lambda d: _zeros(d, 5)[torch.full((2,), 5, device=d)],
    "one in one zero": lambda d: _zeros(d, 1)[torch.ones(2, dtype=torch.int64, device=d)],
    "one in one element": lambda d: _x(d, 1).index_select(
        0, torch.ones(2, dtype=torch.int64, device=d)
    ),
    "ones of zeros": lambda d: _zeros(d, 3, 1).gather(
        1, torch.ones(3, 1, dtype=torch.int64, device=d)
    ),
    "counted index of zeros": lambda d: _zeros(d, 5)[torch.arange(6, device=d)],
    "gather": lambda d: _x(d, 4, 3).gather(0, _place(d, 4)),
    "gather below": lambda d: _x(d, 4, 3).gather(0, _place(d, -1)),
    "gather of zeros": lambda d: _zeros(d, 4, 3).gather(1, _place(d, 3)),
    "gather of a number": lambda d: _x(d, 1)[0].gather(0, _at(d, 1)[0]),
    "index_select": lambda d: _x(d, 4, 3).index_select(1, _at(d, 3)),
    "index_select of a number": lambda d: _x(d, 1)[0].index_select(0, _at(d, 1)),
    "take": lambda d: _x(d, 4, 3).take(_at(d, 12)),
    "take below": lambda d: _x(d, 4, 3).take(_at(d, -13)),
    "embedding": lambda d: F.embedding(_at(d, 7), _x(d, 7, 40)),
    "embedding of zeros": lambda d: F.embedding(_at(d, 7), _zeros(d, 7, 40)),
    "embedding of one row": lambda d: F.embedding(_at(d, 1), _x(d, 1, 40)),
    "embedding_bag": lambda d: F.embedding_bag(_at(d, 0, 7), _x(d, 7, 4), _at(d, 0), mode="mean"),
    "scatter": lambda d: _x(d, 4, 3).scatter(1, _place(d, 3), 1.0),
    "scatter below": lambda d: _x(d, 4, 3).scatter(0, _place(d, -1), 1.0),
    "scatter_add": lambda d: _x(d, 4, 1).scatter_add(1, _place(d, 1), _x(d, 1, 1)),
    "scatter_reduce": lambda d: _x(d, 4, 3).scatter_reduce(1, _place(d, 3), _x(d, 1, 1), "amax"),
    "index_add": lambda d: _x(d, 4, 3).index_add(1, _at(d, 3), _x(d, 4, 1)),
    "index_copy": lambda d: _x(d, 4, 3).index_copy(1, _at(d, -1), _x(d, 4, 1)),
    "index_fill": lambda d: _x(d, 4, 3).index_fill(1, _at(d, -4), 1.0),
    "index_reduce": lambda d: _x(d, 4, 3).index_reduce(1, _at(d, 3), _x(d, 4, 1), "amax"),
    "index_put": lambda d: _x(d, 4, 3).index_put((_at(d, 0), _at(d, 3)), _x(d, 1)[0]),
    "index_put below": lambda d: _x(d, 4, 3).index_put((_at(d, -5),), _x(d, 1)[0], accumulate=True),
    "put": lambda d: _x(d, 4, 3).put(_at(d, 12), _x(d, 1)),
    "masked_scatter from too few": lambda d: _x(d, 4).masked_scatter(_x(d, 4) > 0, _x(d, 3)),
    "one_hot": lambda d: F.one_hot(_at(d, 3), 3),
    "nll_loss": lambda d: F.nll_loss(_x(d, 2, 3), _at(d, 1, 3)),
}


SINGLE: dict[str, Callable[[Tensor, str], Tensor]] = {
    "row": lambda x, d: x[_at(d, 0, x.shape[0])],
    "column": lambda x, d: x[:, _at(d, 0, x.shape[1])],
    "row of an element": lambda x, d: x[_at(d, x.shape[0], 0), _at(d, 0, 0)],
    "column of an element": lambda x, d: x[_at(d, 0, 0), _at(d, 0, x.shape[1])],
}


@pytest.mark.parametrize("name", SINGLE)
def test_a_program_for_several_rows_and_columns_checks_single_ones(name: str) -> None:
    """A place outside may have an address inside: column 1 of several rows of one element."""

    def fails(rows: int, columns: int) -> None:
        with pytest.raises(IndexError):
            SINGLE[name](_x("ftm", rows, columns) * 2, "ftm").cpu()

    for shape in ((4, 3), (5, 6), (3, 5), (7, 8)):
        fails(*shape)
    compiles = ftm_lazy.metrics.counters()["compiles"]
    for shape in ((1, 4), (4, 1), (1, 1)):
        fails(*shape)
    assert ftm_lazy.metrics.counters()["compiles"] == compiles


@pytest.mark.parametrize("name", CALLS)
def test_a_place_outside_is_an_error(name: str) -> None:
    with pytest.raises((IndexError, RuntimeError)):
        CALLS[name]("cpu")
    with pytest.raises((IndexError, RuntimeError)) as caught:
        CALLS[name]("ftm").cpu()
        torch.accelerator.synchronize()
    assert "ftm" not in type(caught.value).__module__
    assert f"recorded at {__file__}:{CALLS[name].__code__.co_firstlineno})" in str(caught.value)
    assert (_x("ftm", 3) + 1).tolist() == [2.0, 3.0, 4.0]  # the device goes on
