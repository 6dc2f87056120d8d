"""Type stubs for the subset of MLIR's bindings that this package uses; they ship without types.

Attributes and types have many classes with different members, so they remain untyped.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Attribute = Any
Type = Any


class Value(Protocol):
    """An SSA value: a result of an operation, or an argument of a block."""

    type: Type

    def replace_all_uses_with(self, other: Value) -> None:
        """Replace this value by `other` in all its users."""

    def __hash__(self) -> int:
        """Hash by identity."""


class Blocks(Protocol):
    """The blocks of a region."""

    def __getitem__(self, number: int) -> Block:
        """Return a block by its number."""

    def __len__(self) -> int:
        """Return the number of blocks."""

    def append(self, *types: Type) -> Block:
        """Append a block with arguments of these types."""


class Region(Protocol):
    """A region of an operation."""

    blocks: Blocks


class Operation(Protocol):
    """An operation, or its view as an instance of a specific op class."""

    name: str
    operation: Operation
    operands: Sequence[Value]
    results: Sequence[Value]
    attributes: MutableMapping[str, Attribute]
    regions: Sequence[Region]
    location: AbstractContextManager[object]

    def erase(self) -> None:
        """Remove the operation from its block."""

    def verify(self) -> bool:
        """Return True if the operation is valid; raise an error that describes what is not."""


class Block(Protocol):
    """A list of operations, with block arguments."""

    arguments: Sequence[Value]
    operations: Sequence[Operation]

    def append(self, operation: Operation) -> None:
        """Append an operation."""

    def add_argument(self, type: Type, loc: object) -> Value:
        """Append a block argument."""


class Module(Protocol):
    """A module operation."""

    body: Block
    operation: Any
    context: AbstractContextManager[object]
