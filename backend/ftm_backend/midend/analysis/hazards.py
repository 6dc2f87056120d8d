"""Where all cores must meet: before a kernel that depends on memory other cores may still be
working on.

Between two barriers (an *epoch*) kernels run on each core without waiting for the others. A kernel
needs a barrier when it reads what was written in this epoch, or writes what was read or written in
it, through the same buffer or through arena memory that changed owner; unless both ran on core 0
alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(eq=False)
class StorageRange:
    """Memory as hazards see it; ``before`` is the storage whose memory this one took over (or may
    share)."""

    before: list[StorageRange] = field(default_factory=list)
    written: tuple[int, bool] = (-1, False)  # epoch, by several cores
    read: tuple[int, bool] = (-1, False)


class Barriers:
    """Decides, kernel by kernel in order, whether a barrier comes before it."""

    def __init__(self) -> None:
        self._epoch = 0

    def meet(self) -> None:
        """All cores meet here."""
        self._epoch += 1

    def visit(
        self, reads: Iterable[StorageRange], writes: Iterable[StorageRange], one_core: bool
    ) -> bool:
        """Notes a kernel's accesses; says whether a barrier must precede it."""
        reads, writes = list(reads), list(writes)
        several = not one_core
        barrier = any(self._conflict(s.written, several) for s in reads) or any(
            self._conflict(t.written, several) or self._conflict(t.read, several)
            for s in writes
            for t in (s, *s.before)
        )
        if barrier:
            self._epoch += 1
        for s in reads:
            s.read = self._note(s.read, several)
        for s in writes:
            s.written = self._note(s.written, several)
        return barrier

    def _conflict(self, last: tuple[int, bool], several: bool) -> bool:
        return last[0] == self._epoch and (several or last[1])

    def _note(self, last: tuple[int, bool], several: bool) -> tuple[int, bool]:
        return (self._epoch, several or (last[0] == self._epoch and last[1]))
