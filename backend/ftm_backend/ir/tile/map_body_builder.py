"""Writes the body of a map as map operations on virtual vector registers.

Each register is written once, and registers are numbered in order of definition. Equal operations
are written once, dead ones not at all. Runtime scalars, positions and constants become operands
(``s0``, ``r3``, immediates).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.kernel_tree import IndexUse
from ftm_backend.symbolic import SymFloat, SymInt, as_integer, as_symfloat
from ftm_backend.target.element_types import FLOATS, TYPES, VECTOR_REGISTERS

__all__ = ["BodyWriter", "ElementError", "MapOperand", "suffix"]

_SUFFIXES = {t.token: t.suffix for t in TYPES if t.kind != "uint"}  # linalg's integers have no sign


class ElementError(ValueError):
    """Map bodies cannot express an operation."""


class MapOperand(NamedTuple):
    """A source operand of a map operation.

    Attributes:
        text: Its text, or the index expression that a register will hold.
        kind: ``v`` (vector register), ``immediate``, ``s`` (program scalar) or ``r`` (index
            expression).
    """

    text: str | IndexUse
    kind: str


def suffix(kind: str) -> str:
    """Return the type suffix of map operations for a builtin dtype token: ``F32`` for ``f32``."""
    found = _SUFFIXES.get(kind)
    if found is None:
        raise ElementError(
            f"map bodies have no elements of type {kind}: use {', '.join(_SUFFIXES)}"
        )
    return found


def _shortest(value: float, kind: str) -> str:
    """Print the shortest number that rounds to ``value`` in type ``kind``."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "nan", "inf": "inf", "-inf": "-inf"}[str(float(value))]
    if kind == "F32":
        short = repr(float(str(np.float32(value))))
        if np.float32(float(short)) == np.float32(value):
            return short
    return repr(float(value))


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
        self._lines: dict[tuple[Any, ...], MapOperand] = {}
        self._keys: dict[MapOperand, tuple[Any, ...]] = {}
        self._registers = 0
        self.uses: dict[int, int] = {}
        self.gathers: list[str] = []
        """Symbols of the buffers that the body reads element by element."""

    # --- building
    # ---------------------------------------------------------------------------------------

    def register(self) -> MapOperand:
        """Allocate a vector register."""
        if self._registers == VECTOR_REGISTERS:
            raise ElementError(
                f"a map body needs more than {VECTOR_REGISTERS} values: split the kernel"
            )
        self._registers += 1
        return MapOperand(f"v{self._registers - 1}", "v")

    def bind(self, node: Node, operand: MapOperand) -> None:
        """Define the operand that holds the value of ``node``."""
        self._values[id(node)] = operand

    def emit(self, mnemonic: str, *sources: MapOperand | str) -> MapOperand:
        """Append an operation and return its result; an equal earlier operation is reused."""
        key = mnemonic, *sources
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
        return [
            source if isinstance(source, MapOperand) else MapOperand(source, "immediate")
            for source in key[1:]
        ]

    def immediate(self, value: float | int, kind: str) -> MapOperand:
        """Make a constant of type suffix ``kind``."""
        if isinstance(value, (SymInt, SymFloat)) and kind in FLOATS:
            return MapOperand(repr(as_symfloat(value)), "immediate")
        text = _shortest(value, kind) if kind in FLOATS else str(as_integer(value))
        return MapOperand(text, "immediate")

    def operand(self, node: Node) -> MapOperand:
        """Return the operand that holds the value of ``node``, which must have been written."""
        return self._values[id(node)]

    # --- a whole body
    # -----------------------------------------------------------------------------------

    def run(self, results: list[Node]) -> tuple[list[Node], list[MapOperand]]:
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

    def _placed(self, node: Node) -> MapOperand:
        operand = self.operand(node)
        return operand if operand.kind == "v" else self.emit(f"VMOV.{suffix(node.dtype)}", operand)

    def parts(self, indent: str) -> list[str | IndexUse]:
        """Return the text of the body."""
        parts: list[str | IndexUse] = []
        for (mnemonic, *sources), result in self._lines.items():
            parts.append(f"{indent}{mnemonic} ")
            for source in sources:
                parts += [source.text if isinstance(source, MapOperand) else source, ", "]
            parts.append(f"{result.text}\n")
        return parts
