"""torch_xla._internal.tpu: queries of Lightning, Accelerate and others, answered for ftm."""

from __future__ import annotations

from ftm_lazy.torch_xla import _world

__all__ = [
    "num_available_chips",
    "num_available_devices",
    "num_local_processes",
    "version",
    "worker_id",
]


def num_available_chips() -> int:
    """Return the number of devices of this host's processes."""
    return _world.local_size()


def num_available_devices() -> int:
    """Return the number of devices of this host's processes."""
    return _world.local_size()


def num_local_processes() -> int:
    """Return the number of processes on this host."""
    return _world.local_size()


def version() -> int:
    """Return 0: there is no TPU, so no generation."""
    return 0


def worker_id() -> int:
    """Return the ordinal of this host."""
    from ftm_lazy.torch_xla import runtime

    return runtime.host_index()
