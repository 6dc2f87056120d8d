"""The world: number and ordinal of the processes of a program, and their process groups.

A process is part of a world if `xla_multiprocessing.spawn` (see `enter`) or torchrun started it.
The processes find each other through a `torch.distributed.Store`, of the parent process or of
torchrun's agent.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

from ftm_lazy import _C
from ftm_lazy.distributed import process_group

__all__ = [
    "collective",
    "enter",
    "group",
    "local_ordinal",
    "local_size",
    "ordinal",
    "size",
    "store",
]

STORE = "_FTM_STORE"
"""Environment variable with host and port of the parent's store, set by `enter`."""

_TIMEOUT = timedelta(minutes=30)  # as torch.distributed's


def enter(ordinal: int, size: int, address: str) -> None:
    """Make this process part of a world that its parent started.

    Args:
        ordinal: Ordinal of this process.
        size: Number of processes.
        address: HOST:PORT of the parent's store.
    """
    os.environ.update(
        {
            "PJRT_LOCAL_PROCESS_RANK": str(ordinal),
            "PJRT_LOCAL_PROCESS_COUNT": str(size),
            STORE: address,
        }
    )


def _by_torchrun() -> bool:
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def _number(launched: str, spawned: str, default: int) -> int:
    if STORE in os.environ:
        return int(os.environ[spawned])
    return int(os.environ.get(launched, default)) if _by_torchrun() else default


def size() -> int:
    """Return the number of processes."""
    return _number("WORLD_SIZE", "PJRT_LOCAL_PROCESS_COUNT", 1)


def ordinal() -> int:
    """Return the ordinal of this process, from 0."""
    return _number("RANK", "PJRT_LOCAL_PROCESS_RANK", 0)


def local_size() -> int:
    """Return the number of processes on this host."""
    return _number("LOCAL_WORLD_SIZE", "PJRT_LOCAL_PROCESS_COUNT", 1)


def local_ordinal() -> int:
    """Return the ordinal of this process on its host, from 0."""
    return _number("LOCAL_RANK", "PJRT_LOCAL_PROCESS_RANK", 0)


@functools.cache
def store() -> dist.Store:
    """Return the world's store."""
    if STORE in os.environ:
        host, port = os.environ[STORE].rsplit(":", 1)
        return dist.TCPStore(host, int(port), size(), is_master=False, timeout=_TIMEOUT)
    if not _by_torchrun():
        return dist.HashStore()
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    found = dist.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        size(),
        is_master=ordinal() == 0 and not agent,
        timeout=_TIMEOUT,
        multi_tenant=not agent,
    )
    return dist.PrefixStore(f"ftm/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", found)


_lock = threading.Lock()
_groups: dict[tuple[int, ...], _C.GroupBackend] = {}


def group(groups: Sequence[Sequence[int]] | None = None) -> tuple[_C.GroupBackend, list[int]]:
    """Return this process's process group and the ordinals in it.

    Args:
        groups: Lists of ordinals, one for each group. None or empty for one group of all processes.

    Raises:
        ValueError: This process is in none of the groups.
    """
    everyone = tuple(range(size()))
    ordinals = (
        next((tuple(each) for each in groups if ordinal() in each), None) if groups else everyone
    )
    if ordinals is None:
        raise ValueError(f"ordinal {ordinal()} is in none of the groups {groups}")
    with _lock:
        if ordinals not in _groups:
            prefix = dist.PrefixStore("collectives/" + ",".join(map(str, ordinals)), store())
            rank = ordinals.index(ordinal())
            _groups[ordinals] = process_group.create(prefix, rank, len(ordinals), _TIMEOUT)
        return _groups[ordinals], list(ordinals)


def collective(payload: bytes) -> list[bytes]:
    """Exchange payloads, and return those of all processes by ordinal."""
    if size() == 1:
        return [payload]
    processes, _ = group()
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size())]
    processes.allgather([lengths], [torch.tensor([len(payload)])]).wait()
    longest = max(int(length) for length in lengths)
    if longest == 0:
        return [b""] * size()
    padded = torch.zeros(longest, dtype=torch.uint8)
    if payload:
        padded[: len(payload)] = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
    received = [torch.zeros(longest, dtype=torch.uint8) for _ in range(size())]
    processes.allgather([received], [padded]).wait()
    return [
        bytes(part[: int(length)].numpy()) for part, length in zip(received, lengths, strict=True)
    ]
