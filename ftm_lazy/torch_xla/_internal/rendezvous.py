"""torch_xla._internal.rendezvous: ``init_method="xla://"`` of torch.distributed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ftm_lazy.torch_xla import _world

__all__ = ["pjrt_rendezvous_handler"]


def pjrt_rendezvous_handler(
    url: str, timeout: timedelta | None = None, **kwargs: object
) -> Iterator[tuple[dist.Store, int, int]]:
    """Yield the world's store, this process's rank and the number of processes."""
    yield dist.PrefixStore("torch.distributed", _world.store()), _world.ordinal(), _world.size()
