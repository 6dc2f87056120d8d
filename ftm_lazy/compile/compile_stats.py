"""Compile statistics: counters, causes with times, and explanations of recompiles."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ftm_backend.ir.trace.trace import Trace
from ftm_lazy import _C
from ftm_lazy.compile.recompile_explainer import (
    CAUSES,
    CompileHistory,
    RecompileExplanation,
    TraceRecord,
    read,
)
from ftm_lazy.user_warnings import warn_user

__all__ = ["CompileEvent", "CompileStats"]

_WARMUP_RUNS = 5  # program runs after which a compile for other operations is a surprise
_COUNTED_TRACES = 64  # split traces remembered as counted; several threads may be compiling
_EXPLANATIONS = 64  # explanations of recompiles that are kept


@dataclass(frozen=True)
class CompileEvent:
    """How one program was obtained.

    Args:
        seconds: Time from the request to the image.
        notes: Remarks that `CompileStats` appends to the explanation.
        is_general: The program is a dynamic-shape program.
        at_first_sight: It was made dynamic before a second size was seen.
    """

    seconds: float
    notes: tuple[str, ...] = ()
    is_general: bool = False
    at_first_sight: bool = False


class CompileStats:
    """Compile statistics of this process, whose threads may compile in parallel.

    The lock is held for updates only. Issuing a warning or reading a result with the lock held
    could deadlock, because both may run code that compiles.

    Args:
        warn: Whether each compile is explained in a warning (``FTM_DEBUG=recompile``).
    """

    def __init__(self, warn: bool) -> None:
        self._warn = warn
        self._history = CompileHistory()
        self._recompiles: deque[str] = deque(maxlen=_EXPLANATIONS)
        self._causes: dict[str, tuple[int, int, float]] = {}
        # split traces that have been counted, by `CompileRequest.whole`
        self._counted: deque[int] = deque(maxlen=_COUNTED_TRACES)
        self._create_lock()
        os.register_at_fork(after_in_child=self._create_lock)

    def _create_lock(self) -> None:
        """Create a new lock; in a forked child the thread that held the old one is gone."""
        self._lock = threading.Lock()

    def cause(self, trace: Trace, locations: Sequence[str]) -> str:
        """Return the cause, one of `CAUSES`, for which a trace must be compiled.

        The trace is not yet added to the history.
        """
        return self._history.explain(read(trace), locations).cause

    def count_specialization(self) -> None:
        """Count a trace that was served by a dynamic-shape program."""
        _C._count("instances")

    def count_cache_hit(self, trace: Trace) -> None:
        """Count a trace whose program was in the disk cache."""
        _C._count("cache_hits_disk")
        record = read(trace)
        with self._lock:
            self._history.add(record)

    def count_compile(
        self, trace: Trace, locations: Sequence[str], whole: int, event: CompileEvent
    ) -> None:
        """Count a program that was compiled.

        Args:
            trace: The trace.
            locations: As in `compile_client.CompileRequest`.
            whole: As in `compile_client.CompileRequest`.
            event: Time and kind of the compile.
        """
        record = read(trace)
        why = self._history.explain(record, locations)
        with self._lock:
            is_first = whole == 0 or whole not in self._counted
            if is_first:
                self._counted.append(whole)
        if is_first:
            _C._count("compiles")
        _C._count("pieces")
        if event.is_general:
            _C._count("general_programs")
        if event.at_first_sight:
            _C._count("first_sight_programs")
        _C._add_time("CompileTime", event.seconds)
        explanation = "; ".join(filter(None, [why.text, *event.notes]))
        self._add(record, replace(why, text=explanation), event.seconds, is_first)

    def causes(self) -> dict[str, tuple[int, int, float]]:
        """Return the totals of each cause that has occurred.

        Returns:
            A cause of `CAUSES` to (traces, pieces compiled, seconds). A split trace counts for the
            cause of its first piece.
        """
        causes = self._causes.copy()
        return {cause: causes[cause] for cause in CAUSES if cause in causes}

    def recompiles(self) -> list[str]:
        """Return the explanations of the last recompiles, oldest first."""
        return list(self._recompiles)

    def forget(self) -> None:
        """Discard explanations and causes; the history of traces stays."""
        self._recompiles.clear()
        self._causes.clear()

    def _add(
        self, trace: TraceRecord, why: RecompileExplanation, seconds: float, is_first: bool
    ) -> None:
        """Add a compile to the history and explain it.

        Args:
            trace: The compiled trace.
            why: Its explanation.
            seconds: The time it took.
            is_first: It is the first piece of its trace; only that one can be a recompile.
        """
        with self._lock:
            self._history.add(trace)
            traces, pieces, total = self._causes.get(why.cause, (0, 0, 0.0))
            self._causes[why.cause] = traces + is_first, pieces + 1, total + seconds
        if is_first and why.is_recompile(_C._counters().get("executions", 0) >= _WARMUP_RUNS):
            _C._count("recompiles")
            self._recompiles.append(why.text)
            if self._warn:
                warn_user(f"recompiled, {why.cause}: {why.text}")
        elif self._warn:
            event = "compiled" if is_first else "compiled, another piece of the same trace"
            warn_user(f"{event}, {why.cause}{f': {why.text}' if why.text else ''}")
