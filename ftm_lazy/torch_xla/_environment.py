"""The environment variables of torch_xla: what is understood, and a warning, once, of those that
have no effect."""

from __future__ import annotations

import os
import warnings

__all__ = ["UNDERSTOOD", "table", "warn_of_variables"]

UNDERSTOOD = {
    "ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB": "how much of the gradients travels at once",
    "CPU_NUM_DEVICES": "processes that `launch` starts",
    "GPU_NUM_DEVICES": "processes that `launch` starts",
    "NEURONCORE_NUM_DEVICES": "processes that `launch` starts",
    "PJRT_DEVICE": "what `runtime.device_type()` says",
    "PJRT_LOCAL_PROCESS_COUNT": "set by `launch` in its processes",
    "PJRT_LOCAL_PROCESS_RANK": "set by `launch` in its processes",
    "PT_XLA_DEBUG": "as PT_XLA_DEBUG_LEVEL=1",
    "PT_XLA_DEBUG_FILE": "where these analyses go, instead of stderr",
    "PT_XLA_DEBUG_LEVEL": "1: an analysis of each program that is new to the process; 2: of what ran as well, at each `sync`",
    "RATE_TRACKER_SMOOTHING": "of `RateTracker`",
    "TPU_NUM_DEVICES": "processes that `launch` starts",
    "XLA_EMIT_STEPLOG": "a line on stderr for each `sync`",
    "XLA_HLO_DEBUG": "errors of a running program name the Python line (FTM_DEBUG=locations)",
    "XLA_IR_DEBUG": "errors of a running program name the Python line (FTM_DEBUG=locations)",
    "XLA_MAX_ASYNC_QUEUE": "asynchronous closures that may wait",
    "XLA_METRICS_FILE": "where `sync` appends the metrics; STDERR and STDOUT as well",
    "XLA_PERSISTENT_CACHE_PATH": "FTM_CACHE_DIR",
    "XLA_PERSISTENT_CACHE_READ_ONLY": "programs are found there, and none is stored",
    "XLA_SAVE_TENSORS_FILE": "where each program that is new to the process is appended",
    "XLA_SAVE_TENSORS_FMT": "of it: text (the trace) or hlo (MLIR)",
    "XLA_SYNC_WAIT": "each `sync` waits",
    "XLA_USE_EAGER_DEBUG_MODE": "as `experimental.eager_mode(True)` (FTM_TRACE_LIMIT=1)",
    "XLA_USE_SPMD": "`runtime.is_spmd()`",
}
"""Variable to what it does here."""

_PREFIXES = ("XLA_", "PJRT_", "PT_XLA_", "LIBTPU_", "TPU_", "XRT_")


def warn_of_variables() -> None:
    """Translate the variables that stand for settings of ftm, and warns of those that have no
    effect."""
    if os.environ.get("XLA_PERSISTENT_CACHE_PATH"):
        os.environ.setdefault("FTM_CACHE_DIR", os.environ["XLA_PERSISTENT_CACHE_PATH"])
        if os.environ.get("XLA_PERSISTENT_CACHE_READ_ONLY") == "1":
            os.environ.setdefault("FTM_CACHE_SIZE", "0")
    if os.environ.get("XLA_IR_DEBUG") == "1" or os.environ.get("XLA_HLO_DEBUG") == "1":
        os.environ.setdefault("FTM_DEBUG", "locations")
    if os.environ.get("XLA_USE_EAGER_DEBUG_MODE") == "1":
        os.environ.setdefault("FTM_TRACE_LIMIT", "1")
    unknown = sorted(
        name for name in os.environ if name.startswith(_PREFIXES) and name not in UNDERSTOOD
    )
    if unknown:
        warnings.warn(
            f"{', '.join(unknown)}: of torch_xla, and without effect on ftm (docs/torch_xla.md lists those that have one)",
            UserWarning,
            stacklevel=3,
        )


def table() -> str:
    """Return the table of the variables in ``docs/torch_xla.md``."""
    rows = "".join(f"| `{name}` | {effect} |\n" for name, effect in UNDERSTOOD.items())
    return "| Variable | What it does on ftm |\n|---|---|\n" + rows
