"""torch_xla's environment variables: those with an effect on ftm, and a warning about others."""

from __future__ import annotations

import os
import warnings

__all__ = ["UNDERSTOOD", "table", "warn_of_variables"]

UNDERSTOOD = {
    "ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB": "size of the buckets in which gradients are reduced",
    "CPU_NUM_DEVICES": "number of processes that `launch` starts",
    "GPU_NUM_DEVICES": "number of processes that `launch` starts",
    "NEURONCORE_NUM_DEVICES": "number of processes that `launch` starts",
    "PJRT_DEVICE": "result of `runtime.device_type()`",
    "PJRT_LOCAL_PROCESS_COUNT": "set by `launch` in its processes",
    "PJRT_LOCAL_PROCESS_RANK": "set by `launch` in its processes",
    "PT_XLA_DEBUG": "the same as PT_XLA_DEBUG_LEVEL=1",
    "PT_XLA_DEBUG_FILE": "file for these analyses, instead of stderr",
    "PT_XLA_DEBUG_LEVEL": "1: an analysis of each program that is new to the process; 2: also of "
    "the programs that ran, at each `sync`",
    "RATE_TRACKER_SMOOTHING": "smoothing factor of `RateTracker`",
    "TPU_NUM_DEVICES": "number of processes that `launch` starts",
    "XLA_EMIT_STEPLOG": "a line on stderr for each `sync`",
    "XLA_HLO_DEBUG": "errors of a running program name the Python line (FTM_DEBUG=locations)",
    "XLA_IR_DEBUG": "errors of a running program name the Python line (FTM_DEBUG=locations)",
    "XLA_MAX_ASYNC_QUEUE": "maximum number of queued asynchronous closures",
    "XLA_METRICS_FILE": "file to which `sync` appends the metrics, or STDERR or STDOUT",
    "XLA_PERSISTENT_CACHE_PATH": "the same as FTM_CACHE_DIR",
    "XLA_PERSISTENT_CACHE_READ_ONLY": "programs are read from that directory, and none is stored",
    "XLA_SAVE_TENSORS_FILE": "file to which each program that is new to the process is appended",
    "XLA_SAVE_TENSORS_FMT": "format of that file: text (the trace) or hlo (MLIR)",
    "XLA_SYNC_WAIT": "each `sync` waits for the programs",
    "XLA_USE_EAGER_DEBUG_MODE": "the same as `experimental.eager_mode(True)` (FTM_TRACE_LIMIT=1)",
    "XLA_USE_SPMD": "result of `runtime.is_spmd()`",
}
"""Variable to its effect on ftm."""

_PREFIXES = ("XLA_", "PJRT_", "PT_XLA_", "LIBTPU_", "TPU_", "XRT_")


def warn_of_variables() -> None:
    """Set the settings of ftm that variables correspond to, and warn about those without effect."""
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
            f"{', '.join(unknown)}: variables of torch_xla without effect on ftm"
            " (docs/torch_xla.md lists those that have one)",
            UserWarning,
            stacklevel=3,
        )


def table() -> str:
    """Return the Markdown table of the variables for ``docs/torch_xla.md``."""
    rows = "".join(f"| `{name}` | {effect} |\n" for name, effect in UNDERSTOOD.items())
    return "| Variable | Effect on ftm |\n|---|---|\n" + rows
