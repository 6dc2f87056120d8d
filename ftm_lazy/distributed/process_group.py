"""torch.distributed's backend ``ftm``: makes its groups.

`ftm_lazy._C.GroupBackend` (``csrc/distributed/``) is the backend. It enqueues each collective
behind the programs that compute its tensors, and gives the tensors to a *carrier*, which moves them
between the processes. The carrier is gloo, which comes with PyTorch.
"""

from __future__ import annotations

from datetime import timedelta

import torch.distributed as dist

from ftm_lazy import _C

__all__ = ["create", "make_carrier"]


def make_carrier(
    store: dist.Store, rank: int, size: int, timeout: timedelta
) -> dist.ProcessGroupGloo:
    """Make the backend that moves the tensors of a group, on the CPU.

    Args:
        store: Store through which the processes find each other.
        rank: Rank of this process.
        size: Number of processes.
        timeout: Time after which a collective fails that a process has not joined.
    """
    return dist.ProcessGroupGloo(store, rank, size, timeout)


def create(store: dist.Store, rank: int, size: int, timeout: timedelta) -> _C.GroupBackend:
    """Make the backend of a group; called by `torch.distributed`.

    Args:
        store: As in `make_carrier`.
        rank: As in `make_carrier`.
        size: As in `make_carrier`.
        timeout: As in `make_carrier`.
    """
    return _C.GroupBackend(store, rank, size, timeout, make_carrier)
