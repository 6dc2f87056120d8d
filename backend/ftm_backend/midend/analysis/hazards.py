"""Analysis: barriers between kernels, from their RAW, WAR and WAW hazards.

Between two barriers (an *epoch*), each core runs kernels without waiting for the other cores. A
kernel needs a barrier if it reads a buffer that was written in this epoch, or writes one that was
read or written in it. Buffers that reuse the same bytes of the arena count as one. No barrier is
needed if both kernels ran on core 0 alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(eq=False)
class StorageRange:
    """Storage of a buffer; ``before``: earlier storages that share, or may share, its bytes."""

    before: list[StorageRange] = field(default_factory=list)
    written: tuple[int, bool] = (-1, False)  # epoch, by several cores
    read: tuple[int, bool] = (-1, False)


class Barriers:
    """Decides for each kernel, in program order, whether a barrier must precede it."""

    def __init__(self) -> None:
        """Start in epoch 0."""
        self._epoch = 0

    def meet(self) -> None:
        """Record a barrier."""
        self._epoch += 1

    def visit(
        self, reads: Iterable[StorageRange], writes: Iterable[StorageRange], one_core: bool
    ) -> bool:
        """Record a kernel's accesses; return whether a barrier must precede it."""
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
