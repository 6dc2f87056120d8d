"""torch_xla.core.xla_model, usually imported as ``xm``.

It has the device, steps, collectives, saving, and random numbers.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeAlias, TypedDict

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
"""Library in which programs define operations ``torch.ops.xla.NAME``.

An operation that is implemented for CompositeExplicitAutograd runs on any device.
"""


class DeviceContext:
    """Holder of a device, as in torch_xla.

    Args:
        device: The device.
    """

    def __init__(self, device: Device) -> None:
        self.device = device


# --- the device


@deprecated("Use torch_xla.device instead")
def xla_device(n: int | None = None, devkind: str | None = None) -> torch.device:
    """Return the device, as `torch_xla.device` does.

    Args:
        n: 0 or None.
        devkind: Accepted; there is one kind of device.

    Raises:
        IndexError: Another index was given.
    """
    return _devices.device(n)


def is_xla_tensor(tensor: torch.Tensor) -> bool:
    """Return whether `tensor` is on the device."""
    return tensor.device.type == NAME


def get_xla_supported_devices(max_devices: int | None = None) -> list[str]:
    """Return the names of this process's devices, at most `max_devices`."""
    return [str(device) for device in _devices.devices()][:max_devices]


def xla_real_devices(devices: list[torch.device] | None = None) -> list[str]:
    """Return kind and global ordinal of devices, e.g. ``["FTM:0"]``; by default of all."""
    names = devices or get_xla_supported_devices()
    for name in names:
        device_index.index_of(name)
    return _devices.real_devices() * len(names)


def xla_device_hw(device: Device) -> str:
    """Return the device type, which is `runtime.device_type`."""
    from ftm_lazy.torch_xla import runtime

    device_index.index_of(device)
    return runtime.device_type()


def xla_device_kind(device: Device = None) -> str:
    """Return the machine's name."""
    return ftm.get_device_name(device)


def xla_replication_devices(local_devices: list[torch.device] | None = None) -> list[str]:
    """Return the devices of all processes, by ordinal."""
    return [f"FTM:{ordinal}" for ordinal in range(_world.size())]


@inert("the processes of a program follow from how they were started")
def set_replication(device: Device, devices: list[torch.device] | None) -> None:
    """Do nothing; in torch_xla it sets the devices that replicate a program."""


class MemoryInfo(TypedDict):
    """Memory figures of `get_memory_info`, in bytes."""

    bytes_used: int
    bytes_limit: int
    peak_bytes_used: int


def get_memory_info(device: Device = None) -> MemoryInfo:
    """Return the memory of live tensors, the host's memory, and the peak, in bytes."""
    return {
        "bytes_used": ftm.memory_allocated(device),
        "bytes_limit": ftm.get_device_properties(device).total_memory,
        "peak_bytes_used": ftm.max_memory_allocated(device),
    }


# --- processes


def get_local_ordinal() -> int:
    """Return the ordinal of this process on its host."""
    return _world.local_ordinal()


@deprecated("Use torch_xla.runtime.global_ordinal instead")
def get_ordinal(defval: int = 0) -> int:
    """Return the ordinal of this process; `defval` is accepted and ignored."""
    return _world.ordinal()


@deprecated("Use torch_xla.runtime.world_size instead")
def xrt_world_size(defval: int = 1) -> int:
    """Return the number of processes; `defval` is accepted and ignored."""
    return _world.size()


@deprecated("Use torch.device(device) and its index instead")
def parse_xla_device(device: str) -> tuple[str, int] | None:
    """Split a name such as ``"FTM:0"`` into kind and index; None if it has another form."""
    kind, _, number = device.partition(":")
    return (kind, int(number)) if kind and number.isdecimal() else None


def is_master_ordinal(local: bool = True) -> bool:
    """Return whether this is the first process.

    Args:
        local: Of this host; otherwise of the world.
    """
    return (_world.local_ordinal() if local else _world.ordinal()) == 0


_STDOUT = sys.stdout


def master_print(
    *args: object, fd: TextIO = _STDOUT, local: bool = False, flush: bool = False
) -> None:
    """Print in the first process only.

    Args:
        *args: The values to print.
        fd: The output stream.
        local: The first process of this host; otherwise of the world.
        flush: Flush the stream.
    """
    if is_master_ordinal(local=local):
        # None: the current sys.stdout
        print(*args, file=None if fd is _STDOUT else fd, flush=flush)


