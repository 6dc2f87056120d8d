"""torch_xla.distributed.xla_multiprocessing, commonly imported as ``xmp``: a function in several
processes.

Each process has a machine of its own, with a share of the host's cores. How many there are is said
by `nprocs`, else by ``CPU_NUM_DEVICES`` (or ``TPU_``, ``GPU_``, ``NEURONCORE_NUM_DEVICES``), else
it is one: this one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

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
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int | None = None,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Call ``fn(ordinal, *args)`` in several processes that work together.

    Args:
        fn: at the top of a module, unless `start_method` is fork or there is one process. args: for
        `fn`, behind the ordinal. nprocs: how many; None: as the environment says. One is this
        process, without another. join: wait for all of them; else return the context of
        `torch.multiprocessing`, whose `join` waits. daemon: whether they end with this process.
        start_method: spawn, fork or forkserver; a fork must come before the device is used here.

    Raises:
        torch.multiprocessing.ProcessRaisedException: with the traceback of the first process that
            raised; the others are ended.
    """
    count = _count() if nprocs is None else nprocs
    if count < 1:
        raise ValueError(f"nprocs must be at least 1, got {nprocs}")
    if count == 1:
        fn(0, *args)
        return None
    if start_method == "fork" and registration.is_initialized():
        raise RuntimeError(
            "Runtime is already initialized. Do not use the XLA device before calling xmp.spawn with start_method='fork'."
        )
    # The store lives here, so that no port has to be guessed, and must outlive the processes.
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
    ordinal: int, fn: Callable[..., Any], args: tuple[Any, ...], count: int, address: str
) -> None:
    """The main function of a process."""
    _world.enter(ordinal, count, address)
    os.environ.setdefault("FTM_CORES", str(max(1, len(os.sched_getaffinity(0)) // count)))
    fn(ordinal, *args)


def launch(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    start_method: str = "spawn",
    debug_single_process: bool = False,
) -> None:
    """`torch_xla.launch`: ``fn(ordinal, *args)`` in all processes: those of `spawn`, or those that
    torchrun has started.

    Args:
        fn: as in `spawn`.
        args: for `fn`, behind the ordinal.
        start_method: as in `spawn`.
        debug_single_process: in this process only.

    Raises NotImplementedError after `runtime.use_spmd`, as torch_xla does.
    """
    from ftm_lazy.torch_xla import runtime

    if runtime.is_spmd():
        raise NotImplementedError("launch function does not support SPMD at this time")
    if dist.is_torchelastic_launched():
        fn(utils.getenv_as("LOCAL_RANK", int), *args)
    else:
        spawn(fn, args, 1 if debug_single_process else None, start_method=start_method)


class MpModelWrapper:
    """A model that is made once and moved to the device in each process, one after another.

    Args:
        model: on the CPU, at the top of a module whose function is started by
            ``start_method="fork"``.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._lock = torch.multiprocessing.Lock()

    def to(self, device: torch.device | str) -> torch.nn.Module:
        """Return the model, on `device`."""
        with self._lock:
            return self._model.to(device)


class MpSerialExecutor:
    """Runs a function in one process after another, such as one that downloads data."""

    def __init__(self) -> None:
        self._lock = torch.multiprocessing.Lock()

    def run(self, fn: Callable[[], R]) -> R:
        """What `fn` returns."""
        with self._lock:
            return fn()


@inert("there is no order of processes that is faster than another")
def create_optimized_replica_groups() -> list[list[int]] | None:
    """Return the best order of the processes: None, as they are."""
    return None


device_kind_handler_dict: dict[str, Callable[..., list[list[int]] | None]] = {}
"""Kinds of devices whose processes have a best order: none."""
