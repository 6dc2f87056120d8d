"""Front end of the compiler: trace -> torch dialect -> linalg.

In the order in which data goes through: `trace.py` (the recorded program, its text and hash), `complex_pairs.py`
(complex tensors become real ones), `importer.py` (to the torch dialect, from the schema), `lowering.py` (to linalg, by the
op records in `ops/`).
"""

from __future__ import annotations

from typing import Any

from ftm_backend.frontend.trace import Trace, TraceError

__all__ = ["Trace", "TraceError", "import_trace", "lower_to_linalg"]


def import_trace(trace: Trace, locations: Any = None) -> Any:
    """Trace -> module of the torch dialect, in the current MLIR context; see `importer.import_trace`."""
    from ftm_backend.frontend import complex_fft, complex_index, complex_ops, complex_pairs, importer  # noqa: F401  (registers the rewrites)

    trace, origins = complex_pairs.as_pairs(trace)
    return importer.import_trace(trace, None if locations is None else [locations[k] for k in origins])


def lower_to_linalg(module: Any) -> Any:
    """Module of the torch dialect -> new module of linalg on tensors; see `lowering.lower_to_linalg`."""
    from ftm_backend.frontend import lowering

    return lowering.lower_to_linalg(module)
