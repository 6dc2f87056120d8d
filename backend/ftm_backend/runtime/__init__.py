"""Runs packaged models with numpy alone: no torch and no MLIR in the process.

from ftm_backend import runtime

model = runtime.load("model.ftm")
y = model(x)                    # numpy arrays
"""

from __future__ import annotations

from ftm_backend.runtime.package_file import PackageError
from ftm_backend.runtime.packaged_model import INSTRUCTION_LIMIT, PackagedModel, load

__all__ = ["INSTRUCTION_LIMIT", "PackageError", "PackagedModel", "load"]
