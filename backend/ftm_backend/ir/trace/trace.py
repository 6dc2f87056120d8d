"""Trace IR: what the recorder hands to the compiler, as plain data with one canonical text.

A trace has parameters (tensors), scalars (runtime numbers), nodes in recording order, and results.
Values are numbered densely: parameters first, then each node's results in order. The text is
canonical: two traces are the same program exactly when their texts are equal, so the hash of a
trace is the hash of its text. ``parser`` parses the text.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ftm_backend import dtypes
from ftm_backend.symbolic import SymInt

__all__ = [
    "Argument",
    "Complex",
    "DType",
    "Node",
    "Ref",
    "ScalarRef",
    "TensorType",
    "Trace",
    "TraceError",
    "argument_refs",
]


class TraceError(ValueError):
    """A trace is malformed; the message names the line or value and what to do about it."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Dtype token and shape of a tensor; prints as ``f32[2,3]``."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to tensor value ``%index``."""

    index: int

    def __str__(self) -> str:
        return f"%{self.index}"


@dataclass(frozen=True, slots=True)
class ScalarRef:
    """A reference to runtime scalar ``$index``."""

    index: int

    def __str__(self) -> str:
        return f"${self.index}"


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype as an argument of a node; prints as its token."""

    token: str

    def __str__(self) -> str:
        return self.token


class Complex(NamedTuple):
    """A constant complex number as an argument; prints as ``complex(0.0,1.0)``.

    If its parts are runtime scalars, it is a tuple of two `ScalarRef` instead.
    """

    real: float
    imaginary: float


Argument: TypeAlias = (
    "Ref | ScalarRef | DType | Complex | str | float | tuple[Argument, ...] | None"
)
"""The value of an argument; a tuple of two ScalarRefs is a complex number.

For the type checker a bool or an int is a float.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """One functional op: its arguments in schema order, and the types of its results.

    A result of type None is an undefined tensor, which still has a number.
    """

    op: str
    args: tuple[tuple[str, Any], ...]
    results: tuple[TensorType | None, ...]

    def argument(self, name: str) -> Any:
        """Return argument ``name``; raise TraceError if the node has no such argument."""
        for key, value in self.args:
            if key == name:
                return value
        raise TraceError(
            f"{self.op} has no argument {name!r}; it has {', '.join(k for k, _ in self.args)}"
        )


@dataclass(slots=True)
class Trace:  # noqa: PLW1641 (it can change, so it has no hash)
    """A recorded program. Two traces are equal if their canonical texts are."""

    params: list[TensorType] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    results: list[int] = field(default_factory=list)

    @classmethod
    def parse(cls, text: str) -> Trace:
        """Parse canonical text; TraceError has line and column if it is not a trace."""
        from ftm_backend.ir.trace.parser import parse

        return parse(text)

    def __str__(self) -> str:
        lines = ["trace"]
        lines += [f"  %{i} = param {type_}" for i, type_ in enumerate(self.params)]
        lines += [f"  ${i} = scalar {dtype}" for i, dtype in enumerate(self.scalars)]
        number = len(self.params)
        for node in self.nodes:
            names = ", ".join(f"%{number + i}" for i in range(len(node.results)))
            args = ", ".join(f"{name}={format_argument(value)}" for name, value in node.args)
            types = ", ".join("none" if t is None else str(t) for t in node.results)
            lines.append(f"  {names} = {node.op}({args}) : {types}")
            number += len(node.results)
        lines.append("  return " + ", ".join(f"%{i}" for i in self.results))
        return "\n".join(lines) + "\n"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and str(self) == str(other)

    def hash(self) -> str:
        """Return the blake2b hash of the canonical text: 32 hexadecimal digits."""
        return hashlib.blake2b(str(self).encode(), digest_size=16).hexdigest()

    def with_scalars(self, values: Sequence[float | int | None]) -> Trace:
        """Replace runtime scalars by constants.

        Args:
            values: One entry per scalar; None keeps that scalar a runtime value.
        """
        if len(values) != len(self.scalars):
            raise TraceError(
                f"the trace has {len(self.scalars)} scalars, {len(values)} values were given"
            )
        kept = [i for i, value in enumerate(values) if value is None]
        replacements = {
            i: ScalarRef(kept.index(i)) if value is None else value
            for i, value in enumerate(values)
        }
        nodes = [
            Node(n.op, tuple((k, _replaced(v, replacements)) for k, v in n.args), n.results)
            for n in self.nodes
        ]
        return Trace(list(self.params), [self.scalars[i] for i in kept], nodes, list(self.results))

    def types(self) -> list[TensorType | None]:
        """Return the type of every value, by number; None for an undefined tensor."""
        types: list[TensorType | None] = list(self.params)
        for node in self.nodes:
            types.extend(node.results)
        return types

    def op_numbers(self) -> list[int | None]:
        """Return for each node its number among those that compute; None for a view.

        Names of kernels refer to these numbers. They are the same in all forms of a trace, which
        differ in their views only.
        """
        numbers: list[int | None] = []
        count = 0
        for node in self.nodes:
            computes = node.op != "ftm.view"
            numbers.append(count if computes else None)
            count += computes
        return numbers

    def verify(self) -> None:
        """Raise TraceError, naming the node, unless the trace is well-formed and canonical."""
        from ftm_backend.ir.trace.verifier import verify

        verify(self)


def format_argument(value: object) -> str:
    """Return the canonical text of an argument."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Complex):
        return f"complex({value.real!r},{value.imaginary!r})"
    if isinstance(value, (tuple, list)):
        return "[" + ",".join(map(format_argument, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (int, SymInt, Ref, ScalarRef, DType)):
        return str(value)
    raise TraceError(f"{value!r} of type {type(value).__name__} cannot be an argument of a trace")


def _replaced(value: object, replacements: dict[int, Any]) -> Any:
    """Replace the runtime scalars inside an argument."""
    if isinstance(value, tuple):
        items = tuple(_replaced(item, replacements) for item in value)
        is_number = len(value) == 2 and all(isinstance(item, ScalarRef) for item in value)
        return (
            Complex(*items)
            if is_number and not any(isinstance(item, ScalarRef) for item in items)
            else items
        )
    return replacements[value.index] if isinstance(value, ScalarRef) else value


def argument_refs(value: object) -> Iterator[Ref | ScalarRef]:
    """Yield the references inside an argument, in order."""
    if isinstance(value, (Ref, ScalarRef)):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from argument_refs(item)


def check_type(type_: TensorType) -> None:
    """Raise TraceError if the dtype is unknown or an extent is negative."""
    if type_.dtype not in dtypes.DTYPES:
        raise TraceError(f"unknown dtype {type_.dtype!r}; the dtypes are {' '.join(dtypes.DTYPES)}")
    if any(extent < 0 for extent in type_.shape):
        raise TraceError(f"{type_} has a negative extent")
