"""torch_xla.distributed.data_parallel: a training loop for each device of a process.

A process has one device on ftm; `torch_xla.launch` starts several processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Unpack

import torch

from ftm_lazy.torch_xla import _devices
from ftm_lazy.torch_xla.core import xla_model
from ftm_lazy.torch_xla.distributed import parallel_loader

__all__ = ["Context", "DataParallel", "ThreadResult"]


class Context:
    """Attributes that a loop keeps for its next call.

    Args:
        device: The loop's device.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def getattr_or(self, name: str, defval: object) -> object:
        """Return an attribute, after setting it to `defval` (or ``defval()``) if it is missing."""
        if not hasattr(self, name):
            setattr(self, name, defval() if callable(defval) else defval)
        return getattr(self, name)


class ThreadResult:
    """Result of a loop."""

    def __init__(self) -> None:
        self.result: object = None


class DataParallel:
    """Runs training loops on copies of a model.

    Args:
        network: A module, or a function that creates one.
        device_ids: Devices of the copies. None for the device of this process; an empty list for
            the CPU.
        **kwargs: Arguments of `ParallelLoader`.

    Raises:
        ValueError: There is more than one device.
    """

    def __init__(
        self,
        network: torch.nn.Module | Callable[[], torch.nn.Module],
        device_ids: Iterable[torch.device | str] | None = None,
        **kwargs: Unpack[parallel_loader.LoaderOptions],
    ) -> None:
        module = network if isinstance(network, torch.nn.Module) else network()
        chosen = [
            torch.device(each)
            for each in (_devices.devices() if device_ids is None else device_ids)
        ]
        if len(chosen) > 1:
            raise ValueError(
                f"a process has one device, not {chosen}:"
                " start several processes with torch_xla.launch"
            )
        self._native = not chosen
        self._device = (
            chosen[0]
            if chosen
            else next((p.device for p in module.parameters()), torch.device("cpu"))
        )
        self._models = [module if self._native else deepcopy(module).to(self._device)]
        self._context = Context(self._device)
        self._arguments = kwargs

    @property
    def devices(self) -> list[str]:
        """The names of the devices."""
        return [str(self._device)]

    @property
    def models(self) -> list[torch.nn.Module]:
        """The copies of the model."""
        return self._models

    def __call__(
        self,
        loop_fn: Callable[..., object],
        loader: Iterable[object],
        batchdim: int = 0,
        **kwargs: object,
    ) -> list[object]:
        """Run one epoch.

        Args:
            loop_fn: Called as ``loop_fn(model, device_loader, device, context, **kwargs)``.
            loader: Yields batches on the CPU.
            batchdim: Accepted; has no effect.
            **kwargs: Arguments of `loop_fn`.

        Returns:
            The results of `loop_fn`, a list of one.
        """
        if self._native:
            return [
                loop_fn(self._models[0], enumerate(loader), self._device, self._context, **kwargs)
            ]
        xla_model.wait_device_ops()
        options: parallel_loader.LoaderOptions = {**self._arguments, "batchdim": batchdim}
        batches = parallel_loader.ParallelLoader(loader, [self._device], **options)
        try:
            device_loader = batches.per_device_loader(self._device)
            return [loop_fn(self._models[0], device_loader, self._device, self._context, **kwargs)]
        finally:
            batches.close()
