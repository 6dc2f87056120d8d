"""What a machine must do to be compatible: instructions, ops and models, run on it and compared.

What is right comes from elsewhere: an instruction's example carries its results, and programs are
compared with what upstream MLIR and LLVM compute from the same linalg.
"""

from __future__ import annotations

from ftm_backend.conformance.checks import run_all
from ftm_backend.conformance.outcome import CheckOutcome, report

__all__ = ["CheckOutcome", "report", "run_all"]
