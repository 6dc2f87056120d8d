"""Writes the body of a map as map operations on virtual vector registers.

Each register is written once, and registers are numbered in order of definition. Equal operations
are written once, dead ones not at all. Runtime scalars, positions and constants become operands
(``s0``, ``r3``, immediates).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import cast

import numpy as np

from ftm_backend.ir.asm import program as p
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.kernel_tree import MapOperand, MapOperation
from ftm_backend.symbolic import SymFloat, SymInt, as_integer, as_symfloat
from ftm_backend.target.element_types import FLOATS, TYPES, VECTOR_REGISTERS

_SUFFIXES = {t.token: t.suffix for t in TYPES if t.kind != "uint"}  # linalg's integers have no sign


class ElementError(ValueError):
    """Map bodies cannot express an operation."""


def suffix(kind: str) -> str:
    """Return the type suffix of map operations for a builtin dtype token: ``F32`` for ``f32``."""
    found = _SUFFIXES.get(kind)
    if found is None:
        raise ElementError(
            f"map bodies have no elements of type {kind}: use {', '.join(_SUFFIXES)}"
        )
    return found


def _shortest(value: float, kind: str) -> float:
    """Return the number with the fewest digits that rounds to ``value`` in type ``kind``."""
    if kind == "F32" and isfinite(value):
        short = float(str(np.float32(value)))
        if np.float32(short) == np.float32(value):
            return short
    return float(value)


_Line = tuple[str, *tuple[MapOperand, ...]]
"""Mnemonic and sources of an operation."""


class BodyWriter:
    """Collects the operations of one map body.

    Args:
        rules: For each operation of a node, the function that writes it as map operations.
        scalars: For each symbol of a runtime scalar, the name of the operand.
    """

    def __init__(
        self, rules: Mapping[str, Callable[..., MapOperand]], scalars: Mapping[str, str]
    ) -> None:
        self._rules = rules
        self.scalars = scalars
        self._values: dict[int, MapOperand] = {}
        self._lines: dict[_Line, p.VectorRegister] = {}
        self._keys: dict[MapOperand, _Line] = {}
        self._registers = 0
        self.uses: dict[int, int] = {}

    # --- building
    # ---------------------------------------------------------------------------------------

    def register(self) -> p.VectorRegister:
        """Allocate a vector register."""
        if self._registers == VECTOR_REGISTERS:
            raise ElementError(
                f"a map body needs more than {VECTOR_REGISTERS} values: split the kernel"
            )
        self._registers += 1
        return p.VectorRegister(self._registers - 1)

    def bind(self, node: Node, operand: MapOperand) -> None:
        """Define the operand that holds the value of ``node``."""
        self._values[id(node)] = operand

    def emit(self, mnemonic: str, *sources: MapOperand | int | float) -> p.VectorRegister:
        """Append an operation and return its result; an equal earlier operation is reused."""
        key: _Line = (
            mnemonic,
            *(p.Immediate(s) if isinstance(s, (int, float)) else s for s in sources),
        )
        result = self._lines.get(key)
        if result is None:
            result = self._lines[key] = self.register()
            self._keys[result] = key
        else:
            self._keys.pop(result, None)
        return result

    def take(self, result: MapOperand, mnemonic: str) -> list[MapOperand] | None:
        """Remove the operation that computes ``result`` and return its sources.

        Returns:
            None if that operation has another mnemonic or several users.
        """
        key = self._keys.get(result)
        if key is None or key[0] != mnemonic:
            return None
        del self._lines[key], self._keys[result]
        return list(key[1:])

    def immediate(self, value: float | int, kind: str) -> p.Immediate:
        """Make a constant of type suffix ``kind``."""
        if kind not in FLOATS:
            return p.Immediate(as_integer(value))
        if isinstance(value, (SymInt, SymFloat)):
            return p.Immediate(cast(float, as_symfloat(value)))
        return p.Immediate(_shortest(value, kind))

    def operand(self, node: Node) -> MapOperand:
        """Return the operand that holds the value of ``node``, which must have been written."""
        return self._values[id(node)]

    # --- a whole body
    # -----------------------------------------------------------------------------------

    def run(self, results: list[Node]) -> tuple[list[Node], list[p.VectorRegister]]:
        """Write the operations that ``results`` need; return the nodes and their registers."""
        order = self._order(results)
        for node in (*results, *(o for n in order for o in n.operands)):
            self.uses[id(node)] = self.uses.get(id(node), 0) + 1
        for node in order:
            rule = self._rules.get(node.op)
            if rule is None:
                raise ElementError(f"no map operation computes {node.op!r}")
            self._values[id(node)] = rule(self, node)
        return results, [self._placed(node) for node in results]

    def _order(self, results: list[Node]) -> list[Node]:
        """Sort the nodes that must be written, operands before users."""
        order: list[Node] = []
        seen = set(self._values)
        stack: list[tuple[Node, bool]] = [(n, False) for n in reversed(results)]
        while stack:
            node, ready = stack.pop()
            if ready:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack.extend((n, False) for n in reversed(node.operands))
        return order

    def _placed(self, node: Node) -> p.VectorRegister:
        operand = self.operand(node)
        if isinstance(operand, p.VectorRegister):
            return operand
        return self.emit(f"VMOV.{suffix(node.dtype)}", operand)

    def operations(self) -> Iterator[MapOperation]:
        """Yield the operations of the body."""
        for (mnemonic, *sources), result in self._lines.items():
            name, *suffixes = mnemonic.split(".")
            yield MapOperation(name, (*sources, result), tuple(suffixes))
