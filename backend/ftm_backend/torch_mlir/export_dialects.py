"""A trace as text of the dialects that other compilers take, by torch-mlir's own conversions."""

from __future__ import annotations

import re

from ftm_backend import driver, mlir
from ftm_backend.frontend import Trace, import_trace
from ftm_backend.mlir_stubs import Module, Operation
from ftm_backend.torch_mlir.legalize_trace import for_upstream

__all__ = ["DIALECTS", "DialectError", "emit", "parse", "tosa_to_linalg", "upstream_linalg"]

DIALECTS = ("torch", "linalg", "tosa", "stablehlo", "ftm")
"""What `emit` writes; ``linalg`` and ``ftm`` are stages of our own compiler, as it compiles for its
default machine."""

_OWN_STAGES = {"torch": "torch", "linalg": "linalg", "ftm": "assign-buffers"}
"""``ftm`` is the last form in MLIR: kernels in their order, with the memory of their results."""


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
  func.func(tosa-to-arith{include-apply-rescale=true}, tosa-to-tensor, tosa-to-scf), canonicalize, cse)"""

_OURS = re.compile(r'torch\.operator "([\w.]+)"')
_ILLEGAL = re.compile(r"failed to legalize operation '(torch\.[\w.]+)'|(torch\.aten\.[\w.]+)")


class DialectError(ValueError):
    """A program cannot be said in a dialect; the message names the op that stops it, where it is
    one."""


def emit(trace: Trace, dialect: str) -> str:
    """The text of ``trace`` in ``dialect``, read back once before it is given.

    Args:
        trace: verified; without runtime scalars (`Trace.with_scalars`) where the dialect is TOSA or
            StableHLO, whose conversions want to see the numbers.

    Raises:
        DialectError: an unknown dialect, or an op that upstream's conversion does not take.
        CompileError: our own front half fails.
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
    """The trace as linalg by torch-mlir's own lowerings instead of ours, on tensors but for scans
    and the like, which are loops on memory. DialectError as `emit`."""
    with mlir.context(), mlir.ir.Location.unknown():
        module = _converted(trace, "upstream's linalg")
        if "tm_tensor." in str(module):  # a dialect that only torch-mlir's own passes know
            mlir.run_passes(module, _TM_TENSOR_TO_LOOPS)
            _say_who_owns(module)
        return str(module)


def parse(text: str) -> None:
    """Reads a module back; DialectError where it is none."""
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
    """The module, in the context that is entered."""
    module = import_trace(for_upstream(trace))
    ours = sorted(set(_OURS.findall(str(module))))
    if ours:
        raise DialectError(
            f"{', '.join(ours)}: upstream's torch dialect has no such op, so it has no way to {dialect}; only this compiler"
            " lowers it (dialect linalg)"
        )
    for pipeline in (_DECOMPOSED, _CONVERSIONS[dialect]):
        try:
            mlir.run_passes(module, pipeline)
        except mlir.ir.MLIRError as error:
            raise DialectError(
                f"{_culprit(error)}: upstream's conversion to {dialect} does not take it"
            ) from error
    return module


def _say_who_owns(module: Module) -> None:
    """Tensors that stand for memory: nothing else does for the same (each has an allocation of its
    own)."""
    ir = mlir.ir

    def visit(op: Operation) -> object:
        if op.name == "bufferization.to_tensor":
            op.attributes["restrict"] = ir.UnitAttr.get()
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def _culprit(error: Exception) -> str:
    """The op that a failed conversion names."""
    found = _ILLEGAL.search(str(error))
    return (found[1] or found[2]) if found else str(error).strip().splitlines()[0]


def tosa_to_linalg(text: str) -> str:
    """A TOSA module as linalg, by upstream's passes: what `engine.Program` runs. DialectError where
    they fail."""
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
