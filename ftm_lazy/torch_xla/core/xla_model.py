"""torch_xla.core.xla_model, commonly imported as ``xm``: device, steps, collectives, saving, random
numbers."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, TypeAlias, TypedDict

import torch
from typing_extensions import deprecated

from ftm_lazy import _C
from ftm_lazy.device import device_index
from ftm_lazy.device import torch_ftm as ftm
from ftm_lazy.device.device_name import NAME
from ftm_lazy.torch_xla import _closures, _devices, _refusals, _steps, _world
from ftm_lazy.torch_xla._inert import inert
from ftm_lazy.torch_xla.core._collectives import (
    REDUCE_AND,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_MUL,
    REDUCE_OR,
    REDUCE_SUM,
    CoalescingBuckets,
    all_gather,
    all_gather_bucketized,
    all_reduce,
    all_reduce_bucketized_gradients,
    all_to_all,
    broadcast_master_param,
    collective_broadcast,
    collective_permute,
    reduce_scatter,
    reduce_scatter_bucketized,
)
from ftm_lazy.torch_xla.core._data import (
    ToXlaTensorArena,
    check_view_sharing,
    on_cpu,
    save,
    send_cpu_data_to_device,
)
from ftm_lazy.torch_xla.core._rate_tracker import RateTracker
from ftm_lazy.torch_xla.core._rendezvous import (
    do_on_ordinals,
    mesh_reduce,
    rendezvous,
    xla_rendezvous,
)

__all__ = [
    "REDUCE_AND",
    "REDUCE_MAX",
    "REDUCE_MIN",
    "REDUCE_MUL",
    "REDUCE_OR",
    "REDUCE_SUM",
    "XLA_LIB",
    "CoalescingBuckets",
    "DeviceContext",
    "MemoryInfo",
    "RateTracker",
    "ToXlaTensorArena",
    "add_step_closure",
    "all_gather",
    "all_gather_bucketized",
    "all_reduce",
    "all_reduce_bucketized_gradients",
    "all_to_all",
    "broadcast_master_param",
    "check_view_sharing",
    "collective_broadcast",
    "collective_permute",
    "do_on_ordinals",
    "fork_rng",
    "get_local_ordinal",
    "get_memory_info",
    "get_ordinal",
    "get_rng_state",
    "get_stablehlo",
    "get_stablehlo_bytecode",
    "get_xla_supported_devices",
    "is_master_ordinal",
    "is_xla_tensor",
    "mark_step",
    "master_print",
    "mesh_reduce",
    "optimization_barrier_",
    "optimizer_step",
    "parse_xla_device",
    "reduce_gradients",
    "reduce_scatter",
    "reduce_scatter_bucketized",
    "rendezvous",
    "save",
    "send_cpu_data_to_device",
    "set_replication",
    "set_rng_state",
    "unlazy",
    "wait_device_ops",
    "xla_device",
    "xla_device_hw",
    "xla_device_kind",
    "xla_real_devices",
    "xla_rendezvous",
    "xla_replication_devices",
    "xrt_world_size",
]

__getattr__ = _refusals.getter(__name__)

Device: TypeAlias = torch.device | str | None

XLA_LIB = torch.library.Library("xla", "DEF")
"""Where programs define operations ``torch.ops.xla.NAME``; implemented for
CompositeExplicitAutograd they run on any device."""


class DeviceContext:
    """A device, by its name."""

    def __init__(self, device: Device) -> None:
        self.device = device


# --- the device


@deprecated("Use torch_xla.device instead")
def xla_device(n: int | None = None, devkind: str | None = None) -> torch.device:
    """Return the device, as `torch_xla.device` gives it.

    Args:
        n: its index; there is only 0.
        devkind: accepted; there is one kind of device here.
    """
    return _devices.device(n)


def is_xla_tensor(tensor: torch.Tensor) -> bool:
    """Return whether `tensor` is on the device."""
    return tensor.device.type == NAME


def get_xla_supported_devices(max_devices: int | None = None) -> list[str]:
    """Return the names of this process's devices, at most `max_devices` of them."""
    return [str(device) for device in _devices.devices()][:max_devices]


def xla_real_devices(devices: list[torch.device] | None = None) -> list[str]:
    """What `devices` (all by default) really are, such as ``["FTM:0"]``."""
    names = devices or get_xla_supported_devices()
    for name in names:
        device_index.index_of(name)
    return _devices.real_devices() * len(names)


def xla_device_hw(device: Device) -> str:
    """What kind of machine `device` is: `runtime.device_type`."""
    from ftm_lazy.torch_xla import runtime

    device_index.index_of(device)
    return runtime.device_type()


def xla_device_kind(device: Device = None) -> str:
    """Return the name of the machine."""
    return ftm.get_device_name(device)


def xla_replication_devices(local_devices: list[torch.device] | None = None) -> list[str]:
    """Return the devices of all processes, by ordinal."""
    return [f"FTM:{ordinal}" for ordinal in range(_world.size())]


@inert("the processes that work together are known from how they were started")
def set_replication(device: Device, devices: list[torch.device] | None) -> None:
    """Says which devices work together."""


class MemoryInfo(TypedDict):
    """Bytes, as `get_memory_info` gives them."""

    bytes_used: int
    bytes_limit: int
    peak_bytes_used: int


def get_memory_info(device: Device = None) -> MemoryInfo:
    """Return bytes of the tensors that are alive, of the host's memory, and the most that were alive at
    once."""
    return {
        "bytes_used": ftm.memory_allocated(device),
        "bytes_limit": ftm.get_device_properties(device).total_memory,
        "peak_bytes_used": ftm.max_memory_allocated(device),
    }


