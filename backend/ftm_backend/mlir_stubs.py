"""What this package uses of MLIR's bindings, for the type checker: they come without types.

Attributes and types are of many classes, of which each has members of its own; they stay untyped.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any, Protocol

__all__ = ["Attribute", "Block", "Module", "Operation", "Region", "Type", "Value"]

Attribute = Any
Type = Any


class Value(Protocol):
    """An SSA value: a result of an operation, or an argument of a block."""

    type: Type

    def replace_all_uses_with(self, other: Value) -> None:
        """Lets everything that reads this one read the other."""

    def __hash__(self) -> int: ...


class Blocks(Protocol):
    """The blocks of a region."""

    def __getitem__(self, number: int) -> Block: ...
    def __len__(self) -> int: ...
    def append(self, *types: Type) -> Block:
        """A new last block with arguments of these types."""


class Region(Protocol):
    """A region of an operation."""

    blocks: Blocks


class Operation(Protocol):
    """An operation, or a view of one as a class of its own."""

    name: str
    operation: Operation
    operands: Sequence[Value]
    results: Sequence[Value]
    attributes: MutableMapping[str, Attribute]
    regions: Sequence[Region]
    location: Any

    def erase(self) -> None:
        """Takes it out of its block."""

    def verify(self) -> bool:
        """Whether it is valid; an error says what is not."""


class Block(Protocol):
    """A list of operations with arguments."""

    arguments: Sequence[Value]
    operations: Sequence[Operation]

    def append(self, operation: Operation) -> None:
        """Puts an operation at the end."""

    def add_argument(self, type: Type, loc: object) -> Value:
        """A new last argument."""


class Module(Protocol):
    """A program."""

    body: Block
    operation: Any
    context: Any
