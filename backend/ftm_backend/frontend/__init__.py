"""The compiler's front end: trace to linalg.

In the order of the data: `ir.trace` (the recorded program), `complex/` (splits complex tensors into
real and imaginary parts), `trace_to_linalg.py` (lowers to linalg by the op records in `ops/`). For
other tools, `trace_to_torch_dialect.py` and `torch_dialect_to_trace.py` convert a trace to and from
MLIR's torch dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ftm_backend.ir.trace.trace import Trace, TraceError

if TYPE_CHECKING:
    from ftm_backend.ir.linalg.function import LinalgFunction

__all__ = ["Trace", "TraceError", "import_trace", "lower"]


def import_trace(trace: Trace, locations: Sequence[str] | None = None) -> Any:
    """Convert a trace to a module of the torch dialect, in the current MLIR context.

    Args:
        trace: A verified trace.
        locations: For each node, the user's source line that recorded it; optional.

    Returns:
        The module; see `trace_to_torch_dialect.import_trace`.
    """
    from ftm_backend.frontend import complex, trace_to_torch_dialect

    trace, origins = complex.expand_complex(trace)
    return trace_to_torch_dialect.import_trace(
        trace, None if locations is None else [locations[k] for k in origins]
    )


def lower(trace: Trace) -> LinalgFunction:
    """Lower a verified trace to a `LinalgFunction`; see `trace_to_linalg.lower`."""
    from ftm_backend.frontend import trace_to_linalg

    return trace_to_linalg.lower(trace)
