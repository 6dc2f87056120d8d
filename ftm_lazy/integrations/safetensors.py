"""Loading of safetensors files to the device.

`load_file(path, device="ftm")` and `safe_open(path, "pt", device="ftm")` accept ftm. The library
has a fixed list of devices, so it reads to the CPU, and the tensors are copied to ftm.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Protocol

import torch

from ftm_lazy.device.device_name import NAME
from ftm_lazy.integrations import import_hooks


def install() -> None:
    """Patch the library, now or when it is imported."""
    import_hooks.patch({"safetensors": _accept_device, "safetensors.torch": _accept_device})


def _accept_device(module: ModuleType) -> None:
    open_file: Callable[..., _OpenFile] = module.safe_open
    if isinstance(open_file, _Opener):  # imported from the other module, which is patched already
        return
    module.safe_open = _Opener(open_file)  # type: ignore[attr-defined]


class _OpenFile(Protocol):
    """What is used of the object that ``safetensors.safe_open`` returns."""

    def __enter__(self) -> object: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def get_tensor(self, name: str) -> torch.Tensor: ...
    def get_tensors(self, *names: object) -> dict[str, torch.Tensor]: ...
    def get_slice(self, name: str) -> _Part: ...


class _Part(Protocol):
    def __getitem__(self, index: object) -> torch.Tensor: ...


class _Opener:
    """`safetensors.safe_open` that accepts ftm."""

    def __init__(self, open_file: Callable[..., _OpenFile]) -> None:
        self._open_file = open_file

    def __call__(
        self, filename: object, framework: str, device: object = "cpu", **options: object
    ) -> object:
        if isinstance(device, (str, torch.device)) and torch.device(device).type == NAME:
            return _File(
                self._open_file(filename, framework, device="cpu", **options), torch.device(device)
            )
        return self._open_file(filename, framework, device=device, **options)


class _File:
    """An open file that returns tensors on ftm; other attributes are the file's."""

    def __init__(self, file: _OpenFile, device: torch.device) -> None:
        self._file, self._device = file, device

    def __enter__(self) -> _File:
        self._file.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.__exit__(kind, error, traceback)

    def __getattr__(self, name: str) -> object:  # keys, metadata, ...
        return getattr(self._file, name)

    def get_tensor(self, name: str) -> torch.Tensor:
        """Return one tensor."""
        moved: torch.Tensor = self._file.get_tensor(name).to(self._device)
        return moved

    def get_tensors(self, *names: object) -> dict[str, torch.Tensor]:
        """Return several tensors, by name."""
        return {
            name: tensor.to(self._device) for name, tensor in self._file.get_tensors(*names).items()
        }

    def get_slice(self, name: str) -> _Slice:
        """Return a tensor to read parts of."""
        return _Slice(self._file.get_slice(name), self._device)


class _Slice:
    """A tensor in the file that is read in parts; indexing returns a tensor on ftm."""

    def __init__(self, part: _Part, device: torch.device) -> None:
        self._part, self._device = part, device

    def __getitem__(self, index: object) -> torch.Tensor:
        moved: torch.Tensor = self._part[index].to(self._device)
        return moved

    def __getattr__(self, name: str) -> object:  # get_shape, get_dtype
        return getattr(self._part, name)
