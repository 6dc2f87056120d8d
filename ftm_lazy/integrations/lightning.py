"""``Trainer(accelerator="ftm")`` and ``Fabric(accelerator="ftm")`` in Lightning.

Lightning finds accelerators by name in a registry, but takes any that is not its own for the CPU
when it chooses where a model goes, and for CUDA when it makes a gradient scaler. What is here
registers one, and changes these two answers for it.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch

from ftm_lazy.integrations import import_hooks

__all__ = ["install"]

_MIXED = ("16-mixed", "bf16-mixed")


def _name() -> str:
    """What the device is called in this process."""
    return torch._C._get_privateuse1_backend_name()


class _OneDevice:
    """What an accelerator of Lightning is asked; its base class is that of the package that
    asks."""

    def setup_device(self, device: torch.device) -> None:
        """Nothing is set up; raises ``ValueError`` for another device."""
        if device.type != _name():
            raise ValueError(f"the device should be {_name()}, found {device}")

    def teardown(self) -> None:
        """Nothing is undone: compiled programs are kept for the next run."""

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        """For ``DeviceStatsMonitor``: bytes."""
        return {
            "allocated": torch.ftm.memory_allocated(),
            "allocated.peak": torch.ftm.max_memory_allocated(),
        }

    @staticmethod
    def parse_devices(devices: Any) -> list[int]:
        """Positions of devices, of which there is one; raises ``ValueError`` where more are asked
        for."""
        if devices in (1, -1, "1", "-1", "auto", [0], "0,"):
            return [0]
        raise ValueError(f"there is one device {_name()}: devices={devices!r} is not available")

    @staticmethod
    def get_parallel_devices(devices: Any) -> list[torch.device]:
        """Return the device for each position."""
        return [torch.device(_name(), position) for position in devices]

    @staticmethod
    def auto_device_count() -> int:
        """One."""
        return 1

    @staticmethod
    def is_available() -> bool:
        """Always: the machine is emulated where there is none."""
        return True

    @staticmethod
    def name() -> str:
        """By which it is asked for."""
        return _name()


def _accelerator(connector: ModuleType) -> None:
    """Change a module that chooses accelerator, strategy and precision: the trainer's or
    Fabric's."""
    accelerator = type(
        "FTMAccelerator",
        (_OneDevice, connector.Accelerator),
        {"__doc__": _OneDevice.__doc__, "__module__": connector.__name__},
    )
    trainer = hasattr(connector, "AcceleratorRegistry")
    registry = connector.AcceleratorRegistry if trainer else connector.ACCELERATOR_REGISTRY
    kind = connector._AcceleratorConnector if trainer else connector._Connector
    registry.register(_name(), accelerator, description=accelerator.__name__)
    choose_strategy, make_precision = kind._choose_strategy, kind._check_and_init_precision

    def is_chosen(self: Any) -> bool:
        return self._accelerator_flag == _name() or isinstance(self._accelerator_flag, accelerator)

    @functools.wraps(choose_strategy)
    def strategy(self: Any) -> Any:
        found = choose_strategy(self)
        if is_chosen(self) and isinstance(found, connector.SingleDeviceStrategy):
            return connector.SingleDeviceStrategy(device=torch.device(_name(), 0))
        return found

    @functools.wraps(make_precision)
    def precision(self: Any) -> Any:
        given, wanted = (
            (self._precision_plugin_flag, self._precision_flag)
            if trainer
            else (self._precision_instance, self._precision_input)
        )
        if is_chosen(self) and wanted in _MIXED and not given:
            return connector.MixedPrecision(wanted, _name())
        return make_precision(self)

    kind._choose_strategy, kind._check_and_init_precision = strategy, precision


def install() -> None:
    """Change Lightning under each of its names, now or when it is imported."""
    import_hooks.patch(
        dict.fromkeys(
            (
                "lightning.pytorch.trainer.connectors.accelerator_connector",
                "pytorch_lightning.trainer.connectors.accelerator_connector",
                "lightning.fabric.connector",
                "lightning_fabric.connector",
            ),
            _accelerator,
        )
    )
