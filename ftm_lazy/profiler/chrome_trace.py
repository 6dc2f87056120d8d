"""Writes a profile in Chrome's trace event format, which Perfetto reads."""

from __future__ import annotations

import os

from ftm_lazy.profiler.events import Events

_DEVICE = 1
_PROGRAMS, _KERNELS, _FIRST_CORE = 0, 1, 2


def render(events: Events) -> dict[str, object]:
    """Return the trace: rows of the host's threads, of programs, kernels, and each core."""
    host = os.getpid()
    rows: list[dict[str, object]] = [
        _name("process_name", host, 0, "host"),
        _name("process_name", _DEVICE, 0, "device ftm"),
        _name("thread_name", _DEVICE, _PROGRAMS, "programs"),
        _name("thread_name", _DEVICE, _KERNELS, "kernels"),
    ]
    rows += [
        _name("thread_name", _DEVICE, _FIRST_CORE + core, f"core {core}")
        for core in range(events.core_count)
    ]

    def add(process: int, thread: int, name: str, begin: int, end: int, **details: object) -> None:
        rows.append(
            {
                "ph": "X",
                "pid": process,
                "tid": thread,
                "name": name,
                "ts": (begin - events.begin) / 1e3,
                "dur": (end - begin) / 1e3,
                "args": {key: value for key, value in details.items() if value not in ("", 0)},
            }
        )

    for event in events.host:
        add(
            host, event.thread, event.name, event.begin, event.end,
            kind=event.kind, line=event.line, bytes=event.bytes,
        )  # fmt: skip
    for run in events.runs:
        name = f"program {run.number}, {run.calls} operations"
        add(_DEVICE, _PROGRAMS, name, run.begin, run.end, launched_at=run.line)
    for kernel in events.kernels:
        add(
            _DEVICE, _KERNELS, kernel.name, kernel.begin, kernel.end,
            module=kernel.module, line=kernel.line, result=kernel.shape,
            bytes=kernel.dma_bytes, flops=kernel.flops,
        )  # fmt: skip
    for span in events.cores:
        name = "barrier" if span.kernel < 0 else events.kernels[span.kernel].name
        add(_DEVICE, _FIRST_CORE + span.core, name, span.begin, span.end)
    used = 0
    for change in events.memory:
        used += change.bytes
        rows.append(
            {
                "ph": "C",
                "pid": _DEVICE,
                "name": "memory taken since the start",
                "ts": (change.time - events.begin) / 1e3,
                "args": {"bytes": used},
            }
        )
    return {"traceEvents": rows, "displayTimeUnit": "ms"}


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, object]:
    return {"ph": "M", "pid": process, "tid": thread, "name": kind, "args": {"name": name}}
