"""Parallel compilation of a split trace's pieces ahead of their requests.

The recorder announces the pieces, then requests and launches them in order. Meanwhile threads
compile the next ones. There is one thread fewer than compiler processes, because the recorder's
thread also compiles.

Similar pieces are compiled one after the other: they share kernels, which are compiled once that
way. If they differ only in sizes, a dynamic-shape program for the first may serve the second.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["Lookahead"]

_SIMILAR = 0.5  # share of common operation kinds from which two pieces are similar
_KEPT = 16  # announcements with unrequested pieces, e.g. after an interrupt

R = TypeVar("R")
M = TypeVar("M")


@dataclass(eq=False)
class _AnnouncedTrace(Generic[R, M]):
    """An announced piece and the future of its compilation."""

    key: bytes | str
    operations: frozenset[str]
    request: R
    future: futures.Future[M] = field(default_factory=futures.Future)

    @property
    def is_waiting(self) -> bool:
        """Whether its compilation has neither started nor been cancelled."""
        return not (self.future.running() or self.future.done())

    def is_similar(self, other: _AnnouncedTrace[R, M]) -> bool:
        """Return whether most of their operations are of the same kinds."""
        common, union = self.operations & other.operations, self.operations | other.operations
        return len(common) >= _SIMILAR * len(union)


@dataclass(eq=False)
class _AnnouncedSet(Generic[R, M]):
    pieces: list[_AnnouncedTrace[R, M]] = field(default_factory=list)
    done: Callable[[], object] | None = None


class Lookahead(Generic[R, M]):
    """Compiles announced pieces in background threads.

    Args:
        make: Compiles a request; called on a background thread.
        threads: Number of threads for one announcement; 0 disables it.
    """

    def __init__(self, make: Callable[[R], M], threads: int) -> None:
        self._make = make
        self._threads = threads
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Start without announcements and threads; a forked child has none of the threads."""
        self._changed = threading.Condition()
        self._sets: deque[_AnnouncedSet[R, M]] = deque(maxlen=_KEPT)
        self._running: list[_AnnouncedTrace[R, M]] = []

    def announce(
        self,
        requests: Sequence[tuple[bytes | str, frozenset[str], R]],
        done: Callable[[], object] | None = None,
    ) -> None:
        """Start compiling pieces that will be requested in this order.

        Args:
            requests: For each piece its key, the kinds of its operations, and the argument of
                `make`.
            done: Called after each piece that compiled, on the thread that compiled it. Without
                threads it is called at once: the caller compiles when it requests the piece.
        """
        if self._threads < 1:
            if done is not None:
                done()
            return
        with self._changed:
            present = {piece.key for other in self._sets for piece in other.pieces}
            announced = _AnnouncedSet(
                [_AnnouncedTrace[R, M](*each) for each in requests if each[0] not in present],
                done,
            )
            if not announced.pieces:
                return
            self._sets.append(announced)
        for _ in range(min(self._threads, len(announced.pieces))):
            # a daemon, so that the process does not wait for it at exit
            worker = threading.Thread(
                target=self._work, args=(announced,), name="ftm-compile", daemon=True
            )
            # since Python 3.12 no thread can be started while the interpreter shuts down
            with contextlib.suppress(RuntimeError):
                worker.start()

    def take(self, key: bytes | str) -> M | None:
        """Remove a piece from the announcements and return its result.

        Args:
            key: The piece's key.

        Returns:
            The result, after waiting for it if its compilation has started. None if it has not, or
            was not announced: the caller compiles it.

        Raises:
            Exception: The one that `make` raised.
        """
        with self._changed:
            for announced in self._sets:
                piece = next((piece for piece in announced.pieces if piece.key == key), None)
                if piece is not None:
                    break
            else:
                return None
            has_started = not piece.future.cancel()
        if has_started:
            futures.wait([piece.future])
        with self._changed:
            if piece in announced.pieces:
                announced.pieces.remove(piece)
            if not announced.pieces and announced in self._sets:
                self._sets.remove(announced)
        return piece.future.result() if has_started else None

    def _work(self, announced: _AnnouncedSet[R, M]) -> None:
        changed = self._changed
        while True:
            with changed:
                piece = self._next(announced)
                if piece is None:
                    return
                piece.future.set_running_or_notify_cancel()
                self._running.append(piece)
            try:
                piece.future.set_result(self._make(piece.request))
            except BaseException as error:
                piece.future.set_exception(error)
            finally:
                with changed:
                    self._running.remove(piece)
                    changed.notify_all()
            if announced.done is not None and piece.future.exception() is None:
                announced.done()

    def _next(self, announced: _AnnouncedSet[R, M]) -> _AnnouncedTrace[R, M] | None:
        """Return the first piece that has not started and is not similar to a running one.

        Waits while all remaining pieces are similar to running ones; None if none remain.
        """
        while waiting := [piece for piece in announced.pieces if piece.is_waiting]:
            for piece in waiting:
                if not any(map(piece.is_similar, self._running)):
                    return piece
            self._changed.wait()
        return None
