"""torch_xla._internal.tpu: what Lightning, Accelerate and others ask about the machine, answered
for ftm."""

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
    """Return the generation of the TPU: 0, for there is none."""
    return 0


def worker_id() -> int:
    """Which host this is."""
    from ftm_lazy.torch_xla import runtime

    return runtime.host_index()
