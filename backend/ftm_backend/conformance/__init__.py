"""Conformance tests for machines: instructions, ops and models are executed and compared.

The expected results come from elsewhere: the example of an instruction has its results, and
programs are compared with upstream MLIR and LLVM on the same linalg.
"""

from __future__ import annotations

from ftm_backend.conformance.checks import run_all
from ftm_backend.conformance.outcome import CheckOutcome, report

__all__ = ["CheckOutcome", "report", "run_all"]
