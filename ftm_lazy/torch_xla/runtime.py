"""torch_xla.runtime, usually imported as ``xr``: processes, devices, and the program cache."""

from __future__ import annotations

import os

from typing_extensions import deprecated

from ftm_lazy import metrics
from ftm_lazy.device import registration
from ftm_lazy.device import torch_ftm as ftm
from ftm_lazy.torch_xla import _devices, _world
from ftm_lazy.torch_xla.utils import utils

__all__ = [
    "addressable_device_count",
    "addressable_runtime_device_count",
    "device_type",
    "get_master_ip",
    "get_num_cached_compilation_graph",
    "global_device_count",
    "global_ordinal",
    "global_runtime_device_attributes",
    "global_runtime_device_count",
    "host_index",
    "initialize_cache",
    "is_bf16_supported",
    "is_spmd",
    "local_device_count",
    "local_ordinal",
    "local_process_count",
    "process_count",
    "process_index",
    "runtime_device_attributes",
    "set_device_type",
    "use_spmd",
    "using_pjrt",
    "world_size",
]


def set_device_type(pjrt_device: str) -> None:
    """Set the result of `device_type`.

    Args:
        pjrt_device: The device type.

    Raises:
        RuntimeError: The device has been used, and its type is another.
    """
    if registration.is_initialized() and device_type() != pjrt_device:
        raise RuntimeError("Can't change device type after XLA runtime is initialized")
    os.environ["PJRT_DEVICE"] = pjrt_device


def device_type() -> str:
    """Return ``PJRT_DEVICE``, or FTM if it is unset; the device is ftm in both cases."""
    return os.environ.get("PJRT_DEVICE", "FTM").partition("_")[0]


def is_bf16_supported() -> bool:
    """Return True: the device computes in bfloat16."""
    return ftm.is_bf16_supported()


@deprecated("There is no other runtime than PJRT since torch_xla 2.1; remove the check")
def using_pjrt() -> bool:
    """Return True, as torch_xla's last versions do."""
    return True


# --- processes and their devices


def world_size() -> int:
    """Return the number of processes."""
    return _world.size()


def global_ordinal() -> int:
    """Return the ordinal of this process."""
    return _world.ordinal()


def local_ordinal() -> int:
    """Return the ordinal of this process on its host."""
    return _world.local_ordinal()


def local_process_count() -> int:
    """Return the number of processes on this host."""
    return _world.local_size()


def process_index() -> int:
    """Return `global_ordinal`, since each process has one device."""
    return _world.ordinal()


def process_count() -> int:
    """Return `world_size`, since each process has one device."""
    return _world.size()


def host_index() -> int:
    """Return the ordinal of this host, as torchrun sets it."""
    return int(os.environ.get("GROUP_RANK", 0))


def global_device_count() -> int:
    """Return the number of devices of all processes."""
    return _world.size() * addressable_device_count()


def local_device_count() -> int:
    """Return the number of devices of this host's processes."""
    return _world.local_size() * addressable_device_count()


def addressable_device_count() -> int:
    """Return the number of devices of this process, which is 1."""
    return _devices.device_count()


def global_runtime_device_count() -> int:
    """Return `global_device_count`."""
    return global_device_count()


def addressable_runtime_device_count() -> int:
    """Return `addressable_device_count`."""
    return addressable_device_count()


def runtime_device_attributes(device: str) -> dict[str, object]:
    """Return the fields of `torch.ftm.get_device_properties` by name."""
    return dict(vars(ftm.get_device_properties()))


def global_runtime_device_attributes() -> list[dict[str, object]]:
    """Return `runtime_device_attributes` for each process."""
    return [runtime_device_attributes(name) for name in (f"FTM:{i}" for i in range(world_size()))]


def get_master_ip() -> str:
    """Return the address of process 0's host, as torchrun sets it."""
    return os.environ.get("MASTER_ADDR", "127.0.0.1")


# --- SPMD


def use_spmd(auto: bool | None = False) -> None:
    """Enable SPMD, on a mesh of one device (`distributed.spmd`).

    Args:
        auto: Accepted; there is only one way to shard over one device.
    """
    os.environ["XLA_USE_SPMD"] = "1"


def is_spmd() -> bool:
    """Return whether `use_spmd` was called, or ``XLA_USE_SPMD`` is set."""
    return utils.check_env_flag("XLA_USE_SPMD")


# --- compiled programs


def initialize_cache(path: str, readonly: bool = False) -> None:
    """Set the directory of compiled programs (FTM_CACHE_DIR).

    Args:
        path: The directory.
        readonly: Read programs from it but store none.

    Raises:
        AssertionError: The device has been used, as in torch_xla.
    """
    if registration.is_initialized():
        raise AssertionError("Computation cache has already been initialized")
    os.environ["FTM_CACHE_DIR"] = os.fspath(path)
    if readonly:
        # no program fits, and without stores nothing is evicted
        os.environ["FTM_CACHE_SIZE"] = "0"


def get_num_cached_compilation_graph() -> int:
    """Return the number of programs that this process has compiled or loaded."""
    values = metrics.counters()
    return values["compiles"] + values["cache_hits_disk"]