# --- steps


@deprecated("Use torch_xla.sync instead")
def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """Call `torch_xla.sync`."""
    _steps.sync(wait, reset_scope)


def add_step_closure(
    closure: Callable[..., object], args: tuple[object, ...] = (), run_async: bool = False
) -> None:
    """Queue ``closure(*args)`` for the end of the step (`sync`).

    Args:
        closure: The function.
        args: Its arguments.
        run_async: Run it on another thread, concurrently with the next steps.
    """
    _closures.add(closure, args, run_async)


def wait_device_ops(devices: list[str] = []) -> None:  # noqa: B006  (torch_xla's default)
    """Run all pending operations and wait for them."""
    ftm.synchronize()


def unlazy(tensors: list[torch.Tensor]) -> None:
    """Run all pending operations, including those that compute `tensors`, and wait for them."""
    ftm.synchronize()


def reduce_gradients(
    optimizer: torch.optim.Optimizer, groups: list[list[int]] | None = None, pin_layout: bool = True
) -> None:
    """Average the gradients of the optimizer's parameters over the processes, in place.

    ``ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB`` sets the size of the buckets in MiB.

    Args:
        optimizer: The optimizer.
        groups: As in `all_reduce`.
        pin_layout: Accepted; has no effect.
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


def _maybe_convert_to_cpu(data: object, convert: bool = True) -> object:
    """Compute `data`, and copy its tensors to the CPU if `convert`.

    Accelerate and Lightning call this before saving.
    """
    if convert:
        return on_cpu(data)
    ftm.synchronize()
    return data


def optimizer_step(
    optimizer: torch.optim.Optimizer,
    barrier: bool = False,
    optimizer_args: dict[str, object] = {},  # noqa: B006  (torch_xla's default)
    groups: list[list[int]] | None = None,
    pin_layout: bool = True,
) -> object:
    """Call `reduce_gradients`, then ``optimizer.step(**optimizer_args)``.

    Args:
        optimizer: An optimizer.
        barrier: Also end the step with `torch_xla.sync`, which runs the step closures.
        optimizer_args: Keyword arguments of `step`.
        groups: As in `all_reduce`.
        pin_layout: Accepted; has no effect.

    Returns:
        The result of `step`.
    """
    reduce_gradients(optimizer, groups, pin_layout)
    result = optimizer.step(**(optimizer_args or {}))
    if barrier:
        _steps.sync()
    return result


@inert("the compiler never moves work across the end of a checkpointed segment")
def optimization_barrier_(tensors: list[torch.Tensor]) -> None:
    """Do nothing; in torch_xla it keeps the compiler from merging operations across it."""


# --- random numbers


def set_rng_state(seed: int, device: Device = None) -> None:
    """Set the state of the device's generator.

    Args:
        seed: A seed, or a state of `get_rng_state`.
        device: The device; None means the only one.
    """
    state = (int(seed) % 2**128).to_bytes(16, sys.byteorder)
    _C._set_rng_state(state, 0)


def get_rng_state(device: Device = None) -> int:
    """Return the state of the device's generator: the seed plus 2**64 per number drawn."""
    return int.from_bytes(_C._get_rng_state(0), sys.byteorder)


@contextmanager
def fork_rng(device: Device = None, enabled: bool = True) -> Iterator[None]:
    """Restore the state of the device's generator at the end of the context.

    Args:
        device: The device; None means the only one.
        enabled: Whether the state is restored.
    """
    state = get_rng_state(device)
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state, device)


# --- debugging


def get_stablehlo(tensors: list[torch.Tensor] | None = None) -> str:
    """Return StableHLO text that computes tensors.

    Args:
        tensors: Pending tensors; None or empty for all pending operations.

    Raises:
        NotImplementedError: torch-mlir has no conversion of an operation.
    """
    from ftm_lazy.torch_xla import stablehlo

    return stablehlo.text_of(list(tensors or []))


def get_stablehlo_bytecode(tensors: list[torch.Tensor] | None = None) -> bytes:
    """Return the result of `get_stablehlo` as MLIR bytecode."""
    from ftm_lazy.torch_xla import stablehlo

    return stablehlo.bytecode_of(list(tensors or []))
