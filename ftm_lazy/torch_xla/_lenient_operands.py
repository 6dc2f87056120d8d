"""Operands that torch_xla accepts and eager PyTorch rejects (``FTM_XLA_LAX=1``).

- A CPU tensor among tensors on the device is copied to the device, with a warning for each line.
- `index_copy_`, `index_add_`, `scatter_` and `gather` accept int32 indices.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from ftm_lazy.device.device_name import NAME

__all__ = ["Lax"]

_DEVICE_ERROR = "Expected all tensors to be on the same device"
_INDEX_ERRORS = ("index", "int64", "Long")


class Lax(TorchFunctionMode):
    """Mode that repeats a rejected call with converted operands."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        try:
            return func(*args, **kwargs)
        except (RuntimeError, IndexError) as error:
            converted = self._convert(str(error), args, kwargs)
            if converted is None:
                raise
            warnings.warn(
                f"torch_xla accepts this, eager PyTorch does not: {error}",
                UserWarning,
                stacklevel=2,
            )
            return func(*converted[0], **converted[1])

    @staticmethod
    def _convert(
        message: str, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]] | None:
        """Return the operands converted as the error message requires; None if that cannot help."""
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        if not any(each.device.type == NAME for each in tensors):
            return None
        if any(each.device.type == "cpu" for each in tensors[1:]) and _DEVICE_ERROR in message:
            return tree_map(_moved, (args, kwargs))
        if any(each.dtype == torch.int32 for each in tensors) and any(
            word in message for word in _INDEX_ERRORS
        ):
            return tree_map(_widened, (args, kwargs))
        return None


def _moved(value: object) -> object:
    return (
        value.to(torch.device(NAME, 0))
        if isinstance(value, torch.Tensor) and value.device.type == "cpu"
        else value
    )


def _widened(value: object) -> object:
    return value.long() if isinstance(value, torch.Tensor) and value.dtype == torch.int32 else value
