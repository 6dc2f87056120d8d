"""torch_xla.distributed.xla_backend: makes ``xla`` a backend of torch.distributed, and ``xla://``
an init_method.

import torch_xla.distributed.xla_backend
dist.init_process_group("xla", init_method="xla://")
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ftm_lazy.device.device_name import NAME
from ftm_lazy.distributed import process_group
from ftm_lazy.distributed.process_group import HostProcessGroup as ProcessGroupXla
from ftm_lazy.torch_xla._internal import rendezvous

__all__ = ["ProcessGroupXla", "new_xla_process_group"]

if "xla" not in dist.Backend.backend_list:  # it is there if it is the device's name
    dist.Backend.register_backend("xla", process_group.create, devices=[NAME, "cpu"])
dist.register_rendezvous_handler("xla", rendezvous.pjrt_rendezvous_handler)


def new_xla_process_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta = dist.default_pg_timeout,
    backend: str | None = None,
    pg_options: object = None,
) -> dist.ProcessGroup:
    """`torch.distributed.new_group`, which serves as it is; `pg_options` are of XLA's meshes and
    mean nothing here."""
    return dist.new_group(ranks=ranks, timeout=timeout, backend=backend)
