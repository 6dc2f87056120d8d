"""`torch.ftm`: what `torch.cuda` is to CUDA.

There is one device, the machine with all its cores, and one stream.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from ftm_lazy import _C
from ftm_lazy.device_name import NAME
from ftm_lazy.registration import initialize, is_initialized
from ftm_lazy.streams import Event, Stream, StreamContext, current_stream, default_stream, set_stream, stream

__all__ = [
    "DeviceProperties",
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

Device: TypeAlias = torch.device | str | int | None
"""How functions take a device: None means the current one."""


@dataclass(frozen=True)
class DeviceProperties:
    """What the machine is: its name, memory in bytes, cores, and the preset that it is compiled for."""

    name: str
    total_memory: int
    multi_processor_count: int
    preset: str


def _index(device: Device) -> int:
    """The index of `device`; raises for another kind of device and for an index that does not exist."""
    if device is None:
        return 0
    if isinstance(device, int):
        index = device
    else:
        named = torch.device(device)
        if named.type != NAME:
            raise ValueError(f"expected an {NAME} device, but got: {named}")
        index = 0 if named.index is None else int(named.index)
    if not 0 <= index < device_count():
        raise RuntimeError(f"{NAME} has {device_count()} device, with index 0; there is no device {index}")
    return index


# --- the device -------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether there is an ftm device: always, for the machine is software."""
    return device_count() > 0


def device_count() -> int:
    """The number of ftm devices: 1, whatever the number of its cores."""
    return _C._device_count()


def current_device() -> int:
    """The index of the current device."""
    return 0


def set_device(device: Device) -> None:
    """Selects the current device; there is only the one, so this only checks the index."""
    _index(device)


class device:
    """Context manager that selects a device, for code that is written for several."""

    def __init__(self, device: Device) -> None:
        self.idx = _index(device)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


def synchronize(device: Device = None) -> None:
    """Runs everything that is recorded and waits for it; raises the error of a program that failed."""
    _index(device)
    if is_initialized():
        _C._sync(True)


def get_device_name(device: Device = None) -> str:
    """The name of the machine, such as "FT-Matrix emulator (host, 2 cores)"."""
    return get_device_properties(device).name


def get_device_properties(device: Device = None) -> DeviceProperties:
    """What the machine is, by the settings."""
    from ftm_lazy import settings

    _index(device)
    values = settings.current()
    kind = "FT-Matrix emulator" if values.machine == values.preset else values.machine_library.name
    return DeviceProperties(
        name=f"{kind} ({values.preset}, {values.cores} core{'s' if values.cores > 1 else ''})",
        total_memory=_physical_memory(),
        multi_processor_count=values.cores,
        preset=values.preset,
    )


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# --- random numbers ---------------------------------------------------------------------------------------


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
    _index(device)
    return torch.frombuffer(bytearray(_C._get_rng_state()), dtype=torch.uint8)


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of the generators of all devices."""
    return [get_rng_state()]


def set_rng_state(new_state: torch.Tensor, device: Device = NAME) -> None:
    """Puts back a state that `get_rng_state` gave."""
    _index(device)
    _C._set_rng_state(bytes(new_state.cpu().to(torch.uint8).tolist()))


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Puts back states that `get_rng_state_all` gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


# --- memory -----------------------------------------------------------------------------------------------


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Statistics of the allocator, under the names that `torch.cuda.memory_stats` uses."""
    _index(device)
    return dict(_C._memory_stats())


def memory_allocated(device: Device = None) -> int:
    """Bytes of the tensors that are alive."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes of tensors that were alive at once, since the start or `reset_peak_memory_stats`."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Bytes of memory that are free, and of all memory: the host's, whose memory the device's is."""
    _index(device)
    return torch.accelerator.get_memory_info(0)


def memory_reserved(device: Device = None) -> int:
    """Bytes taken from the operating system for tensors."""
    return memory_stats(device)["reserved_bytes.all.current"]


def reset_peak_memory_stats(device: Device = None) -> None:
    """Starts the peak values of `memory_stats` again from the current ones."""
    _index(device)
    _C._reset_peak_memory_stats()


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sets the sums of `memory_stats` (allocated, freed) to 0."""
    _index(device)
    _C._reset_accumulated_memory_stats()


def empty_cache() -> None:
    """Gives memory that is kept for later tensors, and for programs that may run again, back to the operating system.

    Programs come back from the disk cache when they are next needed.
    """
    from ftm_lazy.compiler import bridge  # not when ftm_lazy is imported: most of the compiler comes with it

    bridge().forget_programs()
    _C._empty_cache()


# --- mixed precision --------------------------------------------------------------------------------------


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that `torch.autocast("ftm")` takes."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 tensors compute on the device: yes, with sums kept in float32."""
    return True


# --- what PyTorch itself calls ----------------------------------------------------------------------------


def _lazy_init() -> None:
    initialize()


def _is_in_bad_fork() -> bool:
    return _C._in_bad_fork()


def __getattr__(name: str) -> Any:
    if name == "_initialized":  # read by torch.utils.checkpoint before it saves the generator's state
        return is_initialized()
    if name == "default_generators":
        return (_C._default_generator(),)
    raise AttributeError(f"module 'torch.ftm' has no attribute {name!r}")
