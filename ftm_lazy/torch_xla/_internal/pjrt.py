"""torch_xla._internal.pjrt: functions behind `xla_multiprocessing` that some programs call."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ftm_lazy.torch_xla import _world
from ftm_lazy.torch_xla.distributed import xla_multiprocessing

__all__ = ["run_multiprocess", "spawn", "spawn_threads"]

R = TypeVar("R")


def run_multiprocess(
    fn: Callable[..., R], *args: object, start_method: str = "spawn", **kwargs: object
) -> dict[int, R]:
    """Call ``fn(*args, **kwargs)`` in all processes.

    Args:
        fn: The function; its result must be picklable.
        *args: Its positional arguments.
        start_method: As in `xla_multiprocessing.spawn`.
        **kwargs: Its keyword arguments.

    Returns:
        Ordinal of a process to its result.
    """
    with tempfile.TemporaryDirectory() as folder:
        xla_multiprocessing.spawn(
            _store_result, (folder, fn, args, kwargs), start_method=start_method
        )
        return {
            int(path.name): pickle.loads(path.read_bytes())
            for path in sorted(Path(folder).iterdir(), key=lambda path: int(path.name))
        }


def _store_result(
    ordinal: int,
    folder: str,
    fn: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> None:
    Path(folder, str(ordinal)).write_bytes(pickle.dumps(fn(*args, **kwargs)))


def spawn_threads(fn: Callable[..., object], args: tuple[object, ...] = ()) -> None:
    """Call ``fn(ordinal, *args)`` for the only device of this process, on this thread."""
    fn(_world.ordinal(), *args)


def spawn(
    fn: Callable[..., object],
    nprocs: int | None = None,
    start_method: str = "spawn",
    args: tuple[object, ...] = (),
) -> None:
    """Call `xla_multiprocessing.spawn`."""
    xla_multiprocessing.spawn(fn, args, nprocs, start_method=start_method)
