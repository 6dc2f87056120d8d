"""The classes `torch.ftm.FloatStorage` etc. that `Tensor.storage_type()` returns."""

from __future__ import annotations

from typing import NoReturn

import torch
from torch.storage import _dtype_to_storage_type_map, _LegacyStorage

__all__ = ["legacy_storages"]


class _FtmLegacyStorage(_LegacyStorage):
    """Legacy storage that, as CUDA's, refuses to be built from host memory."""

    @classmethod
    def from_buffer(cls, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError("from_buffer: Not available for ftm storage")

    @classmethod
    def _new_with_weak_ptr(cls, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError("_new_with_weak_ptr: Not available for ftm storage")

    @classmethod
    def _new_shared_filename(cls, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError("_new_shared_filename: Not available for ftm storage")


def legacy_storages(module: str) -> list[type[_LegacyStorage]]:
    """Create one class for each dtype that PyTorch has a legacy storage of.

    Args:
        module: Full name of the device module. PyTorch derives a class's device from it.

    Returns:
        The classes, to be set as attributes of the device module.
    """
    return [
        _storage_class(module, name, dtype) for dtype, name in _dtype_to_storage_type_map().items()
    ]


def _storage_class(module: str, name: str, dtype: torch.dtype) -> type[_LegacyStorage]:
    return type(name, (_FtmLegacyStorage,), {"__module__": module, "dtype": dtype, "_dtype": dtype})
