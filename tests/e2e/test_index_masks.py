"""Writing where a mask says, and gradients of reading there, run on the device: the mask's count is
not needed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import ftm_lazy


def _one_number(x: Tensor, m: Tensor, v: Tensor) -> Tensor:
    y = x.clone()
    y[m] = 7.0
    return y


def _rows(x: Tensor, m: Tensor, v: Tensor) -> Tensor:
    y = x.clone()
    y[m[:, 0]] = v[: x.shape[1]]
    return y


def _columns(x: Tensor, m: Tensor, v: Tensor) -> Tensor:
    y = x.clone()
    y[:, m[0]] = v[: x.shape[0], None]
    return y


def _counted(x: Tensor, m: Tensor, v: Tensor) -> Tensor:
    y = x.clone()
    y[m] = v[: int(m.sum())]
    return y


def _added(x: Tensor, m: Tensor, v: Tensor) -> Tensor:
    return x.index_put((m,), v[: int(m.sum())], accumulate=True)


WRITES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "one number": _one_number,
    "one row for all": _rows,
    "broadcast along the columns": _columns,
    "as many as the mask has": _counted,
    "added": _added,
    "masked_scatter": lambda x, m, v: x.masked_scatter(m, v),
    "masked_fill": lambda x, m, v: x.masked_fill(m, float("-inf")),
}


def _operands(device: str) -> tuple[Tensor, Tensor, Tensor]:
    source = torch.Generator().manual_seed(3)
    x, v = torch.randn(5, 6, generator=source), torch.randn(30, generator=source)
    return x.to(device), (torch.rand(5, 6, generator=source) > 0.5).to(device), v.to(device)


@pytest.mark.parametrize("name", WRITES)
def test_writes(name: str) -> None:
    want = WRITES[name](*_operands("cpu"))
    got = WRITES[name](*_operands("ftm"))
    torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0)
    counters = ftm_lazy.metrics.counters()
    assert not any(n for k, n in counters.items() if k.startswith("fallback::")), counters


def test_the_gradient_of_what_a_mask_selects_is_written_on_the_device() -> None:
    def gradient(x: Tensor, m: Tensor, v: Tensor) -> Tensor:
        x.requires_grad_()
        return torch.autograd.grad(x[m].square().sum(), x)[0]

    torch.testing.assert_close(gradient(*_operands("ftm")).cpu(), gradient(*_operands("cpu")))
    fallbacks = {
        k for k, n in ftm_lazy.metrics.counters().items() if k.startswith("fallback::") and n
    }
    assert fallbacks <= {"fallback::aten::index.Tensor"}  # reading needs the count


@pytest.mark.parametrize("count", [2, 4])
def test_another_count_than_the_masks_is_an_error(count: int) -> None:
    mask = torch.tensor([True, False, True, True, False])
    for device in ("cpu", "ftm"):
        x, values = torch.zeros(5, device=device), torch.ones(count, device=device)
        with pytest.raises((IndexError, RuntimeError)):
            x[mask.to(device)] = values
            x.cpu()


MASKED: dict[str, Callable[[Tensor, Tensor], object]] = {
    "read": lambda x, m: x[m],
    "read of rows": lambda x, m: x.view(2, 2)[m[:2]],
    "read, with an index": lambda x, m: x.view(2, 2)[
        m[:2], torch.zeros(1, dtype=torch.int64, device=x.device)
    ],
    "written": lambda x, m: x.__setitem__(m, torch.ones(2, device=x.device)),
    "accumulated": lambda x, m: x.index_put_(
        (m,), torch.tensor(2.0, device=x.device), accumulate=True
    ),
}


@pytest.mark.parametrize("name", MASKED)
def test_masks_of_bytes_are_deprecated(name: str) -> None:
    found = []
    for device in ("cpu", "ftm"):
        x, mask = (
            torch.arange(4.0, device=device),
            torch.tensor([1, 0, 1, 0], dtype=torch.uint8, device=device),
        )
        with pytest.warns(
            UserWarning,
            match="indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead",
        ):
            MASKED[name](x, mask)
        found.append(x.tolist())
    assert found[0] == found[1]


def test_one_number_is_not_put_where_bytes_say() -> None:
    for device in ("cpu", "ftm"):
        x, mask = (
            torch.arange(4.0, device=device),
            torch.tensor([1, 0, 1, 0], dtype=torch.uint8, device=device),
        )
        with pytest.raises(
            RuntimeError,
            match="masked_fill_ only supports boolean masks, but got mask with dtype unsigned char",
        ):
            x[mask] = 3.0
