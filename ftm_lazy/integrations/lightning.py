"""``Trainer(accelerator="ftm")`` and ``Fabric(accelerator="ftm")`` in Lightning.

Lightning has a registry of accelerators. But for a registered one it places the model on the CPU,
and creates a gradient scaler for CUDA. The patches register ftm and change both choices.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import Protocol

import torch

from ftm_lazy.device import device_index
from ftm_lazy.device.default_device import is_default
from ftm_lazy.integrations import import_hooks
from ftm_lazy.torch_version import private_names

_MIXED = ("16-mixed", "bf16-mixed")


class _AcceleratorConnector(Protocol):
    """What is used of the connectors of Lightning's trainer and of Fabric."""

    _accelerator_flag: object
    _parallel_devices: Sequence[torch.device]
    _precision_plugin_flag: object
    _precision_instance: object
    _precision_flag: object
    _precision_input: object


class _Strategy(Protocol):
    root_device: torch.device


def _name() -> str:
    """Return the device type's name in this process."""
    return private_names.privateuse1_name()


class _FTMAccelerator:
    """Methods of Lightning's accelerator; the base class differs between Lightning's packages."""

    def setup_device(self, device: torch.device) -> None:
        """Make `device` the current one, after checking that it is ftm."""
        if device.type != _name():
            raise ValueError(f"the device should be {_name()}, found {device}")
        torch.ftm.set_device(device)

    def teardown(self) -> None:
        """Do nothing: compiled programs are kept for the next run."""

    def get_device_stats(self, device: object) -> dict[str, object]:
        """Return memory figures in bytes for ``DeviceStatsMonitor``."""
        return {
            "allocated": torch.ftm.memory_allocated(),
            "allocated.peak": torch.ftm.max_memory_allocated(),
        }

    @staticmethod
    def parse_devices(devices: str | int | Sequence[int]) -> list[int]:
        """Return the indices of the requested devices, one for each process.

        The machine is emulated, so a number of devices is always available: processes that
        Lightning starts find it in ``FTM_DEVICES``.

        Args:
            devices: A number (-1: all), indices, or either as text.
        """
        if isinstance(devices, str):
            listed = [int(index) for index in devices.split(",") if index.strip()]
            devices = listed if "," in devices else listed[0]
        if isinstance(devices, int):
            devices = range(device_index.device_count() if devices == -1 else devices)
        indices = [int(index) for index in devices]
        device_index.provide(max(indices) + 1)
        return indices

    @staticmethod
    def get_parallel_devices(devices: Sequence[int]) -> list[torch.device]:
        """Return the device of each index."""
        return [torch.device(_name(), position) for position in devices]

    @staticmethod
    def auto_device_count() -> int:
        """Return the number of devices of this process."""
        return device_index.device_count()

    @staticmethod
    def is_available() -> bool:
        """Return True: the machine is emulated."""
        return True

    @staticmethod
    def name() -> str:
        """Return the name in the registry."""
        return _name()


def _register_accelerator(connector: ModuleType) -> None:
    """Patch the connector, which chooses accelerator, strategy and precision.

    Args:
        connector: The connector module of the trainer or of Fabric.
    """
    accelerator = type(
        "FTMAccelerator",
        (_FTMAccelerator, connector.Accelerator),
        {"__doc__": "Lightning's accelerator for ftm.", "__module__": connector.__name__},
    )
    is_trainer = hasattr(connector, "AcceleratorRegistry")
    registry = connector.AcceleratorRegistry if is_trainer else connector.ACCELERATOR_REGISTRY
    kind = connector._AcceleratorConnector if is_trainer else connector._Connector
    registry.register(_name(), accelerator, description=accelerator.__name__)
    choose_strategy, make_precision = kind._choose_strategy, kind._check_and_init_precision

    def is_chosen(self: _AcceleratorConnector) -> bool:
        return self._accelerator_flag == _name() or isinstance(self._accelerator_flag, accelerator)

    @functools.wraps(choose_strategy)
    def strategy(self: _AcceleratorConnector) -> object:
        chosen = choose_strategy(self)
        if is_chosen(self) and isinstance(chosen, connector.SingleDeviceStrategy):
            return connector.SingleDeviceStrategy(device=self._parallel_devices[0])
        return chosen

    @functools.wraps(make_precision)
    def precision(self: _AcceleratorConnector) -> object:
        plugin = self._precision_plugin_flag if is_trainer else self._precision_instance
        flag = self._precision_flag if is_trainer else self._precision_input
        if is_chosen(self) and flag in _MIXED and not plugin:
            return connector.MixedPrecision(flag, _name())
        return make_precision(self)

    choose_auto = kind._choose_auto_accelerator

    def auto() -> str:
        return _name() if is_default() else choose_auto()

    kind._choose_strategy, kind._check_and_init_precision = strategy, precision
    kind._choose_auto_accelerator = staticmethod(auto)


def _wrap_without_device_ids(ddp: ModuleType) -> None:
    """Patch the strategy ``ddp``: with device indices, it would create a stream of CUDA.

    Without indices `DistributedDataParallel` takes the device of the model.

    Args:
        ddp: The module of the strategy, of the trainer or of Fabric.
    """
    strategy = ddp.DDPStrategy
    name = next(
        name
        for name in ("determine_ddp_device_ids", "_determine_ddp_device_ids")
        if hasattr(strategy, name)
    )
    determine = getattr(strategy, name)

    @functools.wraps(determine)
    def device_ids(self: _Strategy) -> list[int] | None:
        if self.root_device.type == _name():
            return None
        found: list[int] | None = determine(self)
        return found

    setattr(strategy, name, device_ids)


def install() -> None:
    """Patch Lightning's packages, now or when they are imported."""
    import_hooks.patch(
        dict.fromkeys(
            (
                "lightning.pytorch.strategies.ddp",
                "pytorch_lightning.strategies.ddp",
                "lightning.fabric.strategies.ddp",
                "lightning_fabric.strategies.ddp",
            ),
            _wrap_without_device_ids,
        )
    )
    import_hooks.patch(
        dict.fromkeys(
            (
                "lightning.pytorch.trainer.connectors.accelerator_connector",
                "pytorch_lightning.trainer.connectors.accelerator_connector",
                "lightning.fabric.connector",
                "lightning_fabric.connector",
            ),
            _register_accelerator,
        )
    )
