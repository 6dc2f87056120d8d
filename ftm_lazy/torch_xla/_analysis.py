"""torch_xla's debug output, enabled by environment variables.

- ``PT_XLA_DEBUG_LEVEL``: an analysis of each compilation (1) and of each step (2).
- ``XLA_SAVE_TENSORS_FILE``: the text of each program.
- ``XLA_EMIT_STEPLOG``: a line for each step.
"""

from __future__ import annotations

import itertools
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from ftm_backend.ir.trace.trace import Trace
from ftm_lazy import _C
from ftm_lazy.compile import compile_client
from ftm_lazy.torch_xla import _world

__all__ = ["end_of_step", "install", "level"]

_RULE, _THIN = "=" * 80, "-" * 80
_FRAMES = 8  # stack frames shown
_PACKAGE = str(Path(__file__).parent)
_FTM_LAZY = str(Path(__file__).parent.parent)
_CAUSES = (
    (("parallel_loader.py",), "sync in parallel loader at step end"),
    (("profiler.py",), "exiting a profiler StepTrace region"),
    (("dynamo.py",), "dynamo is executing a compiled program"),
    (("_steps.py",), "user sync"),
)
"""(files, cause): the first entry with a file on the stack is the cause of the compilation."""

_steps = itertools.count(1)
_launched = 0  # programs launched up to the last step's end


def level() -> int:
    """Return ``PT_XLA_DEBUG_LEVEL``; if unset, 1 for ``PT_XLA_DEBUG=1``, else 0.

    Raises:
        ValueError: The value is not an integer.
    """
    given = os.environ.get("PT_XLA_DEBUG_LEVEL")
    if given is None:
        return int(os.environ.get("PT_XLA_DEBUG", "0") in ("1", "true", "True"))
    try:
        return int(given)
    except ValueError:
        raise ValueError(f"PT_XLA_DEBUG_LEVEL is 0, 1 or 2, not {given!r}") from None


def install() -> None:
    """Register the watchers of compiled traces that the environment enables."""
    if os.environ.get("XLA_SAVE_TENSORS_FILE"):
        compile_client.client().watch(_save)
    if level() >= 1:
        compile_client.client().watch(_analyse_compilation)


def end_of_step() -> None:
    """Print the step's line and its analysis, if enabled; called at the end of `sync`."""
    global _launched
    if os.environ.get("XLA_EMIT_STEPLOG") == "1":
        print(
            f"*** step {next(_steps)}: {_C._launches()} programs launched so far", file=sys.stderr
        )
    if level() >= 2:
        launched, _launched = _C._launches() - _launched, _C._launches()
        if launched:
            _write(
                "Execution",
                _stack(),
                [
                    "Graph Info:",
                    f"  Programs since the last sync: {launched}",
                    f"  Graph Hash: {_C._last_program()}",
                ],
            )


def _analyse_compilation(trace: Trace) -> None:
    info = [
        "Graph Info:",
        f"  Graph Hash: {trace.hash()}",
        f"  Number of Graph Inputs: {len(trace.params)}",
        f"  Number of Graph Outputs: {len(trace.results)}",
    ]
    _write("Compilation", _stack(), info)


def _stack() -> list[traceback.FrameSummary]:
    """Return the frames of the caller, innermost first, without this module and the client."""
    hidden = (__file__, compile_client.__file__)
    return [frame for frame in reversed(traceback.extract_stack()) if frame.filename not in hidden]


def _cause(stack: Sequence[traceback.FrameSummary]) -> str:
    ftm_files = {
        Path(frame.filename).name for frame in stack if frame.filename.startswith(_FTM_LAZY)
    }
    package_files = {
        Path(frame.filename).name for frame in stack if frame.filename.startswith(_PACKAGE)
    }
    for files, cause in _CAUSES:
        if package_files.intersection(files):
            return cause
    if "registration.py" in ftm_files:
        return "the end of optimizer.step()"
    return "most likely user code trying to access tensor value before sync"


def _write(event: str, stack: Sequence[traceback.FrameSummary], info: Sequence[str]) -> None:
    frames = [f"  {frame.name} ({frame.filename}:{frame.lineno})" for frame in stack[:_FRAMES]]
    lines = [
        _RULE,
        f"{event} Cause",
        f"  {_cause(stack)}",
        *info,
        "Python Frame Triggered Execution:",
        *frames,
        *(["  .........."] if len(stack) > _FRAMES else []),
        _THIN,
        _RULE,
    ]
    text = "".join(f"{event} Analysis: {line}\n" for line in lines)
    name = os.environ.get("PT_XLA_DEBUG_FILE")
    if name:
        _append(name, text)
    else:
        print(text, end="", file=sys.stderr, flush=True)


def _save(trace: Trace) -> None:
    shape = os.environ.get("XLA_SAVE_TENSORS_FMT", "text")
    if shape not in ("text", "hlo"):
        raise ValueError(f"XLA_SAVE_TENSORS_FMT is text or hlo, not {shape!r}")
    text = str(trace) if shape == "text" else compile_client.client().texts(trace)["linalg"]
    frames = "\n".join(
        f"  {frame.name} ({frame.filename}:{frame.lineno})" for frame in _stack()[:_FRAMES]
    )
    _append(
        os.environ["XLA_SAVE_TENSORS_FILE"],
        f"[ScheduleSyncTensorsGraph]\nTensorsGraphInfo:\n{frames}\n\n{text}\n",
    )


def _append(name: str, text: str) -> None:
    """Append to a file; with several processes each has its own, named by its ordinal."""
    with open(f"{name}.{_world.local_ordinal()}" if _world.size() > 1 else name, "a") as file:
        file.write(text)
