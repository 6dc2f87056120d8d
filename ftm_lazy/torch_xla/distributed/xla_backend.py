"""torch_xla.distributed.xla_backend: backend ``xla`` and init_method ``xla://``.

import torch_xla.distributed.xla_backend
dist.init_process_group("xla", init_method="xla://")
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ftm_lazy import _C
from ftm_lazy.device.device_name import NAME
from ftm_lazy.distributed import process_group
from ftm_lazy.torch_xla._internal import rendezvous

__all__ = ["ProcessGroupXla", "new_xla_process_group"]

if "xla" not in dist.Backend.backend_list:  # a device named xla has registered it
    dist.Backend.register_backend("xla", process_group.create, devices=[NAME, "cpu"])
dist.register_rendezvous_handler("xla", rendezvous.pjrt_rendezvous_handler)


class ProcessGroupXla(_C.GroupBackend):
    """The backend ``xla`` of one group.

    Args:
        prefix_store: Store through which the processes find each other.
        rank: Rank of this process.
        size: Number of processes.
        timeout: Time after which a collective fails that a process has not joined.
    """

    def __init__(self, prefix_store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(prefix_store, rank, size, timeout, process_group.make_carrier)


def new_xla_process_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta = dist.default_pg_timeout,
    backend: str | None = None,
    pg_options: object = None,
) -> dist.ProcessGroup:
    """Call `torch.distributed.new_group`.

    Args:
        ranks: Ranks of the group; None for all.
        timeout: Timeout of its collectives.
        backend: Backend of the group.
        pg_options: Accepted; has no effect.
    """
    return dist.new_group(ranks=ranks, timeout=timeout, backend=backend)
