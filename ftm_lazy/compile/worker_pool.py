"""Pool of compiler processes, each of which compiles one program at a time.

The first process starts with the first compile and forks the others, so only the first pays for the
imports. They share compiled functions on disk (`ftm_backend.codegen.function_cache`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from ftm_backend.codegen.function_cache import FunctionStore
from ftm_lazy.compile.worker import Worker

__all__ = ["WorkerPool"]

# programs that are compiled together share kernels, which each process would compile
_MAX_PROCESSES = 4


class WorkerPool:
    """One compiler process per CPU, up to four; the arguments are those of `Worker`."""

    def __init__(
        self, timeout: float, echo: bool, progress: bool, functions: FunctionStore | None
    ) -> None:
        count = min(_MAX_PROCESSES, len(os.sched_getaffinity(0)))
        others = [Worker(timeout, echo, progress, functions) for _ in range(count - 1)]
        self.first = Worker(timeout, echo, progress, functions, forks=others)
        self._all = [self.first, *others]
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def source(self) -> str | None:
        """`source_hash()` of the code that all processes run; None if unknown or different."""
        sources = {worker.source for worker in self._all if worker.source is not None}
        return sources.pop() if len(sources) == 1 else None

    def compile(
        self, text: str, request: Mapping[str, object], why: str = ""
    ) -> tuple[bytes, float]:
        """Call `Worker.compile` on the first idle worker; wait for one if all are busy."""
        worker = None
        try:  # a signal handler may raise at any call, also right after the worker is taken
            with self._changed:
                self._changed.wait_for(lambda: self._idle)
                worker = min(self._idle, key=self._all.index)
                self._idle.remove(worker)
            return worker.compile(text, request, why)
        finally:
            if worker is not None:
                self._idle.add(worker)  # before the lock, whose acquisition may be interrupted
                with self._changed:
                    self._changed.notify()

    def close(self) -> None:
        """End the processes; a later `compile` starts new ones."""
        for worker in self._all:
            worker.close()

    def _reset(self) -> None:
        """Mark all workers as idle; a forked child has none of the threads that use them."""
        self._changed = threading.Condition()
        self._idle = set(self._all)
