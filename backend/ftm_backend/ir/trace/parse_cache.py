"""Lines of a trace that are alike but for the numbers of values and scalars are parsed once: layers
repeat, and so do programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ftm_backend.ir.trace.trace import Node, Ref, ScalarRef
from ftm_backend.lru import KEPT_PROGRAMS, LRUCache

__all__ = ["find", "keep"]

_NUMBER = re.compile(r"(?<=[%$])\d+")
_MOST = 20_000
_NODES: LRUCache[Node] = LRUCache(_MOST, kept_programs=KEPT_PROGRAMS)
"""Nodes that were read before, by their line without the numbers of values and scalars."""


def _shape(line: str) -> str | None:
    """A node's line without numbers; None where ``%`` and ``$`` may stand for something else: in
    sizes and strings."""
    return None if "{" in line or '"' in line else _NUMBER.sub("", line)


def keep(line: str, node: Node) -> None:
    """Remembers what a line was read as."""
    if (shape := _shape(line)) is not None:
        _NODES.put(shape, node, 1)


def find(line: str, number: int) -> Node | None:
    """The node of a line that is like one that was read before, and gives its values the next
    numbers."""
    shape = _shape(line)
    node = None if shape is None else _NODES.get(shape)
    if node is None:
        return None
    numbers = list(map(int, _NUMBER.findall(line)))
    count = len(node.results)
    if numbers[:count] != list(range(number, number + count)):
        return None
    left = iter(numbers[count:])
    return Node(
        node.op, tuple((name, _renumbered(value, left)) for name, value in node.args), node.results
    )


def _renumbered(value: object, numbers: Iterator[int]) -> Any:
    if isinstance(value, (Ref, ScalarRef)):
        return type(value)(next(numbers))
    if isinstance(value, tuple) and any(
        isinstance(item, (Ref, ScalarRef, tuple)) for item in value
    ):
        return tuple(_renumbered(item, numbers) for item in value)
    return value
