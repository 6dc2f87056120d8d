"""Programs that are compiled before the recorder asks for them: the pieces of a trace, which it
announces.

One thread less than there are compiler processes, since one processor is the program's own, takes
them in order; the recorder launches the first while the next ones are compiled. What is alike is
compiled one after the other: it has kernels in common, which are made once then, and where it
differs in numbers alone, a program for the first may serve the second.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["Lookahead"]

_ALIKE = 0.5  # the part of the kinds of operations that makes two programs alike
_KEPT = 16  # announcements whose programs were not all asked for, as after an interrupt

R = TypeVar("R")
M = TypeVar("M")


@dataclass(eq=False)
class _AnnouncedTrace(Generic[R, M]):
    """What is announced, and what became of it; `begun`: by whomever."""

    key: str
    operations: frozenset[str]
    request: R
    begun: bool = False
    ended: bool = False
    made: M | None = None
    error: Exception | None = None

    def is_alike(self, other: _AnnouncedTrace[R, M]) -> bool:
        """Whether most of their operations are of the same kinds."""
        return len(self.operations & other.operations) >= _ALIKE * len(
            self.operations | other.operations
        )


@dataclass(eq=False)
class _AnnouncedSet(Generic[R, M]):
    pieces: list[_AnnouncedTrace[R, M]] = field(default_factory=list)


class Lookahead(Generic[R, M]):
    """Makes what was announced.

    Args:
        make: called in a thread of its own.
        threads: how many work at an announcement.
    """

    def __init__(self, make: Callable[[R], M], threads: int) -> None:
        self._make = make
        self._threads = threads
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Nobody is at work, as in a forked child."""
        self._changed = threading.Condition()
        self._sets: deque[_AnnouncedSet[R, M]] = deque(maxlen=_KEPT)
        self._at_work: list[_AnnouncedTrace[R, M]] = []

    def announce(self, wanted: Sequence[tuple[str, frozenset[str], R]]) -> None:
        """These will be asked for, in this order: for each its key, the kinds of operations in it
        and what `make` takes."""
        if self._threads < 1:
            return
        with self._changed:
            known = {piece.key for other in self._sets for piece in other.pieces}
            announced = _AnnouncedSet(
                [_AnnouncedTrace[R, M](*each) for each in wanted if each[0] not in known]
            )
            if not announced.pieces:
                return
            self._sets.append(announced)
        for _ in range(min(self._threads, len(announced.pieces))):
            # A daemon: it works for somebody who waits, and nobody waits for it when the process
            # ends.
            worker = threading.Thread(
                target=self._work, args=(announced,), name="ftm-compile", daemon=True
            )
            # from Python 3.12 on none is started any more when the interpreter ends
            with contextlib.suppress(RuntimeError):
                worker.start()

    def take(self, key: str) -> M | None:
        """What was made of an announced one, once it is; None: it is the caller's to make. Raises
        what `make` raised."""
        with self._changed:
            for announced in self._sets:
                piece = next((piece for piece in announced.pieces if piece.key == key), None)
                if piece is not None:
                    break
            else:
                return None
            if piece.begun:
                self._changed.wait_for(lambda: piece.ended)
            if piece in announced.pieces:
                announced.pieces.remove(piece)
            if not announced.pieces and announced in self._sets:
                self._sets.remove(announced)
        if piece.error is not None:
            raise piece.error
        return piece.made

    def _work(self, announced: _AnnouncedSet[R, M]) -> None:
        changed = self._changed
        while True:
            with changed:
                piece = self._next(announced)
                if piece is None:
                    return
                piece.begun = True
                self._at_work.append(piece)
            try:
                piece.made = self._make(piece.request)
            except Exception as error:
                piece.error = error
            finally:
                with changed:
                    piece.ended = True
                    self._at_work.remove(piece)
                    changed.notify_all()

    def _next(self, announced: _AnnouncedSet[R, M]) -> _AnnouncedTrace[R, M] | None:
        """The first that nobody has begun with; waits while somebody works at one that is like it,
        for all these."""
        while waiting := [piece for piece in announced.pieces if not piece.begun]:
            for piece in waiting:
                if not any(map(piece.is_alike, self._at_work)):
                    return piece
            self._changed.wait()
        return None
