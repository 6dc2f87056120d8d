"""Cache of parsed trace lines.

Layers repeat within a program and programs repeat, so most lines differ from an earlier one only in
the numbers of values and scalars: they have the same `CallSpec`.
"""

from __future__ import annotations

import re

from ftm_backend.ir.trace.trace import CallSpec, Node
from ftm_backend.lru import KEPT_PROGRAMS, LRUCache

_NUMBER = re.compile(r"(?<=[%$])\d+")
_CAPACITY = 20_000
_SPECS: LRUCache[CallSpec] = LRUCache(_CAPACITY, kept_programs=KEPT_PROGRAMS)
"""Specs by their line without the numbers of values and scalars."""


def _key(line: str) -> str | None:
    """Return a node's line without numbers.

    None if ``%`` or ``$`` may mean something else: in symbolic sizes and in strings.
    """
    return None if "{" in line or '"' in line else _NUMBER.sub("", line)


def keep(line: str, node: Node) -> None:
    """Cache the spec of the node that a line was parsed into."""
    if (key := _key(line)) is not None:
        _SPECS.put(key, node.spec, 1)


def find(line: str, number: int) -> Node | None:
    """Return the node of a line from the cache.

    Args:
        line: A line of a trace.
        number: The next free value number, which the node's first result must have.

    Returns:
        None on a miss.
    """
    key = _key(line)
    spec = None if key is None else _SPECS.get(key)
    if spec is None:
        return None
    numbers = tuple(map(int, _NUMBER.findall(line)))
    count = len(spec.results)
    if numbers[:count] != tuple(range(number, number + count)):
        return None
    return Node(spec, numbers[count : count + len(spec.slots)])  # others stand in a comment
