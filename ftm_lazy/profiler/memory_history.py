"""A history of the device's memory in the format of PyTorch's viewer (pytorch.org/memory_viz).

`torch.ftm.memory._record_memory_history()` and `_dump_snapshot("snapshot.pickle")` have the names
and the format of `torch.cuda.memory`. Recording is a profile: see `ftm_lazy.profiler`.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from ftm_lazy import _C
from ftm_lazy.device.memory import memory_snapshot
from ftm_lazy.profiler import module_hooks
from ftm_lazy.profiler.events import Events, MemoryEvent, Run

_since: int | None = None


def record_memory_history(enabled: str | None = "all", **options: object) -> None:
    """Begin to record every block that is taken and returned; None ends it.

    Args:
        enabled: ``"all"`` or ``"state"`` to begin, None to end and discard.
        **options: Options of `torch.cuda.memory._record_memory_history`. Ignored: Python lines are
            always recorded, and the history is as long as the memory allows.

    Raises:
        ValueError: ``enabled`` is another value.
    """
    global _since
    del options
    if enabled not in ("all", "state", None):
        raise ValueError(f"enabled is 'all', 'state' or None, not {enabled!r}")
    if _since is not None:
        module_hooks.remove()
        _since = None
        _C._stop_profile()
    if enabled is not None:
        _C._start_profile()
        module_hooks.install()
        _since = time.time_ns()


def snapshot() -> dict[str, object]:
    """Return the blocks and the history since `record_memory_history`, which begins again."""
    global _since
    events = None
    if _since is not None:
        begin, _since = _since, None
        module_hooks.remove()
        events = Events.of(begin, time.time_ns(), threading.get_native_id(), _C._stop_profile())
    segments = memory_snapshot()
    traces: list[list[dict[str, object]]] = [[]]
    if events is not None:
        runs = {run.number: run for run in events.runs}
        traces = [[_entry(event, runs) for event in events.memory]]
        taken = {event.address: event for event in events.memory if event.bytes > 0}
        for segment in segments:
            for block in segment["blocks"]:
                event = taken.get(block["address"])
                if event is not None and block["state"] == "active_allocated":
                    block["frames"] = _frames(event, runs)
        record_memory_history()
    return {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": {},
        "external_annotations": [],
    }


def dump_snapshot(filename: str | Path = "dump_snapshot.pickle") -> None:
    """Write `snapshot` to a file for PyTorch's viewer."""
    with Path(filename).open("wb") as file:
        pickle.dump(snapshot(), file)


def _entry(event: MemoryEvent, runs: Mapping[int, Run]) -> dict[str, object]:
    return {
        "action": "alloc" if event.bytes > 0 else "free_completed",
        "addr": event.address,
        "size": abs(event.bytes),
        "stream": 0,
        "time_us": event.time // 1000,
        "frames": _frames(event, runs),
    }


def _frames(event: MemoryEvent, runs: Mapping[int, Run]) -> list[dict[str, object]]:
    """Return where the owner of a block was recorded, as one frame of a stack."""
    run = runs.get(event.run)
    if run is None:
        return []
    if not 0 <= event.result < len(run.results):
        return [{"filename": "", "line": 0, "name": "scratch memory of a program"}]
    module, line, is_backward = run.results[event.result]
    file, _, number = line.rpartition(":")
    name = (module or "outside of modules") + (" (backward)" if is_backward else "")
    return [{"filename": file, "line": int(number or 0), "name": name}]
