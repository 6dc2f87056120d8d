"""`torch.ftm.memory`: statistics and limits of device memory, with `torch.cuda.memory`'s names.

- *Allocated*: memory of live tensors.
- *Active*: blocks that hold computed values or are used by running programs. A tensor whose value
  is still pending is allocated but not active.
- *Reserved*: all blocks obtained from the operating system, including idle ones.

Each device has its own pool of blocks and its own statistics. A copy of a tensor on another device
shares the block until one of the two is overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ftm_lazy import _C
from ftm_lazy.device.device_index import Device, index_of
from ftm_lazy.device.device_name import NAME
from ftm_lazy.torch_version import private_names

SMALL_BLOCK = 1 << 20
"""Bytes of the largest block in the pool of small ones (kSmall in csrc/memory/memory_pool.cpp)."""


def memory_stats(device: Device = None) -> dict[str, int]:
    """Return the allocator's statistics under the names of `torch.cuda.memory_stats`.

    Args:
        device: The device; None means the current one.

    Returns:
        Names such as ``"allocated_bytes.all.current"`` to numbers. Sizes are in bytes.
    """
    return dict(torch.accelerator.memory_stats(index_of(device)))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, object]:
    """Return `memory_stats` as nested dictionaries, e.g. ``["allocated_bytes"]["all"]["peak"]``."""
    nested: dict[str, object] = private_names.accelerator_statistics(index_of(device))
    return nested


def memory_allocated(device: Device = None) -> int:
    """Return the bytes of all live tensors."""
    return _statistic("allocated_bytes.all.current", device)


def max_memory_allocated(device: Device = None) -> int:
    """Return the peak of `memory_allocated` since the start or `reset_peak_memory_stats`."""
    return _statistic("allocated_bytes.all.peak", device)


def memory_reserved(device: Device = None) -> int:
    """Return the bytes obtained from the operating system."""
    return _statistic("reserved_bytes.all.current", device)


def max_memory_reserved(device: Device = None) -> int:
    """Return the peak of `memory_reserved` since the start or `reset_peak_memory_stats`."""
    return _statistic("reserved_bytes.all.peak", device)


def device_memory_used(device: Device = None) -> int:
    """Return the bytes of host memory that all processes use together."""
    free, total = mem_get_info(device)
    return total - free


def _statistic(name: str, device: Device) -> int:
    return int(memory_stats(device)[name])


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Return the free and the total memory of a device: an equal share of the host's.

    Args:
        device: The device; None means the current one.

    Returns:
        (free, total) in bytes.
    """
    return torch.accelerator.get_memory_info(index_of(device))


get_memory_info = mem_get_info
"""The name in `torch.accelerator`."""


def memory_snapshot() -> list[dict[str, Any]]:
    """Return the allocator's blocks in the format of `torch.cuda.memory_snapshot`.

    Returns:
        One segment for each block, sorted by address. Sizes are in bytes.
    """
    segments = []
    for address, capacity, requested, device in _C._memory_segments():
        state = "active_allocated" if requested else "inactive"
        segments.append(
            {
                "device": device,
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
    """Format `memory_stats` as a table.

    Args:
        device: The device; None means the current one.
        abbreviated: Omit the rows for the pools of small (up to 1 MiB) and of large blocks.
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
    """Format a size in the largest unit that gives at least 1,000 units, e.g. "1536 KiB"."""
    amount, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1000 * 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}"


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Limit the memory of this process on a device to a fraction of the device's memory.

    If a program needs more, reading its result raises `torch.OutOfMemoryError`.

    Args:
        fraction: More than 0 and at most 1.
        device: The device; None means the current one.

    Raises:
        TypeError: `fraction` is not a float.
        ValueError: `fraction` is out of range.
    """
    index = index_of(device)
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    _C._set_memory_fraction(fraction, index)


def get_per_process_memory_fraction(device: Device = None) -> float:
    """Return the fraction of the last `set_per_process_memory_fraction`, by default 1."""
    return float(_C._memory_fraction(index_of(device)))


def reset_peak_memory_stats(device: Device = None) -> None:
    """Reset the peak values of `memory_stats` to the current values."""
    _C._reset_peak_memory_stats(index_of(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Reset the accumulated values of `memory_stats` (allocated, freed) to 0."""
    _C._reset_accumulated_memory_stats(index_of(device))


def _record_memory_history(enabled: str | None = "all", **options: object) -> None:
    """Record the history of blocks for PyTorch's viewer; None ends it."""
    from ftm_lazy.profiler import memory_history

    memory_history.record_memory_history(enabled, **options)


def _snapshot(device: Device = None) -> dict[str, object]:
    """Return blocks and history in the format of `torch.cuda.memory._snapshot`."""
    from ftm_lazy.profiler import memory_history

    index_of(device)
    return memory_history.snapshot()


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Write blocks and history to a file for PyTorch's viewer."""
    from ftm_lazy.profiler import memory_history

    memory_history.dump_snapshot(filename)


def empty_cache() -> None:
    """Return idle memory blocks and loaded programs to the operating system.

    The next use of a program loads it from the disk cache.
    """
    # a local import: it loads most of the compiler
    from ftm_lazy.compile.compile_client import client

    client().forget_programs()
    _C._empty_cache()
