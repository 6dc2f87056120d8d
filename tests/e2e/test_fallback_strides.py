"""Ops that run on the CPU see operands with the strides that the caller sees: gradients of
factorizations go by them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

VIEWS = {
    "gaps": lambda base: base[:, ::2, :3],
    "expanded": lambda base: base[0, :3, :3].expand(2, 3, 3),
    "gaps, transposed": lambda base: base[:, ::2, :3].transpose(1, 2),
    "dense, transposed": lambda base: base[:, :3, :3].clone().transpose(1, 2),
}
OPS = {
    "det": torch.linalg.det,
    "slogdet": lambda a: torch.linalg.slogdet(a)[1],
    "inv": torch.linalg.inv,
    "svdvals": torch.linalg.svdvals,
    "solve": lambda a: torch.linalg.solve(a, torch.ones(3, 1, device=a.device)),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("op", OPS)
def test_gradient(op: str, view: str) -> None:
    def gradient(device: str) -> Tensor:
        torch.manual_seed(0)
        base = (torch.rand(2, 6, 4) + 3 * torch.eye(6, 4)).to(device).requires_grad_()
        OPS[op](VIEWS[view](base)).sum().backward()
        return base.grad.cpu()

    torch.testing.assert_close(gradient("ftm"), gradient("cpu"))
