"""Calls to test collectives: of this process alone. With others: `tests/distributed`."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples import Calls, Source, sampler


@sampler("collective")
def collective(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    token = torch.zeros(1, dtype=torch.uint8)
    calls = (
        ("allreduce", "add", (3, 5), (3, 5)),
        ("allreduce", "avg", (1,), (1,)),
        ("allreduce", "max", (0, 2), (0, 2)),
        ("reducescatter", "min", (7,), (7, 1)),
        ("allgather", "", (2, 3), (6,)),
    )
    for kind, reduction, shape, size in calls:
        yield (source.tensor(shape, dtype), token, kind, reduction, size, 0), {}
