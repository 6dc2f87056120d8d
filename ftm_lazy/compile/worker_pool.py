"""The compiler's processes: a program for each at a time.

The first is started when a program is to be compiled, and makes copies of itself; so the second
costs no imports. What one of them has compiled the others find on disk
(`ftm_backend.codegen.function_cache`).
"""

from __future__ import annotations

import os
import threading
from typing import Any

from ftm_backend.codegen.function_cache import FunctionStore
from ftm_lazy.compile.worker import Worker

__all__ = ["Workers"]

# what is compiled at once has kernels in common, which each process makes: more gain little
_MOST = 4


class Workers:
    """As many processes as there are processors, up to four.

    Args:
        timeout, echo, progress, shelf: as of `Worker`.
    """

    def __init__(
        self, timeout: float, echo: bool, progress: bool, shelf: FunctionStore | None
    ) -> None:
        count = min(_MOST, len(os.sched_getaffinity(0)))
        others = [Worker(timeout, echo, progress, shelf) for _ in range(count - 1)]
        self.first = Worker(timeout, echo, progress, shelf, copies=others)
        self._all = [self.first, *others]
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def source(self) -> str | None:
        """`source_hash()` of the code that all of them run; None until one has said so, or where it
        differs."""
        sources = {worker.source for worker in self._all if worker.source is not None}
        return sources.pop() if len(sources) == 1 else None

    def compile(self, text: str, request: dict[str, Any], why: str = "") -> tuple[bytes, float]:
        """As `Worker.compile`, by the first that has nothing to do."""
        with self._changed:
            self._changed.wait_for(lambda: self._idle)
            worker = self._idle.pop(0)
        try:
            return worker.compile(text, request, why)
        finally:
            with self._changed:
                self._idle.append(worker)
                self._idle.sort(key=self._all.index)
                self._changed.notify()

    def close(self) -> None:
        """Ends the processes; a later `compile` would start others."""
        for worker in self._all:
            worker.close()

    def _forget(self) -> None:
        """None of them is at work, as in a forked child."""
        self._changed = threading.Condition()
        self._idle = list(self._all)
