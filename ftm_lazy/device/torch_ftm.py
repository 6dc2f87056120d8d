"""`torch.ftm`: what `torch.cuda` is to CUDA.

There is one device, the machine with all its cores, and one stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
from ftm_lazy.device.registration import initialize, is_initialized
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
    """What the machine is: its name, memory in bytes, cores, and the preset that it is compiled
    for."""

    name: str
    total_memory: int
    multi_processor_count: int
    preset: str


# --- the device
# -------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether there is an ftm device: always, for the machine is software."""
    return device_count() > 0


def current_device() -> int:
    """The index of the current device."""
    return 0


def set_device(device: Device) -> None:
    """Selects the current device; there is only the one, so this only checks the index."""
    index_of(device)


class device:
    """Context manager that selects a device, for code that is written for several."""

    def __init__(self, device: Device) -> None:
        self.idx = index_of(device)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


class device_of(device):
    """Context manager that selects the device of a tensor or storage, for code that is written for
    several."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage | torch.TypedStorage) -> None:
        super().__init__(obj.device if obj.device.type == NAME else None)


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether one device can read another's memory. There is one device, which is no peer of its
    own."""
    index_of(device)
    index_of(peer_device)
    return False


def synchronize(device: Device = None) -> None:
    """Runs everything that is recorded and waits for it; raises the error of a program that
    failed."""
    index_of(device)
    if is_initialized():
        _C._sync(True)


def get_device_name(device: Device = None) -> str:
    """The name of the machine, such as "FT-Matrix emulator (host, 2 cores)"."""
    return get_device_properties(device).name


def get_device_properties(device: Device = None) -> DeviceProperties:
    """What the machine is, by the settings."""
    from ftm_lazy import settings

    index_of(device)
    values = settings.current()
    kind = "FT-Matrix emulator" if values.machine == values.preset else values.machine_library.name
    return DeviceProperties(
        name=f"{kind} ({values.preset}, {values.cores} core{'s' if values.cores > 1 else ''})",
        total_memory=mem_get_info()[1],
        multi_processor_count=values.cores,
        preset=values.preset,
    )


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """The version of the instruction set as (major, minor)."""
    # not when ftm_lazy is imported: the compiler comes with it
    from ftm_backend.assembler import image_layout

    index_of(device)
    return image_layout.VERSION, 0


def is_tf32_supported() -> bool:
    """Whether float32 products may be computed in a shorter format: no."""
    return False


def is_current_stream_capturing() -> bool:
    """Whether calls are recorded into a graph that the user replays: there are no such graphs."""
    return False


def ipc_collect() -> None:
    """Does nothing, as there is no memory of other processes to release."""


# --- random numbers
# ---------------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Seeds the device's generator; `torch.manual_seed` does so too."""
    _C._default_generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices."""
    manual_seed(seed)


def seed() -> None:
    """Seeds the device's generator with a number from the operating system."""
    _C._default_generator().seed()


def seed_all() -> None:
    """Seeds the generators of all devices with a number from the operating system."""
    seed()


def initial_seed() -> int:
    """The seed that the device's generator was last given."""
    return _C._initial_seed()


def get_rng_state(device: Device = NAME) -> torch.Tensor:
    """The state of the device's generator, as a uint8 tensor on the CPU."""
    index_of(device)
    return torch.frombuffer(bytearray(_C._get_rng_state()), dtype=torch.uint8)


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of the generators of all devices."""
    return [get_rng_state()]


def set_rng_state(new_state: torch.Tensor, device: Device = NAME) -> None:
    """Puts back a state that `get_rng_state` gave."""
    index_of(device)
    _C._set_rng_state(bytes(new_state.cpu().to(torch.uint8).tolist()))


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Puts back states that `get_rng_state_all` gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


# --- mixed precision
# --------------------------------------------------------------------------------------


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that `torch.autocast("ftm")` takes."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 tensors compute on the device: yes, with sums kept in float32."""
    return True


# --- what PyTorch itself calls
# ----------------------------------------------------------------------------


def init() -> None:
    """Starts the device, which the first tensor on it does otherwise."""
    initialize()


def _lazy_init() -> None:
    initialize()


def _is_in_bad_fork() -> bool:
    return _C._in_bad_fork()


def __getattr__(name: str) -> Any:
    # read by torch.utils.checkpoint before it saves the generator's state
    if name == "_initialized":
        return is_initialized()
    if name == "default_generators":
        return (_C._default_generator(),)
    raise AttributeError(f"module 'torch.ftm' has no attribute {name!r}")
