"""What torch_xla takes and eager PyTorch does not, for programs that rely on it: with
``FTM_XLA_LAX=1``.

- A CPU tensor among tensors on the device is moved there, with a warning for each line that needs
  it.
- `index_copy_`, `index_add_`, `scatter_` and `gather` take indices of int32.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from ftm_lazy.device.device_name import NAME

__all__ = ["Lax"]

_DEVICES = "Expected all tensors to be on the same device"
_INDICES = ("index", "int64", "Long")


class Lax(TorchFunctionMode):
    """Calls a function again, with operands that fit, where it refuses those it got."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        try:
            return func(*args, **kwargs)
        except (RuntimeError, IndexError) as error:
            fitted = self._fit(str(error), args, kwargs)
            if fitted is None:
                raise
            warnings.warn(
                f"torch_xla takes this, eager PyTorch does not: {error}", UserWarning, stacklevel=2
            )
            return func(*fitted[0], **fitted[1])

    @staticmethod
    def _fit(message: str, args: object, kwargs: object) -> tuple[Any, Any] | None:
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        if not any(each.device.type == NAME for each in tensors):
            return None
        if any(each.device.type == "cpu" for each in tensors[1:]) and _DEVICES in message:
            return tree_map(_moved, (args, kwargs))
        if any(each.dtype == torch.int32 for each in tensors) and any(
            word in message for word in _INDICES
        ):
            return tree_map(_widened, (args, kwargs))
        return None


def _moved(value: object) -> Any:
    return (
        value.to(torch.device(NAME, 0))
        if isinstance(value, torch.Tensor) and value.device.type == "cpu"
        else value
    )


def _widened(value: object) -> Any:
    return value.long() if isinstance(value, torch.Tensor) and value.dtype == torch.int32 else value
