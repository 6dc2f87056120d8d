"""Writes the body of ``ftm.map`` as map operations on virtual vector registers.

Registers are numbered in order of definition, each written once; equal operations are written once; what no
result needs is left out.  Scalars captured from outside become operands (``s0``, ``r3``, immediates); scalar
arithmetic outside of the map that the body captures is repeated inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ftm_backend.codegen.index import Expr
from ftm_backend.codegen.tree import Use
from ftm_backend.mlir import ir

__all__ = ["BodyWriter", "ElementError", "Operand", "suffix"]

REGISTERS = 1024
"""Names of vector registers in a map body."""

_SUFFIXES = {
    "f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "i64": "I64", "i32": "I32", "i16": "I16",
    "i8": "I8", "i1": "B1", "index": "I64",
}


class ElementError(ValueError):
    """An operation that map bodies cannot express."""


class Operand(NamedTuple):
    """A source of a map operation: its text, or the index expression that a register will hold.

    kind: ``v`` (register), ``immediate``, ``s`` (program scalar) or ``r`` (index expression).
    """

    text: str | Use
    kind: str


def suffix(kind: Any) -> str:
    """The type suffix of a map operation for an MLIR element type."""
    found = _SUFFIXES.get(str(kind))
    if found is None:
        raise ElementError(f"map bodies have no elements of type {kind}: use {', '.join(_SUFFIXES)}")
    return found


def _shortest(value: float, kind: str) -> str:
    """The shortest number that reads back as ``value`` after rounding to type ``kind``."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "nan", "inf": "inf", "-inf": "-inf"}[str(float(value))]
    if kind == "F32":
        short = repr(float(str(np.float32(value))))
        if np.float32(float(short)) == np.float32(value):
            return short
    return repr(float(value))


class BodyWriter:
    """Collects the lines of one map body.

    index_of: gives the index expression of an ``index`` value defined outside of the map, or None.
    """

    def __init__(self, index_of: Callable[[ir.Value], Expr | None], rules: dict[str, Callable[..., Operand]]) -> None:
        self._index_of = index_of
        self._rules = rules
        self._values: dict[ir.Value, Operand] = {}
        self._lines: dict[tuple[Any, ...], Operand] = {}
        self._keys: dict[Operand, tuple[Any, ...]] = {}
        self._registers = 0
        self.uses: dict[ir.Value, int] = {}
        self.gathers: list[str] = []
        """Symbols of the buffers that the body reads element by element."""

    # --- building ---------------------------------------------------------------------------------------

    def register(self) -> Operand:
        """A new vector register."""
        if self._registers == REGISTERS:
            raise ElementError(f"a map body needs more than {REGISTERS} values: split the kernel")
        self._registers += 1
        return Operand(f"v{self._registers - 1}", "v")

    def bind(self, value: ir.Value, operand: Operand) -> None:
        """Says where ``value`` is."""
        self._values[value] = operand

    def emit(self, mnemonic: str, *sources: Operand | str) -> Operand:
        """One operation; gives its result, or that of an equal one before."""
        key = mnemonic, *sources
        result = self._lines.get(key)
        if result is None:
            result = self._lines[key] = self.register()
            self._keys[result] = key
        else:
            self._keys.pop(result, None)
        return result

    def take(self, result: Operand, mnemonic: str) -> list[Operand] | None:
        """Removes the line that computes ``result`` and gives its sources.

        None if that line has another mnemonic or stands for several equal operations.
        """
        key = self._keys.get(result)
        if key is None or key[0] != mnemonic:
            return None
        del self._lines[key], self._keys[result]
        return [source if isinstance(source, Operand) else Operand(source, "immediate") for source in key[1:]]

    def immediate(self, value: float | int, kind: str) -> Operand:
        """A constant of type suffix ``kind``."""
        text = _shortest(value, kind) if kind in ("F64", "F32", "F16", "BF16") else str(int(value))
        return Operand(text, "immediate")

    def operand(self, value: ir.Value) -> Operand:
        """Where ``value`` is; captured scalar arithmetic is written into the body first."""
        found = self._values.get(value)
        if found is None:
            found = self._values[value] = self._capture(value)
        return found

    def _capture(self, value: ir.Value) -> Operand:
        if isinstance(value.type, ir.IndexType):
            expr = self._index_of(value)
            if expr is not None:
                if expr.constant is not None:
                    return self.immediate(expr.constant, "I64")
                return Operand(Use(expr), "r")
        if isinstance(value.owner, ir.Block):
            raise ElementError("a map body may capture scalars and indices only, not an argument of a block")
        return self.write(value.owner)

    def write(self, operation: Any) -> Operand:
        """Writes one element operation and gives its result."""
        rule = self._rules.get(operation.name)
        if rule is None:
            raise ElementError(f"no map operation computes {operation.name!r}: lower it to arith or math before")
        result = self._values[operation.results[0]] = rule(self, operation)
        return result

    # --- a whole body -----------------------------------------------------------------------------------

    def run(self, block: ir.Block) -> list[Operand]:
        """Writes the body of a map; gives the registers of its results, in order."""
        operations = list(block.operations)
        results = list(operations.pop().operands)
        for value in results:
            self.uses[value] = self.uses.get(value, 0) + 1
        needed = []
        for operation in reversed(operations):
            if any(result in self.uses for result in operation.results):
                needed.append(operation)
                for value in operation.operands:
                    self.uses[value] = self.uses.get(value, 0) + 1
        for operation in reversed(needed):
            self.write(operation)
        return [self._placed(value) for value in results]

    def _placed(self, value: ir.Value) -> Operand:
        operand = self.operand(value)
        return operand if operand.kind == "v" else self.emit(f"VMOV.{suffix(value.type)}", operand)

    def parts(self, indent: str) -> list[str | Use]:
        """The lines as text with open index expressions."""
        parts: list[str | Use] = []
        for (mnemonic, *sources), result in self._lines.items():
            parts.append(f"{indent}{mnemonic} ")
            for source in sources:
                parts += [source.text if isinstance(source, Operand) else source, ", "]
            parts.append(f"{result.text}\n")
        return parts
