"""Programs for the tests of contractions and row kernels: linalg text, and the way from it to
results.

Every program goes through the whole midend, emission, the assembler and the checked emulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from emulation import run_assembly
from ftm_backend import codegen
from ftm_backend.midend import pipeline
from ftm_backend.target import presets
from ftm_backend.target.presets import MachineParameters

HOST = presets.load("host")
SMALL = replace(HOST, am_bytes=16 * 1024, sm_bytes=4 * 1024)
"""Scratchpads so small that every loop of the nest has several trips."""
OVERLAPPED = replace(SMALL, am_bytes=24 * 1024, dma_overlaps=True, cores=3)

NUMPY = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32,
    "i8": np.int8,
}  # fmt: skip


def tensor(shape: Sequence[int], dtype: str = "f32") -> str:
    """The MLIR type of a tensor."""
    return f"tensor<{''.join(f'{n}x' for n in shape)}{dtype}>"


def assembly(text: str, machine: MachineParameters = HOST) -> str:
    """The assembly of linalg ``text``."""
    kernels = pipeline.run(pipeline.LINALG.read(text, machine), machine)
    return str(codegen.pipeline.run(kernels, machine))


def run(
    text: str, inputs: Sequence[np.ndarray], machine: MachineParameters = HOST, cores: int = 2
) -> list[np.ndarray]:
    """Results of linalg ``text`` on ``inputs``, computed by the checked emulator."""
    return run_assembly(assembly(text, machine), inputs, cores=cores)


def zeros(name: str, shape: Sequence[int], dtype: str) -> str:
    """Lines that define ``%name``, a tensor of zeros."""
    kind, zero = tensor(shape, dtype), "0.0" if "f" in dtype else "0"
    return f"""
  %{name}_z = arith.constant {zero} : {dtype}
  %{name}_e = tensor.empty() : {kind}
  %{name} = linalg.fill ins(%{name}_z : {dtype}) outs(%{name}_e : {kind}) -> {kind}"""


def product(
    name: str,
    a: tuple[str, str, str],
    b: tuple[str, str, str],
    init: str,
    out: tuple[str, str],
    loops: str,
    reduced: str,
    dtype: str = "f32",
    accumulator: str | None = None,
) -> str:
    """Lines that define ``%name`` as ``init + sum(a * b)``.

    Args:
        a, b: name, type and map results of each operand.
        init: name of the initial value.
        out: type and map results of the result.
        loops, reduced: comma-separated names of all loops, and of those that are reduced.
    """
    accumulator = accumulator or dtype
    kinds = ", ".join(
        f'"{"reduction" if d in reduced.split(",") else "parallel"}"' for d in loops.split(",")
    )
    maps = ", ".join(f"affine_map<({loops}) -> ({results})>" for results in (a[2], b[2], out[1]))
    f = "f" if "f" in dtype else "i"
    widen = ""
    left, right = "%left", "%right"
    if accumulator != dtype:
        op = "arith.extf" if f == "f" else "arith.extsi"
        widen = f"""
    %wide_left = {op} %left : {dtype} to {accumulator}
    %wide_right = {op} %right : {dtype} to {accumulator}"""
        left, right = "%wide_left", "%wide_right"
    return f"""
  %{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
      ins(%{a[0]}, %{b[0]} : {a[1]}, {b[1]}) outs(%{init} : {out[0]}) {{
  ^bb0(%left: {dtype}, %right: {dtype}, %sum: {accumulator}):{widen}
    %term = arith.mul{f} {left}, {right} : {accumulator}
    %next = arith.add{f} %sum, %term : {accumulator}
    linalg.yield %next : {accumulator}
  }} -> {out[0]}"""


def einsum(
    equation: str, extents: dict[str, int], dtype: str = "f32", accumulator: str | None = None
) -> str:
    """A program that computes a two-operand einsum."""
    operands, result = equation.split("->")
    left, right = operands.split(",")
    accumulator = accumulator or dtype
    shapes = [[extents[d] for d in dims] for dims in (left, right, result)]
    ta, tb, tc = tensor(shapes[0], dtype), tensor(shapes[1], dtype), tensor(shapes[2], accumulator)
    loops = dict.fromkeys(result + left + right)
    reduced = [d for d in loops if d not in result]
    body = product(
        "r",
        ("a", ta, ", ".join(left)),
        ("b", tb, ", ".join(right)),
        "i",
        (tc, ", ".join(result)),
        ",".join(loops),
        ",".join(reduced),
        dtype,
        accumulator,
    )
    return f"""func.func @main(%a: {ta}, %b: {tb}) -> {tc} {{{zeros("i", shapes[2], accumulator)}{body}
  return %r : {tc}
}}"""
