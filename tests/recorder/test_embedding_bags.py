"""Embedding bags on the reference executor: the CPU kernel omits results that the trace has, and the
executor adds them."""

import pytest
import torch

from ftm_backend.frontend.ops import native_ops
from ftm_lazy import _C


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [False, True], ids=["", "last offset"])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_forward_and_backward_in_two_programs(
    mode: str, last: bool, width: int, dtype: torch.dtype
) -> None:
    _C._set_native_ops({name: list(dtypes) for name, dtypes in native_ops().items()})
    weight = torch.randn(5, width).to(dtype)
    indices, offsets = torch.tensor([1, 2, 4, 1]), torch.tensor([0, 1, 1, *([4] if last else [])])
    found = []
    for device in ("cpu", "ftm"):
        table = weight.to(device, copy=True).requires_grad_()
        bags = torch.nn.functional.embedding_bag(
            indices.to(device), table, offsets.to(device), mode=mode, include_last_offset=last
        )
        bags.detach().sum().item()
        bags.square().sum().backward()
        found.append((bags.detach().cpu(), table.grad.cpu()))
    for expected, actual in zip(*found, strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_indices_and_offsets_of_two_widths(mode: str) -> None:
    indices, offsets, weight = (
        torch.tensor([1, 2, 4, 1], dtype=torch.int32),
        torch.tensor([0, 2]),
        torch.arange(15.0).view(5, 3),
    )
    expected, *found = (
        torch.nn.functional.embedding_bag(indices.to(d), weight.to(d), offsets.to(d), mode=mode)
        for d in ("cpu", "ftm")
    )
    torch.testing.assert_close(found[0].cpu(), expected)
