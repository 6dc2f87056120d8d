"""The processes that work together: how many there are, which of them this is, and how they
exchange bytes and tensors.

A process belongs to a world of several if `xla_multiprocessing.spawn` started it (see `enter`) or
if torchrun did. Where they find each other is a store of PyTorch's: of the parent that spawned
them, or of torchrun's agent.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

from ftm_lazy.distributed.process_group import HostProcessGroup

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
"""Set by `enter`: host and port of the parent's store."""

_TIMEOUT = timedelta(minutes=30)  # as torch.distributed's


def enter(ordinal: int, size: int, address: str) -> None:
    """Make this process number `ordinal` of `size` that one parent started, whose store is at
    `address`."""
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
    """Return the number of processes that work together."""
    return _number("WORLD_SIZE", "PJRT_LOCAL_PROCESS_COUNT", 1)


def ordinal() -> int:
    """Which of them this is, from 0."""
    return _number("RANK", "PJRT_LOCAL_PROCESS_RANK", 0)


def local_size() -> int:
    """Return the number of them on this host."""
    return _number("LOCAL_WORLD_SIZE", "PJRT_LOCAL_PROCESS_COUNT", 1)


def local_ordinal() -> int:
    """Which of them on this host this is, from 0."""
    return _number("LOCAL_RANK", "PJRT_LOCAL_PROCESS_RANK", 0)


@functools.cache
def store() -> dist.Store:
    """Return the store of the world."""
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
_groups: dict[tuple[int, ...], HostProcessGroup] = {}


def group(groups: Sequence[Sequence[int]] | None = None) -> tuple[HostProcessGroup, list[int]]:
    """Return the process group that this process belongs to, and the ordinals in it.

    Args:
        groups: lists of ordinals, each a group; None or empty: one of all.

    Raises ValueError if this process is in none of them.
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
            _groups[ordinals] = HostProcessGroup(prefix, rank, len(ordinals), _TIMEOUT)
        return _groups[ordinals], list(ordinals)


def collective(payload: bytes) -> list[bytes]:
    """Return the payloads of all processes, by ordinal."""
    if size() == 1:
        return [payload]
    processes, _ = group()
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size())]
    processes.allgather([lengths], [torch.tensor([len(payload)])]).wait()
    longest = max(int(length) for length in lengths)
    if longest == 0:
        return [b""] * size()
    own = torch.zeros(longest, dtype=torch.uint8)
    own[: len(payload)] = (
        torch.frombuffer(bytearray(payload), dtype=torch.uint8) if payload else own[:0]
    )
    received = [torch.zeros(longest, dtype=torch.uint8) for _ in range(size())]
    processes.allgather([received], [own]).wait()
    return [
        bytes(part[: int(length)].numpy()) for part, length in zip(received, lengths, strict=True)
    ]
