"""`torch.ftm`: the device module, with the interface of `torch.cuda`.

There is one device, the machine with all its cores; FTM_DEVICES and torchrun change their number.
All devices of a process share the machine and its memory. Each has one stream and a generator.
Functions with a `device` argument raise ValueError for a device of another type and RuntimeError
for an index that no device has.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ftm_lazy import _C
from ftm_lazy.device import amp, memory, nvtx, streams
from ftm_lazy.device.device_index import Device, device_count, index_of
from ftm_lazy.device.device_name import NAME
from ftm_lazy.device.memory import (
    device_memory_used,
    empty_cache,
    get_memory_info,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from ftm_lazy.device.registration import initialize, is_initialized, note_device_choice
from ftm_lazy.device.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "DeviceProperties",
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_memory_info",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "nvtx",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
]


@dataclass(frozen=True)
class DeviceProperties:
    """Properties of the machine."""

    name: str
    """For example "FT-Matrix emulator (host, 2 cores)"."""
    total_memory: int
    """Bytes of the host's memory, which the device uses."""
    multi_processor_count: int
    """Number of cores."""
    preset: str
    """The machine preset that programs are compiled for."""


# --- device


def is_available() -> bool:
    """Return True: the machine is emulated, so there is always a device."""
    return device_count() > 0


def current_device() -> int:
    """Return the index of this thread's current device, on which new tensors are made."""
    return _C._current_device()


def set_device(device: Device) -> None:
    """Set this thread's current device.

    Args:
        device: The device, its name or index; a negative index changes nothing.
    """
    if not (isinstance(device, int) and device < 0):
        note_device_choice()
        _C._set_current_device(index_of(device))


class device:
    """Context manager that makes a device the current one.

    Args:
        device: The device, its name or index.
    """

    def __init__(self, device: Device) -> None:
        self.idx = index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _C._current_device()
        _C._set_current_device(self.idx)

    def __exit__(self, *exception: object) -> None:
        _C._set_current_device(self.prev_idx)


class device_of(device):
    """Context manager that selects the device of a tensor or storage.

    Args:
        obj: A tensor or storage; one on another device type changes nothing.
    """

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage | torch.TypedStorage) -> None:
        super().__init__(obj.device if obj.device.type == NAME else None)


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Return whether the devices differ: all of a process share their memory."""
    return index_of(device) != index_of(peer_device)


def synchronize(device: Device = None) -> None:
    """Run all pending operations and wait for them.

    Args:
        device: The device; None means the current one.

    Raises:
        RuntimeError: A program failed. An error that eager PyTorch would raise has eager's type.
    """
    index_of(device)
    if is_initialized():
        _C._sync(True)


def get_device_name(device: Device = None) -> str:
    """Return the machine's name, for example "FT-Matrix emulator (host, 2 cores)"."""
    return get_device_properties(device).name


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Return the machine's properties, as FTM_MACHINE and FTM_CORES define them."""
    from ftm_lazy import settings

    index_of(device)
    values = settings.current()
    kind = "FT-Matrix emulator" if values.machine == values.preset else values.machine_library.name
    return DeviceProperties(
        name=f"{kind} ({values.preset}, {values.cores} core{'s' if values.cores > 1 else ''})",
        total_memory=mem_get_info(device)[1],
        multi_processor_count=values.cores,
        preset=values.preset,
    )


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """Return the version of the instruction set as (major, minor)."""
    # a local import: it loads the compiler
    from ftm_backend.assembler import image_layout

    index_of(device)
    return image_layout.VERSION, 0


def is_tf32_supported() -> bool:
    """Return False: float32 matmuls are never computed in a shorter format."""
    return False


def is_current_stream_capturing() -> bool:
    """Return False: there are no stream graphs to capture."""
    return False


def ipc_collect() -> None:
    """Do nothing: the device never holds memory of other processes."""


# --- random numbers


def manual_seed(seed: int) -> None:
    """Seed the current device's generator; `torch.manual_seed` seeds those of all devices.

    Args:
        seed: An integer, as of `torch.manual_seed`.
    """
    _C._default_generator(current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices."""
    for index in range(device_count()):
        _C._default_generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seed the current device's generator with a number from the operating system."""
    _C._default_generator(current_device()).seed()


def seed_all() -> None:
    """Seed the generators of all devices with one number from the operating system."""
    manual_seed_all(_C._default_generator(0).seed())


def initial_seed() -> int:
    """Return the last seed of the current device's generator."""
    return _C._initial_seed()


def get_rng_state(device: Device = NAME) -> torch.Tensor:
    """Return the state of the device's generator.

    Args:
        device: The device, its name or index.

    Returns:
        A uint8 tensor [n] on the CPU, for `set_rng_state`.
    """
    return torch.frombuffer(bytearray(_C._get_rng_state(index_of(device))), dtype=torch.uint8)


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the states of all devices' generators, one uint8 tensor each."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: Device = NAME) -> None:
    """Restore the state of the device's generator.

    Args:
        new_state: A uint8 tensor that `get_rng_state` returned.
        device: The device, its name or index.
    """
    _C._set_rng_state(bytes(new_state.cpu().to(torch.uint8).tolist()), index_of(device))


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Restore the states of all devices' generators.

    Args:
        new_states: The tensors that `get_rng_state_all` returned.
    """
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


# --- mixed precision


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes that `torch.autocast("ftm")` accepts."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return True: the device computes in bfloat16, with float32 accumulation."""
    return True


# --- hooks that PyTorch calls


def init() -> None:
    """Start the device; otherwise the first tensor on it does."""
    initialize()


def _lazy_init() -> None:
    initialize()


def _is_in_bad_fork() -> bool:
    return _C._in_bad_fork()


def __getattr__(name: str) -> object:
    # torch.utils.checkpoint reads it before it saves the generator's state
    if name == "_initialized":
        return is_initialized()
    if name == "default_generators":
        return tuple(_C._default_generator(index) for index in range(device_count()))
    raise AttributeError(f"module 'torch.ftm' has no attribute {name!r}")
