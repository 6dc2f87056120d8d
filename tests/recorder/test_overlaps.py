"""Calls that write to memory which they read or write elsewhere are taken and refused as on the
CPU, with its message."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

Call = Callable[[Callable[[Tensor], Tensor]], object]


def _base() -> Tensor:
    return torch.arange(1.0, 13.0)


def _part_of_the_input(call: Callable[[Tensor, Tensor], object]) -> Call:
    """The output is the middle of the input's elements."""

    def run(to: Callable[[Tensor], Tensor]) -> object:
        base = to(_base())
        return call(base[:12].view(3, 4), base[4:8])

    return run


READS_WHAT_IT_WROTE: dict[str, Callable[[], Tensor]] = {
    "sum": lambda: _base()[:12].view(3, 4).sum(0),
    "mean": lambda: _base()[:12].view(3, 4).mean(0),
    "nansum": lambda: _base()[:12].view(3, 4).nansum(0),
    "prod": lambda: _base()[:12].view(3, 4).prod(0),
    "mm": lambda: _base()[:9].view(3, 3) @ _base()[:9].view(3, 3),
}
"""What eager takes, and computes from elements that it has written over. PyTorch does not define
these results. The device gives those of an output elsewhere, as it reads all before it writes."""

CALLS: dict[str, Call] = {
    "sum": _part_of_the_input(lambda x, out: torch.sum(x, 0, out=out)),
    "mean": _part_of_the_input(lambda x, out: torch.mean(x, 0, out=out)),
    "nansum": _part_of_the_input(lambda x, out: torch.nansum(x, 0, out=out)),
    "prod": _part_of_the_input(lambda x, out: torch.prod(x, 0, out=out)),
    "amax": _part_of_the_input(lambda x, out: torch.amax(x, 0, out=out)),
    "logsumexp": _part_of_the_input(lambda x, out: torch.logsumexp(x, 0, out=out)),
    "cumsum": _part_of_the_input(lambda x, out: torch.cumsum(x[0], 0, out=out)),
    "abs, next to it": _part_of_the_input(lambda x, out: torch.abs(x[0], out=out)),
    "abs, shifted": lambda to: (lambda x: torch.abs(x[1:], out=x[:-1]))(to(_base())),
    "abs, resizing a view": lambda to: (lambda x: torch.abs(x, out=x[:5]))(to(_base())),
    "add, resizing a view": lambda to: (lambda x: torch.add(x, 1, out=x[2:3]))(to(_base())),
    "mm": lambda to: (lambda x: torch.mm(x, x, out=x))(to(_base()[:9].view(3, 3).clone())),
    "mm, resizing a view": lambda to: (
        lambda x: torch.mm(to(torch.ones(2, 2)), to(torch.ones(2, 2)), out=x[2:3])
    )(to(_base())),
    "cat": lambda to: (lambda x: torch.cat([x[:3], x[3:6]], out=x[1:7]))(to(_base())),
    "gather": lambda to: (lambda x: torch.gather(x, 0, to(torch.tensor([0, 2])), out=x[:2]))(
        to(_base())
    ),
    "threshold_ of an expanded tensor": lambda to: F.threshold_(
        to(torch.ones(1)).expand(4), 2.0, 5.0
    ),
    "relu_ of an expanded tensor": lambda to: to(torch.ones(1)).expand(4).relu_(),
    "add_ to an expanded tensor": lambda to: to(torch.ones(1)).expand(4).add_(1),
    "mul into an expanded tensor": lambda to: torch.mul(
        to(torch.ones(4)), 2, out=to(torch.ones(1)).expand(4)
    ),
    "bmm into an expanded tensor": lambda to: torch.bmm(
        to(torch.ones(2, 2, 2)), to(torch.ones(2, 2, 2)), out=to(torch.ones(())).expand(2, 2, 2)
    ),
    "addr_ of a row": lambda to: to(torch.ones(3)).addr_(to(torch.ones(2)), to(torch.ones(3))),
    "addr_ that does not fit": lambda to: to(torch.ones(1, 3)).addr_(
        to(torch.ones(2)), to(torch.ones(3))
    ),
    "columns": lambda to: (lambda x: x[:, 0].add_(x[:, 1]))(to(_base()).view(3, 4)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_as_the_cpu(name: str) -> None:
    try:
        expected = CALLS[name](lambda x: x.clone())
    except RuntimeError as error:
        with pytest.raises(type(error)) as refused:
            CALLS[name](lambda x: x.to("ftm"))
        assert str(refused.value).splitlines()[0] == str(error).splitlines()[0]
        return
    found = CALLS[name](lambda x: x.to("ftm"))
    assert isinstance(found, Tensor) and isinstance(expected, Tensor)
    assert found.stride() == expected.stride()
    if name in READS_WHAT_IT_WROTE:
        expected = READS_WHAT_IT_WROTE[name]()
    torch.testing.assert_close(found.cpu(), expected)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_output_that_overlaps_once_it_is_resized() -> None:
    source, index = torch.rand(3).to("ftm"), torch.tensor([0, 1]).to("ftm")
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.gather(source, 0, index, out=source[1:2])


def test_running_statistics_that_share_memory() -> None:
    mean, var = torch.zeros(4).to("ftm"), torch.ones(1).to("ftm").expand(4)
    x = torch.rand(5, 4).to("ftm")
    with pytest.raises(RuntimeError, match="unsupported operation"):
        F.batch_norm(x, mean, var, training=True)
    assert mean.tolist() == [0, 0, 0, 0]
    F.batch_norm(x, mean, var)  # reads them
