"""Calls to test collectives: of this process alone. With others: `tests/distributed`."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples import Calls, Source, sampler


@sampler("collective")
def collective(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    token = torch.zeros(1, dtype=torch.uint8)
    for shape, reduction in (((3, 5), "add"), ((1,), "avg"), ((0, 2), "max"), ((7,), "min")):
        yield (source.tensor(shape, dtype), token, reduction, 0), {}
