"""Cache of parsed trace lines.

Layers repeat within a program and programs repeat, so most lines differ from an earlier one only in
the numbers of values and scalars.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ftm_backend.ir.trace.trace import Node, Ref, ScalarRef
from ftm_backend.lru import KEPT_PROGRAMS, LRUCache

__all__ = ["find", "keep"]

_NUMBER = re.compile(r"(?<=[%$])\d+")
_CAPACITY = 20_000
_NODES: LRUCache[Node] = LRUCache(_CAPACITY, kept_programs=KEPT_PROGRAMS)
"""Parsed nodes by their line without the numbers of values and scalars."""


def _key(line: str) -> str | None:
    """Return a node's line without numbers.

    None if ``%`` or ``$`` may mean something else: in symbolic sizes and in strings.
    """
    return None if "{" in line or '"' in line else _NUMBER.sub("", line)


def keep(line: str, node: Node) -> None:
    """Cache the node that a line was parsed into."""
    if (key := _key(line)) is not None:
        _NODES.put(key, node, 1)


def find(line: str, number: int) -> Node | None:
    """Return the node of a line from the cache.

    Args:
        line: A line of a trace.
        number: The next free value number, which the node's first result must have.

    Returns:
        None on a miss.
    """
    key = _key(line)
    node = None if key is None else _NODES.get(key)
    if node is None:
        return None
    numbers = list(map(int, _NUMBER.findall(line)))
    count = len(node.results)
    if numbers[:count] != list(range(number, number + count)):
        return None
    operands = iter(numbers[count:])
    return Node(
        node.op,
        tuple((name, _renumbered(value, operands)) for name, value in node.args),
        node.results,
    )


def _renumbered(value: object, numbers: Iterator[int]) -> Any:
    if isinstance(value, (Ref, ScalarRef)):
        return type(value)(next(numbers))
    if isinstance(value, tuple) and any(
        isinstance(item, (Ref, ScalarRef, tuple)) for item in value
    ):
        return tuple(_renumbered(item, numbers) for item in value)
    return value
