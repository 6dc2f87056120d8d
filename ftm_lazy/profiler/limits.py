"""The machine's limits, measured: what kernels can reach at most on this host."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass

import torch

from ftm_lazy import _C
from ftm_lazy.device.device_name import NAME
from ftm_lazy.profiler.events import Events, Kernel


@dataclass(frozen=True)
class Limits:
    """Greatest measured rates, per second.

    Attributes:
        flops: Of a matrix product in float32.
        bytes: Between memory and the scratchpads, in an elementwise kernel.
    """

    flops: float
    bytes: float


_PRODUCT = 768
_ELEMENTS = 1 << 22
_REPEATS = 3


@functools.cache
def measured_limits() -> Limits:
    """Measure the limits once for the process: a matrix product, and a sum of two vectors."""
    begin = time.time_ns()
    x = torch.ones(_PRODUCT, _PRODUCT).to(NAME)
    v = torch.ones(_ELEMENTS).to(NAME)
    for measured in (False, True):  # the first time it compiles
        if measured:
            _C._start_profile()
        for _ in range(_REPEATS):
            products = x @ x
            _C._sync(True)
            sums = v + v
            _C._sync(True)
    raw = _C._stop_profile()
    del products, sums
    kernels = Events.of(begin, time.time_ns(), 0, raw).kernels
    return Limits(
        max((k.mm_flops / k.elapsed for k in kernels if k.elapsed), default=0.0) * 1e9,
        max((k.dma_bytes / k.elapsed for k in kernels if k.elapsed), default=0.0) * 1e9,
    )


_LAUNCH_NANOSECONDS = 20_000
_LOW = 0.1
"""A kernel below this share of both limits is bound by neither."""


def bound_of(kernels: list[Kernel], limits: Limits) -> str:
    """Return what bounds equal kernels: ``compute``, ``memory``, ``launch`` or ``issue``.

    ``launch`` means that each is so short that starting it costs more; ``issue`` that it reaches
    neither limit, because it executes many small instructions.
    """
    time_ = sum(k.elapsed for k in kernels) or 1
    compute = sum(k.flops for k in kernels) / time_ * 1e9 / (limits.flops or 1)
    memory = sum(k.dma_bytes for k in kernels) / time_ * 1e9 / (limits.bytes or 1)
    if max(compute, memory) < _LOW:
        return "launch" if time_ / len(kernels) < _LAUNCH_NANOSECONDS else "issue"
    return "compute" if compute > memory else "memory"
