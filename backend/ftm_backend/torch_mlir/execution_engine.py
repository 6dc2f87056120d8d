"""Executes linalg by upstream MLIR: bufferization, loops, LLVM, just-in-time compilation.

It shares nothing with midend, code generation or machine, so it checks the front half of the
compiler independently. The tensor-level ``ftm`` operations are first rewritten to upstream ones
(`lower_ftm_dialect`).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

import numpy as np

from ftm_backend import mlir
from ftm_backend.dtypes import DTYPES
from ftm_backend.mlir_stubs import Module, Operation
from ftm_backend.torch_mlir import lower_ftm_dialect, philox

TO_MEMORY = """builtin.module(
  func.func(linalg-generalize-named-ops), canonicalize, cse,
  one-shot-bufferize{bufferize-function-boundaries
    function-boundary-type-conversion=identity-layout-map})"""

TO_LLVM = """builtin.module(
  func.func(convert-linalg-to-loops), expand-strided-metadata, lower-affine, canonicalize,
  convert-scf-to-cf, arith-expand{include-bf16=true}, convert-math-to-llvm, convert-math-to-libm,
  convert-arith-to-llvm, finalize-memref-to-llvm, convert-func-to-llvm, convert-index-to-llvm,
  convert-cf-to-llvm,
  reconcile-unrealized-casts)"""


# LLVM calls its conversions of half types by name.
_LIBGCC = ctypes.CDLL("libgcc_s.so.1", ctypes.RTLD_GLOBAL)


@ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)
def _to_bf16(number: float) -> float:
    """``__truncsfbf2``, which LLVM calls on processors without the instruction.

    libgcc has it from version 13 on. The result's bits are the lower half of a float's, since it is
    returned in a vector register.
    """
    (bits,) = struct.unpack("I", struct.pack("f", number))
    rounded = bits >> 16 | 0x40 if number != number else bits + 0x7FFF + (bits >> 16 & 1) >> 16
    result: float = struct.unpack("f", struct.pack("I", rounded))[0]
    return result


class EngineProgram:
    """Compiled functions from tensors and scalars to tensors.

    Args:
        module: Linalg on tensors; every function has one block and takes its tensors before its
            scalars.
        optimize: Let LLVM optimize. Without it, compilation takes half the time: better for small
            inputs.
    """

    def __init__(self, module: Module, optimize: bool = True) -> None:
        ir = mlir.ir
        self.results: dict[str, list[tuple[tuple[int, ...], str]]] = {}
        self.scalars: dict[str, list[str]] = {}
        with module.context, ir.Location.unknown():
            work = ir.Module.parse(str(module))
            lower_ftm_dialect.to_upstream(work)
            for function in list(work.body.operations):
                name = ir.StringAttr(function.attributes["sym_name"]).value
                if name != philox.NAME:
                    self._add_function(name, function)
            work.operation.verify()
            mlir.run_passes(work, TO_MEMORY)
            _copies_to_loops(work)
            mlir.run_passes(work, TO_LLVM)
            self.engine = mlir.execution_engine.ExecutionEngine(work, opt_level=int(optimize))
            if not hasattr(_LIBGCC, "__truncsfbf2"):
                self.engine.raw_register_runtime(
                    "__truncsfbf2", ctypes.cast(_to_bf16, ctypes.c_void_p)
                )

    def _add_function(self, name: str, function: Operation) -> None:
        """Record the signature, and turn results into trailing memref arguments."""
        ir = mlir.ir
        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        block = function.regions[0].blocks[0]
        end = list(block.operations)[-1]
        self.results[name] = [
            (tuple(t.shape), str(t.element_type)) for t in map(ir.RankedTensorType, kind.results)
        ]
        self.scalars[name] = [str(t) for t in kind.inputs if str(t) in ("f64", "i64")]
        outs = [
            ir.MemRefType.get(shape, ir.Type.parse(element))
            for shape, element in self.results[name]
        ]
        with ir.InsertionPoint(end):
            for value, out in zip(list(end.operands), outs, strict=True):
                target = block.add_argument(out, ir.Location.unknown())
                unit = {"restrict": ir.UnitAttr.get(), "writable": ir.UnitAttr.get()}
                ir.Operation.create(
                    "bufferization.materialize_in_destination", [], [value, target], unit
                )
            ir.Operation.create("func.return", [], [])
        end.operation.erase()
        function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get([*kind.inputs, *outs], [])
        )
        function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()

    def run(
        self, name: str, inputs: Sequence[np.ndarray], scalars: Sequence[float | int]
    ) -> list[np.ndarray]:
        """Call a function.

        Args:
            name: Name of the function.
            inputs: Arrays with the element bytes of their dtype (bf16: uint16).
            scalars: Runtime scalars.

        Returns:
            One array per result.
        """
        outputs = [
            np.zeros(shape, dtype=DTYPES[element].numpy) for shape, element in self.results[name]
        ]
        inputs = [np.ascontiguousarray(a).copy().reshape(a.shape) for a in inputs]
        numbers = [
            ctypes.c_double(v) if kind == "f64" else ctypes.c_int64(int(v))
            for v, kind in zip(scalars, self.scalars[name], strict=True)
        ]
        arrays = [ctypes.pointer(_descriptor(a)) for a in (*inputs, *outputs)]
        values = [*arrays[: len(inputs)], *numbers, *arrays[len(inputs) :]]
        packed = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        address = self.engine.raw_lookup("_mlir_ciface_" + name)
        if not address:
            raise RuntimeError(
                f"{name} was not compiled: a symbol that it calls is missing, see standard error"
            )
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(packed)
        return outputs


def _copies_to_loops(module: Module) -> None:
    """Replace memref.copy, whose runtime library the wheel lacks, by linalg.copy."""
    ir = mlir.ir
    copies: list[Operation] = []

    def visit(op: Operation) -> object:
        if op.name == "memref.copy":
            copies.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in copies:
        with ir.InsertionPoint(op), op.location:
            segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])}
            copy = ir.Operation.create("linalg.copy", [], list(op.operands), segments, regions=1)
            mlir.linalg.fill_builtin_region(copy)
        op.erase()


def _descriptor(array: np.ndarray) -> ctypes.Structure:
    """Return the C struct of a memref on ``array``."""
    rank = array.ndim
    fields: list[object] = [
        ("allocated", ctypes.c_void_p),
        ("aligned", ctypes.c_void_p),
        ("offset", ctypes.c_longlong),
    ]
    if rank:
        fields += [("shape", ctypes.c_longlong * rank), ("strides", ctypes.c_longlong * rank)]
    kind = type(f"MemRef{rank}", (ctypes.Structure,), {"_fields_": fields})
    descriptor = kind(array.ctypes.data, array.ctypes.data, 0)
    if rank:
        descriptor.shape = (ctypes.c_longlong * rank)(*array.shape)
        strides = (s // array.itemsize for s in array.strides)
        descriptor.strides = (ctypes.c_longlong * rank)(*strides)
    return descriptor


def run_text(
    text: str, inputs: Sequence[np.ndarray], scalars: Sequence[float | int] = ()
) -> list[np.ndarray]:
    """Execute ``main`` of a linalg module's text; see `EngineProgram.run`."""
    with mlir.context():
        return EngineProgram(mlir.ir.Module.parse(text)).run("main", inputs, scalars)