# --- which process this is


def get_local_ordinal() -> int:
    """Which process of this host this is."""
    return _world.local_ordinal()


@deprecated("Use torch_xla.runtime.global_ordinal instead")
def get_ordinal(defval: int = 0) -> int:
    """Which process this is; `defval` is accepted as earlier versions did."""
    return _world.ordinal()


@deprecated("Use torch_xla.runtime.world_size instead")
def xrt_world_size(defval: int = 1) -> int:
    """Return the number of processes; `defval` is accepted as earlier versions did."""
    return _world.size()


@deprecated("Use torch.device(device) and its index instead")
def parse_xla_device(device: str) -> tuple[str, int] | None:
    """Return a name such as ``"FTM:0"`` as its parts; None if it is none."""
    kind, _, number = device.partition(":")
    return (kind, int(number)) if kind and number.isdecimal() else None


def is_master_ordinal(local: bool = True) -> bool:
    """Return whether this is process 0: of this host, or with ``local=False`` of all."""
    return (_world.local_ordinal() if local else _world.ordinal()) == 0


_STDOUT = sys.stdout


def master_print(
    *args: object, fd: TextIO = _STDOUT, local: bool = False, flush: bool = False
) -> None:
    """`print` in process 0 only: of all, or with ``local=True`` of this host."""
    if is_master_ordinal(local=local):
        # None: what sys.stdout is by now
        print(*args, file=None if fd is _STDOUT else fd, flush=flush)


# --- steps


@deprecated("Use torch_xla.sync instead")
def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """`torch_xla.sync`."""
    _steps.sync(wait, reset_scope)


def add_step_closure(
    closure: Callable[..., Any], args: tuple[Any, ...] = (), run_async: bool = False
) -> None:
    """Queue ``closure(*args)`` for the end of the step (`sync`); `run_async`: on a thread, beside
    the next steps."""
    _closures.add(closure, args, run_async)


def wait_device_ops(devices: list[str] = []) -> None:  # noqa: B006  (torch_xla's default)
    """Run everything that is recorded and waits for it."""
    ftm.synchronize()


def unlazy(tensors: list[torch.Tensor]) -> None:
    """Run everything that is recorded, `tensors` among it, and waits for it."""
    ftm.synchronize()


def reduce_gradients(
    optimizer: torch.optim.Optimizer, groups: list[list[int]] | None = None, pin_layout: bool = True
) -> None:
    """The gradients of the optimizer's parameters become their means over the processes.

    ``ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB`` limits how much travels at once.
    """
    if _world.size() == 1:
        return
    gradients = _fetch_gradients(optimizer)
    scale = 1.0 / _world.size()
    limit = int(os.environ.get("ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB", 0))
    if limit > 0:
        all_reduce_bucketized_gradients(gradients[::-1], scale, groups, pin_layout, limit)
    else:
        all_reduce(REDUCE_SUM, gradients, scale, groups, pin_layout)


def _fetch_gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the gradients of the optimizer's parameters; Accelerate calls this."""
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _maybe_convert_to_cpu(data: object, convert: bool = True) -> Any:
    """`data` computed, and with its tensors on the CPU if `convert`; Accelerate and Lightning save
    by this."""
    if convert:
        return on_cpu(data)
    ftm.synchronize()
    return data


def optimizer_step(
    optimizer: torch.optim.Optimizer,
    barrier: bool = False,
    optimizer_args: dict[str, Any] = {},  # noqa: B006  (torch_xla's default)
    groups: list[list[int]] | None = None,
    pin_layout: bool = True,
) -> Any:
    """`reduce_gradients`, then ``optimizer.step(**optimizer_args)``, whose result it returns.

    Args:
        optimizer: any of PyTorch's.
        barrier: also end the step, by `torch_xla.sync`, which runs the closures.
        optimizer_args: for `step`.
        groups: as in `all_reduce`.
        pin_layout: accepted; it means nothing here.
    """
    reduce_gradients(optimizer, groups, pin_layout)
    result = optimizer.step(**(optimizer_args or {}))
    if barrier:
        _steps.sync()
    return result


@inert("nothing moves work across the end of a checkpointed segment here")
def optimization_barrier_(tensors: list[torch.Tensor]) -> None:
    """Keep the compiler from merging what is before and after."""


# --- random numbers


def set_rng_state(seed: int, device: Device = None) -> None:
    """Set the state of the device's generator: a seed, or what `get_rng_state` gave."""
    state = (int(seed) % 2**128).to_bytes(16, sys.byteorder)
    _C._set_rng_state(state)


def get_rng_state(device: Device = None) -> int:
    """Return the state of the device's generator: its seed, plus 2**64 for each number that was drawn."""
    return int.from_bytes(_C._get_rng_state(), sys.byteorder)


@contextmanager
def fork_rng(device: Device = None, enabled: bool = True) -> Iterator[None]:
    """A context that puts the state of the device's generator back at its end; nothing if not
    `enabled`."""
    state = get_rng_state(device)
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state, device)


# --- looking inside


def get_stablehlo(tensors: list[torch.Tensor] | None = None) -> str:
    """StableHLO of what would compute `tensors`; of all that is pending if None or empty."""
    from ftm_lazy.torch_xla import stablehlo

    return stablehlo.text_of(list(tensors or []))


def get_stablehlo_bytecode(tensors: list[torch.Tensor] | None = None) -> bytes:
    """As `get_stablehlo`, as MLIR bytecode."""
    from ftm_lazy.torch_xla import stablehlo

    return stablehlo.bytecode_of(list(tensors or []))
