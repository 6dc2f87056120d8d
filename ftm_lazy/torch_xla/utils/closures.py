"""torch_xla.utils.closures: a thread that runs closures in order."""

from __future__ import annotations

import abc
import os
import queue
import threading
from collections.abc import Callable, Iterable

__all__ = ["AsyncClosureHandler", "ClosureHandler"]

_IDLE = 3.0  # seconds without work after which the thread ends


class ClosureHandler(abc.ABC):
    """Interface of objects that run closures."""

    @abc.abstractmethod
    def run(self, closure: Callable[[], object]) -> None:
        """Run `closure`, now or later."""

    def run_all(self, closures: Iterable[Callable[[], object]]) -> None:
        """Run closures in order."""
        for closure in closures:
            self.run(closure)


class AsyncClosureHandler(ClosureHandler):
    """Runs closures on a thread.

    If a closure raises an exception, the next `run` raises RuntimeError with it as the cause.

    Args:
        max_queue_size: Number of queued closures from which `run` blocks, unless
            ``XLA_MAX_ASYNC_QUEUE`` is set.
    """

    def __init__(self, max_queue_size: int = 100) -> None:
        super().__init__()
        self._waiting: queue.Queue[Callable[[], object]] = queue.Queue(
            int(os.environ.get("XLA_MAX_ASYNC_QUEUE", max_queue_size))
        )
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def start_event_loop(self) -> None:
        """Start the thread unless it runs."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="ftm step closures")
            self._thread.start()

    def run(self, closure: Callable[[], object]) -> None:
        """Queue `closure`."""
        self._raise_failure()
        self._waiting.put(closure)
        with self._lock:
            self.start_event_loop()

    def _work(self) -> None:
        while True:
            try:
                closure = self._waiting.get(timeout=_IDLE)
            except queue.Empty:
                with self._lock:
                    if self._waiting.empty():
                        self._thread = None
                        return
                continue
            try:
                closure()
            except Exception as error:  # noqa: BLE001  (raised by the next `run`)
                with self._lock:
                    self._failure = error

    def _raise_failure(self) -> None:
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise RuntimeError(
                "Cannot run asynchronous closure due to previously raised exception"
            ) from failure
