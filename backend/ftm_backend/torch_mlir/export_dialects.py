"""Exports a trace as text of dialects that other compilers accept, by torch-mlir's conversions."""

from __future__ import annotations

import re

from ftm_backend import driver, mlir
from ftm_backend.frontend import Trace, import_trace
from ftm_backend.mlir_stubs import Module, Operation
from ftm_backend.torch_mlir.legalize_trace import for_upstream

DIALECTS = ("torch", "linalg", "tosa", "stablehlo", "ftm")
"""Dialects that `emit` writes; ``linalg`` and ``ftm`` are our stages for the default machine."""

_OWN_STAGES = {"torch": "torch", "linalg": "linalg", "ftm": "assign-buffers"}
"""``ftm`` is the last stage in MLIR: scheduled kernels with assigned buffers."""


_DECOMPOSED = "builtin.module(torchdynamo-export-to-torch-backend-pipeline)"
_CONVERSIONS = {
    "tosa": "builtin.module(torch-backend-to-tosa-backend-pipeline)",
    "stablehlo": "builtin.module(torch-backend-to-stablehlo-backend-pipeline)",
    "upstream's linalg": "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline)",
}
_TM_TENSOR_TO_LOOPS = "builtin.module(func.func(tm-tensor-bufferize, tm-tensor-to-loops))"
_TOSA_TO_LINALG = """builtin.module(func.func(tosa-optional-decompositions), canonicalize,
  func.func(tosa-infer-shapes, tosa-make-broadcastable, tosa-to-linalg-named), canonicalize,
  func.func(tosa-layerwise-constant-fold, tosa-make-broadcastable), func.func(tosa-to-linalg),
  func.func(tosa-to-arith{include-apply-rescale=true}, tosa-to-tensor, tosa-to-scf),
  canonicalize, cse)"""

_ILLEGAL = re.compile(r"failed to legalize operation '(torch\.[\w.]+)'|(torch\.aten\.[\w.]+)")


class DialectError(ValueError):
    """A dialect cannot express a program; the message names the op, if one is the reason."""


def emit(trace: Trace, dialect: str) -> str:
    """Return the text of ``trace`` in ``dialect``, checked by parsing it.

    Args:
        trace: A verified trace. For TOSA and StableHLO it must have no runtime scalars (see
            `Trace.with_scalars`), because these conversions need the numbers.
        dialect: One of `DIALECTS`.

    Raises:
        DialectError: The dialect is unknown, or upstream's conversion does not support an op.
        CompileError: Our own front end fails.
    """
    if dialect not in DIALECTS:
        raise DialectError(f"there is no dialect {dialect!r}: use one of {', '.join(DIALECTS)}")
    if dialect in _OWN_STAGES:
        text = driver.run_from("trace", str(trace), _OWN_STAGES[dialect])
        assert isinstance(text, str), "these stages are text"
    else:
        text = _convert(trace, dialect)
    parse(text)
    return text


def upstream_linalg(trace: Trace) -> str:
    """Lower a trace to linalg by torch-mlir's lowerings instead of ours; DialectError as `emit`.

    The result is on tensors, except that scans and the like are loops on memory.
    """
    with mlir.context(), mlir.ir.Location.unknown():
        module = _converted(trace, "upstream's linalg")
        if "tm_tensor." in str(module):  # a dialect that only torch-mlir's passes know
            mlir.run_passes(module, _TM_TENSOR_TO_LOOPS)
            _mark_restrict(module)
        return str(module)


def parse(text: str) -> None:
    """Parse a module; raise DialectError if it is none."""
    with mlir.context(), mlir.ir.Location.unknown():
        if "stablehlo." in text:  # the wheel has the dialect, but only its conversion loads it
            mlir.run_passes(
                mlir.ir.Module.parse("func.func @main() { return }"), _CONVERSIONS["stablehlo"]
            )
        try:
            mlir.ir.Module.parse(text)
        except mlir.ir.MLIRError as error:
            raise DialectError(f"the text does not read back: {error}") from error


def _convert(trace: Trace, dialect: str) -> str:
    with mlir.context(), mlir.ir.Location.unknown():
        return str(_converted(trace, dialect))


def _converted(trace: Trace, dialect: str) -> Module:
    """Convert a trace in the current context."""
    module = import_trace(for_upstream(trace))
    ours = _own_ops(module)
    if ours:
        raise DialectError(
            f"{', '.join(ours)}: upstream's torch dialect has no such op, so it has no way to "
            f"{dialect}; only this compiler lowers it (dialect linalg)"
        )
    for pipeline in (_DECOMPOSED, _CONVERSIONS[dialect]):
        try:
            mlir.run_passes(module, pipeline)
        except mlir.ir.MLIRError as error:
            raise DialectError(
                f"{_culprit(error)}: upstream's conversion to {dialect} does not take it"
            ) from error
    return module


def _own_ops(module: Module) -> list[str]:
    """Return the names of the ops that upstream's torch dialect lacks."""
    ir = mlir.ir
    found: set[str] = set()

    def visit(op: Operation) -> object:
        if op.name == "torch.operator":
            found.add(ir.StringAttr(op.attributes["name"]).value)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return sorted(found)


def _mark_restrict(module: Module) -> None:
    """Mark tensors that stand for memory as its only alias: each has its own allocation."""
    ir = mlir.ir

    def visit(op: Operation) -> object:
        if op.name == "bufferization.to_tensor":
            op.attributes["restrict"] = ir.UnitAttr.get()
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def _culprit(error: Exception) -> str:
    """Return the op that a failed conversion names."""
    found = _ILLEGAL.search(str(error))
    return (found[1] or found[2]) if found else str(error).strip().splitlines()[0]


def tosa_to_linalg(text: str) -> str:
    """Convert TOSA to linalg for `execution_engine`; DialectError if upstream's passes fail."""
    with mlir.context(), mlir.ir.Location.unknown():
        module = mlir.ir.Module.parse(text)
        try:
            mlir.run_passes(module, _TOSA_TO_LINALG)
        except mlir.ir.MLIRError as error:
            reason = next(
                (line for line in str(error).splitlines() if line.startswith("error: ")), str(error)
            )
            raise DialectError(
                f"upstream's own conversion from TOSA fails: {reason.rpartition(': ')[2]}"
            ) from error
        return str(module)
