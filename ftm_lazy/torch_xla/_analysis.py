"""What torch_xla tells of a run when the environment asks: an analysis of each compilation and of
each step (``PT_XLA_DEBUG_LEVEL``), the text of each program (``XLA_SAVE_TENSORS_FILE``), a line for
each step (``XLA_EMIT_STEPLOG``).
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from ftm_lazy import _C
from ftm_lazy.compile import compile_client
from ftm_lazy.torch_xla import _world

__all__ = ["end_of_step", "install", "level"]

_RULE, _THIN = "=" * 80, "-" * 80
_FRAMES = 8  # shown of a stack
_PACKAGE = str(Path(__file__).parent)
_OWN = str(Path(__file__).parent.parent)
_CAUSES = (
    (("parallel_loader.py",), "sync in parallel loader at step end"),
    (("profiler.py",), "exiting a profiler StepTrace region"),
    (("dynamo.py",), "dynamo is executing a compiled program"),
    (("_steps.py",), "user sync"),
)
"""Files of ftm on the stack, and what their being there means; the first that fits counts."""

_steps = itertools.count(1)
_launched = 0  # programs at the last step's end


def level() -> int:
    """``PT_XLA_DEBUG_LEVEL``; 1 for ``PT_XLA_DEBUG=1``; 0 where neither is set.

    Raises ValueError if it is no whole number.
    """
    given = os.environ.get("PT_XLA_DEBUG_LEVEL")
    if given is None:
        return int(os.environ.get("PT_XLA_DEBUG", "0") in ("1", "true", "True"))
    try:
        return int(given)
    except ValueError:
        raise ValueError(f"PT_XLA_DEBUG_LEVEL is 0, 1 or 2, not {given!r}") from None


def install() -> None:
    """Watch the programs of this process, if the environment asks for something that is to be
    told of them."""
    if os.environ.get("XLA_SAVE_TENSORS_FILE"):
        compile_client.client().watch(_save)
    if level() >= 1:
        compile_client.client().watch(_analyse_compilation)


def end_of_step() -> None:
    """At the end of `sync`: the line of the step, and the analysis of what ran since the last
    one."""
    global _launched
    if os.environ.get("XLA_EMIT_STEPLOG") == "1":
        print(
            f"*** step {next(_steps)}: {_C._launches()} programs launched so far", file=sys.stderr
        )
    if level() >= 2:
        launched, _launched = _C._launches() - _launched, _C._launches()
        if launched:
            _tell(
                "Execution",
                _stack(),
                [
                    "Graph Info:",
                    f"  Programs since the last sync: {launched}",
                    f"  Graph Hash: {_C._last_program()}",
                ],
            )


def _analyse_compilation(trace: str) -> None:
    inputs = len(re.findall(r"^  %\d+ = param ", trace, re.MULTILINE))
    outputs = len(re.findall(r"%\d+", trace.rpartition("return")[2]))
    info = [
        "Graph Info:",
        f"  Graph Hash: {hashlib.blake2b(trace.encode(), digest_size=16).hexdigest()}",
        f"  Number of Graph Inputs: {inputs}",
        f"  Number of Graph Outputs: {outputs}",
    ]
    _tell("Compilation", _stack(), info)


def _stack() -> list[traceback.FrameSummary]:
    """Return the frames that led here, the innermost first, without this module's and the compiler
    bridge's."""
    hidden = (__file__, compile_client.__file__)
    return [frame for frame in reversed(traceback.extract_stack()) if frame.filename not in hidden]


def _cause(stack: Sequence[traceback.FrameSummary]) -> str:
    own = {Path(frame.filename).name for frame in stack if frame.filename.startswith(_OWN)}
    inside = {Path(frame.filename).name for frame in stack if frame.filename.startswith(_PACKAGE)}
    for files, cause in _CAUSES:
        if inside.intersection(files):
            return cause
    if "registration.py" in own:
        return "the end of optimizer.step()"
    return "most likely user code trying to access tensor value before sync"


def _tell(what: str, stack: Sequence[traceback.FrameSummary], info: Sequence[str]) -> None:
    frames = [f"  {frame.name} ({frame.filename}:{frame.lineno})" for frame in stack[:_FRAMES]]
    lines = [
        _RULE,
        f"{what} Cause",
        f"  {_cause(stack)}",
        *info,
        "Python Frame Triggered Execution:",
        *frames,
        *(["  .........."] if len(stack) > _FRAMES else []),
        _THIN,
        _RULE,
    ]
    text = "".join(f"{what} Analysis: {line}\n" for line in lines)
    name = os.environ.get("PT_XLA_DEBUG_FILE")
    if name:
        _append(name, text)
    else:
        print(text, end="", file=sys.stderr, flush=True)


def _save(trace: str) -> None:
    shape = os.environ.get("XLA_SAVE_TENSORS_FMT", "text")
    if shape not in ("text", "hlo"):
        raise ValueError(f"XLA_SAVE_TENSORS_FMT is text or hlo, not {shape!r}")
    text = trace if shape == "text" else compile_client.client().texts(trace)["linalg"]
    frames = "\n".join(
        f"  {frame.name} ({frame.filename}:{frame.lineno})" for frame in _stack()[:_FRAMES]
    )
    _append(
        os.environ["XLA_SAVE_TENSORS_FILE"],
        f"[ScheduleSyncTensorsGraph]\nTensorsGraphInfo:\n{frames}\n\n{text}\n",
    )


def _append(name: str, text: str) -> None:
    """With several processes each has a file of its own."""
    with open(f"{name}.{_world.local_ordinal()}" if _world.size() > 1 else name, "a") as file:
        file.write(text)
