"""`torch.ftm.memory`: statistics and limits of device memory, under the names of
`torch.cuda.memory`.

*Allocated* memory is what tensors hold, *active* memory the blocks behind computed values and
running programs, and *reserved* memory all blocks taken from the operating system, idle ones among
them. A tensor whose value is still to be computed is allocated and not active.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ftm_lazy import _C
from ftm_lazy.device.device_index import Device, index_of
from ftm_lazy.device.device_name import NAME

__all__ = [
    "device_memory_used",
    "empty_cache",
    "get_memory_info",
    "get_per_process_memory_fraction",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]

SMALL_BLOCK = 1 << 20
"""Bytes of the largest block in the pool of small ones (kSmall in csrc/memory/memory_pool.cpp)."""


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Statistics of the allocator, under the names that `torch.cuda.memory_stats` uses; sizes in
    bytes."""
    return dict(torch.accelerator.memory_stats(index_of(device)))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """`memory_stats` with a dictionary for each part of a name."""
    nested: dict[str, Any] = torch._C._accelerator_getDeviceStats(index_of(device))
    return nested


def memory_allocated(device: Device = None) -> int:
    """Bytes of the tensors that are alive."""
    return _statistic("allocated_bytes.all.current", device)


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes of tensors that were alive at once, since the start or
    `reset_peak_memory_stats`."""
    return _statistic("allocated_bytes.all.peak", device)


def memory_reserved(device: Device = None) -> int:
    """Bytes taken from the operating system."""
    return _statistic("reserved_bytes.all.current", device)


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes that were taken from the operating system at once, since the start or
    `reset_peak_memory_stats`."""
    return _statistic("reserved_bytes.all.peak", device)


def device_memory_used(device: Device = None) -> int:
    """Bytes of the host's memory that all its processes use."""
    free, total = mem_get_info(device)
    return total - free


def _statistic(name: str, device: Device) -> int:
    return int(memory_stats(device)[name])


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Bytes of memory that are free, and of all memory: the host's, whose memory the device
    uses."""
    return torch.accelerator.get_memory_info(index_of(device))


get_memory_info = mem_get_info
"""The name in `torch.accelerator`."""


def memory_snapshot() -> list[dict[str, Any]]:
    """The blocks of the allocator, as `torch.cuda.memory_snapshot` describes segments: each block
    is one."""
    segments = []
    for address, capacity, requested in _C._memory_segments():
        state = "active_allocated" if requested else "inactive"
        segments.append(
            {
                "device": 0,
                "address": address,
                "total_size": capacity,
                "allocated_size": capacity if requested else 0,
                "active_size": capacity if requested else 0,
                "requested_size": requested,
                "stream": 0,
                "segment_type": "small" if capacity <= SMALL_BLOCK else "large",
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "frames": [],
                "blocks": [
                    {
                        "address": address,
                        "size": capacity,
                        "requested_size": requested,
                        "state": state,
                        "frames": [],
                    }
                ],
            }
        )
    return sorted(segments, key=lambda segment: segment["address"])


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """A table of `memory_stats` for people to read.

    Args:
        abbreviated: Without the parts of small blocks (up to 1 MiB) and of large ones.
    """
    index = index_of(device)
    statistics = memory_stats(index)
    rows: list[tuple[str, str, Callable[[int], str]]] = [
        ("allocated_bytes", "Allocated memory", _in_bytes),
        ("active_bytes", "Active memory", _in_bytes),
        ("reserved_bytes", "Reserved memory", _in_bytes),
        ("allocation", "Allocations", str),
        ("active", "Active blocks", str),
        ("segment", "Reserved blocks", str),
    ]
    pools = (
        [("all", "")]
        if abbreviated
        else [("all", ""), ("large_pool", "  from large pool"), ("small_pool", "  from small pool")]
    )
    columns = ("current", "peak", "allocated", "freed")
    line = "|" + "-" * 77 + "|"
    title = f"{NAME}:{index} memory summary"
    failures = (
        f"out of memory: {statistics['num_ooms']}, retries: {statistics['num_alloc_retries']}"
    )
    lines = [
        line,
        f"|{title:^77}|",
        f"|{failures:^77}|",
        line,
        f"|{'Metric':^21}|"
        + "|".join(f"{column:^13}" for column in ("Current", "Peak", "Total taken", "Total freed"))
        + "|",
    ]
    for key, name, shown in rows:
        lines.append(line)
        for pool, part in pools:
            values = (shown(statistics[f"{key}.{pool}.{column}"]) for column in columns)
            lines.append(
                f"|{part or name:<21}|" + "|".join(f"{value:>12} " for value in values) + "|"
            )
    return "\n".join([*lines, line, ""])


def _in_bytes(size: int) -> str:
    """Such as "1536 KiB": in the largest unit in which at least 1,000 units remain."""
    amount, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1000 * 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}"


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Limits what this process may take from the operating system to a fraction of all memory.

    A program that needs more ends in `torch.OutOfMemoryError` where its result is read.

    Args:
        fraction: Over 0 and at most 1; raises ValueError for another one, TypeError if it is no
            float.
    """
    index_of(device)
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    _C._set_memory_fraction(fraction)


def get_per_process_memory_fraction(device: Device = None) -> float:
    """What `set_per_process_memory_fraction` was last given; 1 without it."""
    index_of(device)
    return float(_C._memory_fraction())


def reset_peak_memory_stats(device: Device = None) -> None:
    """Starts the peak values of `memory_stats` again from the current ones."""
    index_of(device)
    _C._reset_peak_memory_stats()


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sets the sums of `memory_stats` (allocated, freed) to 0."""
    index_of(device)
    _C._reset_accumulated_memory_stats()


def empty_cache() -> None:
    """Gives memory that is kept for later tensors, and for programs that may run again, back to the
    operating system.

    Programs come back from the disk cache when they are next needed.
    """
    # not when ftm_lazy is imported: most of the compiler comes with it
    from ftm_lazy.compile.compile_client import bridge

    bridge().forget_programs()
    _C._empty_cache()
