"""The only importer of MLIR's Python bindings.

MLIR comes with the ``torch-mlir`` wheel, which contains all of upstream MLIR. Nothing else in
``ftm_backend`` imports ``torch_mlir``, so the bindings can be replaced in one place. Compiling a
trace to assembly does not use them, so an installation may lack them.

Importing the bindings takes about half a second, and the user's process imports modules such as the
op records without ever building IR. Attributes therefore load on first use: ``from ftm_backend
import mlir`` is free, ``mlir.ir`` imports.
"""

from __future__ import annotations

import importlib
from typing import Any

from ftm_backend import optional_packages
from ftm_backend.mlir_stubs import Module

_MODULES = {
    "ir": "torch_mlir.ir",
    "bindings": "torch_mlir._mlir_libs._mlir",
    "rewrite": "torch_mlir.rewrite",
    "passmanager": "torch_mlir.passmanager",
    "execution_engine": "torch_mlir.execution_engine",
    "arith": "torch_mlir.dialects.arith",
    "bufferization": "torch_mlir.dialects.bufferization",
    "ext": "torch_mlir.dialects.ext",
    "func": "torch_mlir.dialects.func",
    "linalg": "torch_mlir.dialects.linalg",
    "math": "torch_mlir.dialects.math",
    "memref": "torch_mlir.dialects.memref",
    "scf": "torch_mlir.dialects.scf",
    "tensor": "torch_mlir.dialects.tensor",
    "torch": "torch_mlir.dialects.torch",
}


def __getattr__(name: str) -> Any:
    target = _MODULES.get(name)
    if target is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with optional_packages.needed("reading, verifying or converting MLIR"):
        module = importlib.import_module(target)
    globals()[name] = module
    return module


def context() -> Any:
    """Create an MLIR context with the upstream dialects, ``torch`` and ``ftm`` loaded.

    Returns:
        torch_mlir.ir.Context: Enter it (``with``) before building or parsing IR.
    """
    ir = __getattr__("ir")
    torch = __getattr__("torch")
    ctx = ir.Context()
    with ctx, ir.Location.unknown():
        torch.register_dialect(ctx)
    ctx.allow_unregistered_dialects = True
    importlib.import_module("ftm_backend.ir.ftm_tensor_dialect").register()
    return ctx


def run_passes(module: Module, pipeline: str) -> None:
    """Run an upstream pass pipeline, in MLIR's textual syntax, on `module` in place."""
    passmanager = __getattr__("passmanager")
    passmanager.PassManager.parse(pipeline, context=module.context).run(module.operation)
