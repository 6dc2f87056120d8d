"""torch_xla.distributed.xla_multiprocessing, usually imported as ``xmp``: start processes.

Each process has its own machine with an equal share of the host's cores. Their number is `nprocs`,
or ``CPU_NUM_DEVICES`` (``TPU_``, ``GPU_``, ``NEURONCORE_NUM_DEVICES``), or 1, which runs the
function in this process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import torch.distributed as dist
import torch.multiprocessing

from ftm_lazy.device import registration
from ftm_lazy.torch_xla import _world
from ftm_lazy.torch_xla._inert import inert
from ftm_lazy.torch_xla.utils import utils

__all__ = [
    "MpModelWrapper",
    "MpSerialExecutor",
    "create_optimized_replica_groups",
    "launch",
    "spawn",
]

R = TypeVar("R")

_COUNTS = ("CPU_NUM_DEVICES", "TPU_NUM_DEVICES", "GPU_NUM_DEVICES", "NEURONCORE_NUM_DEVICES")


def spawn(
    fn: Callable[..., object],
    args: tuple[object, ...] = (),
    nprocs: int | None = None,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> object:
    """Call ``fn(ordinal, *args)`` in several processes.

    Args:
        fn: The function. It must be at a module's top level, unless `start_method` is fork or there
            is one process.
        args: Its arguments after the ordinal.
        nprocs: Number of processes; None for that of the environment. 1 runs `fn` in this process.
        join: Wait for all processes.
        daemon: Whether they end with this process.
        start_method: spawn, fork or forkserver. A fork must precede the device's first use.

    Returns:
        None, or without `join` the context of `torch.multiprocessing`, whose `join` waits.

    Raises:
        torch.multiprocessing.ProcessRaisedException: A process raised an error, whose traceback is
            in the message; the others are terminated.
        RuntimeError: `start_method` is fork and the device has been used.
        ValueError: `nprocs` is less than 1.
    """
    count = _count() if nprocs is None else nprocs
    if count < 1:
        raise ValueError(f"nprocs must be at least 1, got {nprocs}")
    if count == 1:
        fn(0, *args)
        return None
    if start_method == "fork" and registration.is_initialized():
        raise RuntimeError(
            "Runtime is already initialized. Do not use the XLA device before calling xmp.spawn"
            " with start_method='fork'."
        )
    # This process has the store, so that it can choose a free port; it must outlive the others.
    store = dist.TCPStore(
        "127.0.0.1", 0, None, is_master=True, wait_for_workers=False, timeout=timedelta(minutes=30)
    )
    context = torch.multiprocessing.start_processes(
        _run,
        (fn, args, count, f"127.0.0.1:{store.port}"),
        count,
        join=False,
        daemon=daemon,
        start_method=start_method,
    )
    context.store = store
    if not join:
        return context
    while not context.join():
        pass
    return None


def _count() -> int:
    given = [int(os.environ[name]) for name in _COUNTS if os.environ.get(name)]
    return given[0] if given else 1


def _run(
    ordinal: int, fn: Callable[..., object], args: tuple[object, ...], count: int, address: str
) -> None:
    """Main function of a process."""
    _world.enter(ordinal, count, address)
    os.environ.setdefault("FTM_CORES", str(max(1, len(os.sched_getaffinity(0)) // count)))
    fn(ordinal, *args)


def launch(
    fn: Callable[..., object],
    args: tuple[object, ...] = (),
    start_method: str = "spawn",
    debug_single_process: bool = False,
) -> None:
    """Call ``fn(ordinal, *args)`` in the processes of torchrun, or in those of `spawn`.

    Args:
        fn: As in `spawn`.
        args: As in `spawn`.
        start_method: As in `spawn`.
        debug_single_process: Run `fn` in this process only.

    Raises:
        NotImplementedError: `runtime.use_spmd` was called, as in torch_xla.
    """
    from ftm_lazy.torch_xla import runtime

    if runtime.is_spmd():
        raise NotImplementedError("launch function does not support SPMD at this time")
    if dist.is_torchelastic_launched():
        fn(utils.getenv_as("LOCAL_RANK", int), *args)
    else:
        spawn(fn, args, 1 if debug_single_process else None, start_method=start_method)


class MpModelWrapper:
    """A model that is created once and copied to the device by one process after the other.

    Args:
        model: The model on the CPU, created before ``spawn(..., start_method="fork")``.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._lock = torch.multiprocessing.Lock()

    def to(self, device: torch.device | str) -> torch.nn.Module:
        """Return the model on `device`."""
        with self._lock:
            return self._model.to(device)


class MpSerialExecutor:
    """Runs a function, e.g. a download, in one process after the other."""

    def __init__(self) -> None:
        self._lock = torch.multiprocessing.Lock()

    def run(self, fn: Callable[[], R]) -> R:
        """Call `fn` while no other process does, and return its result."""
        with self._lock:
            return fn()


@inert("no order of processes is faster than another")
def create_optimized_replica_groups() -> list[list[int]] | None:
    """Return None: the order of processes does not matter."""
    return None


device_kind_handler_dict: dict[str, Callable[..., list[list[int]] | None]] = {}
"""Empty; in torch_xla it has the devices whose processes have an optimal order."""
