"""What was compiled, why, and what it took: counters, causes, and explanations for who asked to be
told."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ftm_lazy import _C
from ftm_lazy.compile.recompile_explainer import (
    CAUSES,
    CompileHistory,
    RecompileExplanation,
    TraceRecord,
    read,
)
from ftm_lazy.warnings_once import notice

__all__ = ["CompileEvent", "CompileStats"]

_FIRST_STEPS = 5  # programs run until a loop counts as settled
_WHOLES = 64  # traces that threads may be at
_TOLD = 64  # explanations of recompiles that are remembered


@dataclass(frozen=True)
class CompileEvent:
    """What it took to get a program for a trace, and what came of it.

    Args:
        seconds: that it took.
        notes: what an explanation says beside the cause.
        is_general: it serves other sizes as well.
        at_first_sight: it does, though no trace with others came before.
    """

    seconds: float
    notes: tuple[str, ...] = ()
    is_general: bool = False
    at_first_sight: bool = False


class CompileStats:
    """Of this process, whose threads may compile at once.

    The lock is held for updates only, never while a warning is given or a result is read: both may
    run code that compiles.

    Args:
        told: whether each compile is explained in a warning (``FTM_DEBUG=recompile``).
    """

    def __init__(self, told: bool) -> None:
        self._told = told
        self._history = CompileHistory()
        self._recompiles: deque[str] = deque(maxlen=_TOLD)
        self._causes: dict[str, tuple[int, int, float]] = {}
        # whole traces of which a piece was compiled
        self._counted: deque[int] = deque(maxlen=_WHOLES)
        self._renew_lock()
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        """The thread that holds the lock may not be in a forked child."""
        self._lock = threading.Lock()

    def cause(self, text: str, locations: Sequence[str]) -> str:
        """Why a program for this trace has to be compiled, of `CAUSES`; it is not yet among those
        that others are compared with."""
        return self._history.explain(read(text), locations).cause

    def instance(self) -> None:
        """A general program served a trace."""
        _C._count("instances")

    def found(self, text: str) -> None:
        """The disk cache had the program for this trace."""
        _C._count("cache_hits_disk")
        trace = read(text)
        with self._lock:
            self._history.add(trace)

    def compiled(
        self, text: str, locations: Sequence[str], whole: int, compiled: CompileEvent
    ) -> None:
        """A program was compiled.

        Args:
            text: the trace.
            locations, whole: as of `compiler.Request`.
            compiled: what it took.
        """
        trace = read(text)
        why = self._history.explain(trace, locations)
        with self._lock:
            is_first = whole == 0 or whole not in self._counted
            if is_first:
                self._counted.append(whole)
        if is_first:
            _C._count("compiles")
        _C._count("pieces")
        if compiled.is_general:
            _C._count("general_programs")
        if compiled.at_first_sight:
            _C._count("first_sight_programs")
        _C._add_time("CompileTime", compiled.seconds)
        self._note(
            trace,
            replace(why, text="; ".join(filter(None, [why.text, *compiled.notes]))),
            compiled.seconds,
            is_first,
        )

    def causes(self) -> dict[str, tuple[int, int, float]]:
        """Why programs were compiled, for each cause that there was, of `CAUSES`: of how many
        traces it is the first piece's, how many pieces were compiled, and the seconds that they
        took."""
        known = self._causes.copy()
        return {cause: known[cause] for cause in CAUSES if cause in known}

    def recompiles(self) -> list[str]:
        """What differed, for each of the last recompiles."""
        return list(self._recompiles)

    def forget(self) -> None:
        """Forgets recompiles and causes; the traces that later ones are compared with stay."""
        self._recompiles.clear()
        self._causes.clear()

    def _note(
        self, trace: TraceRecord, why: RecompileExplanation, seconds: float, is_first: bool
    ) -> None:
        """Remembers a compile; is_first: of the whole trace, whose other pieces are no surprises of
        their own."""
        with self._lock:
            self._history.add(trace)
            traces, pieces, total = self._causes.get(why.cause, (0, 0, 0.0))
            self._causes[why.cause] = traces + is_first, pieces + 1, total + seconds
        if is_first and why.is_recompile(_C._counters().get("executions", 0) >= _FIRST_STEPS):
            _C._count("recompiles")
            self._recompiles.append(why.text)
            if self._told:
                notice(f"recompiled, {why.cause}: {why.text}")
        elif self._told:
            what = "compiled" if is_first else "compiled, another piece of the same trace"
            notice(f"{what}, {why.cause}{f': {why.text}' if why.text else ''}")
