"""Writes the body of a map as map operations on virtual vector registers.

Registers are numbered in order of definition, each written once; equal operations are written once;
what no result needs is left out. Runtime scalars, positions and constants become operands (``s0``,
``r3``, immediates).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.kernel_tree import SlotUse
from ftm_backend.symbolic import SymFloat, SymInt, as_integer, real
from ftm_backend.target.element_types import FLOATS, TYPES, VECTOR_REGISTERS

__all__ = ["BodyWriter", "ElementError", "MapOperand", "suffix"]

_SUFFIXES = {t.token: t.suffix for t in TYPES if t.kind != "uint"}  # linalg's integers have no sign


class ElementError(ValueError):
    """An operation that map bodies cannot express."""


class MapOperand(NamedTuple):
    """A source of a map operation: its text, or the index expression that a register will hold.

    kind: ``v`` (register), ``immediate``, ``s`` (program scalar) or ``r`` (index expression).
    """

    text: str | SlotUse
    kind: str


def suffix(kind: str) -> str:
    """The type suffix of a map operation for a builtin dtype token."""
    found = _SUFFIXES.get(kind)
    if found is None:
        raise ElementError(
            f"map bodies have no elements of type {kind}: use {', '.join(_SUFFIXES)}"
        )
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
    """Collects the lines of one map body; ``rules`` say how an operation is written, ``scalars``
    how a runtime scalar is called."""

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
        """A new vector register."""
        if self._registers == VECTOR_REGISTERS:
            raise ElementError(
                f"a map body needs more than {VECTOR_REGISTERS} values: split the kernel"
            )
        self._registers += 1
        return MapOperand(f"v{self._registers - 1}", "v")

    def bind(self, node: Node, operand: MapOperand) -> None:
        """Says where the value of ``node`` is."""
        self._values[id(node)] = operand

    def emit(self, mnemonic: str, *sources: MapOperand | str) -> MapOperand:
        """One operation; gives its result, or that of an equal one before."""
        key = mnemonic, *sources
        result = self._lines.get(key)
        if result is None:
            result = self._lines[key] = self.register()
            self._keys[result] = key
        else:
            self._keys.pop(result, None)
        return result

    def take(self, result: MapOperand, mnemonic: str) -> list[MapOperand] | None:
        """Removes the line that computes ``result`` and gives its sources.

        None if that line has another mnemonic or stands for several equal operations.
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
        """A constant of type suffix ``kind``."""
        if isinstance(value, (SymInt, SymFloat)) and kind in FLOATS:
            return MapOperand(repr(real(value)), "immediate")
        text = _shortest(value, kind) if kind in FLOATS else str(as_integer(value))
        return MapOperand(text, "immediate")

    def operand(self, node: Node) -> MapOperand:
        """Where the value of ``node``, which has been written, is."""
        return self._values[id(node)]

    # --- a whole body
    # -----------------------------------------------------------------------------------

    def run(self, results: list[Node]) -> tuple[list[Node], list[MapOperand]]:
        """Writes what ``results`` need; gives them and their registers."""
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
        """The nodes to be written, operands before their users."""
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

    def parts(self, indent: str) -> list[str | SlotUse]:
        """The lines as text with open index expressions."""
        parts: list[str | SlotUse] = []
        for (mnemonic, *sources), result in self._lines.items():
            parts.append(f"{indent}{mnemonic} ")
            for source in sources:
                parts += [source.text if isinstance(source, MapOperand) else source, ", "]
            parts.append(f"{result.text}\n")
        return parts
