"""Where a case runs: moves its arguments to a device, the same tensor once, and in float64 on
request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

__all__ = ["CPU", "FTM", "PRECISE", "Place", "tensors"]

_WIDER = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}


@dataclass(frozen=True)
class Place:
    """A device, and whether floating-point numbers are widened to float64 there."""

    device: str
    precise: bool = False

    def put(self, tree: Any) -> Any:
        """`tree` with fresh leaf tensors on this device, strides kept; a tensor that occurs twice
        stays one tensor."""
        moved: dict[int, torch.Tensor] = {}

        def put(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                if id(leaf) not in moved:
                    moved[id(leaf)] = self._move(leaf)
                return moved[id(leaf)]
            if isinstance(leaf, torch.device) or leaf == "cpu":
                return torch.device(self.device)
            if isinstance(leaf, torch.dtype):
                return self.dtype(leaf)
            return leaf

        return pytree.tree_map(put, tree)

    def dtype(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype that stands for `dtype` here."""
        return _WIDER.get(dtype, dtype) if self.precise else dtype

    def _move(self, tensor: torch.Tensor) -> torch.Tensor:
        moved = tensor.detach().to(device=self.device, dtype=self.dtype(tensor.dtype), copy=True)
        return moved.requires_grad_(tensor.requires_grad)


CPU, FTM, PRECISE = Place("cpu"), Place("ftm"), Place("cpu", precise=True)


def tensors(tree: Any) -> list[torch.Tensor]:
    """The tensors in `tree`, each once, in order."""
    return list(
        {
            id(leaf): leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)
        }.values()
    )
