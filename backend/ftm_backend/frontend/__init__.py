"""Front end of the compiler: trace -> linalg.

In the order in which data goes through: `trace.py` (the recorded program, its text and hash),
`complex/` (complex tensors become real ones), `lowering.py` (to linalg, by the op records in
`ops/`). Beside the way lies the torch dialect, a trace spelled in MLIR for other tools:
`importer.py` writes it, `torch_reader.py` reads it.
"""

from __future__ import annotations

from typing import Any

from ftm_backend.ir.trace.trace import Trace, TraceError

__all__ = ["Trace", "TraceError", "import_trace", "lower"]


def import_trace(trace: Trace, locations: Any = None) -> Any:
    """Trace -> module of the torch dialect, in the current MLIR context; see
    `importer.import_trace`."""
    from ftm_backend.frontend import complex, trace_to_torch_dialect

    trace, origins = complex.as_pairs(trace)
    return trace_to_torch_dialect.import_trace(
        trace, None if locations is None else [locations[k] for k in origins]
    )


def lower(trace: Trace) -> Any:
    """Trace -> `ir.linalg.function.Function`; see `lowering.lower`."""
    from ftm_backend.frontend import trace_to_linalg

    return trace_to_linalg.lower(trace)
