"""The trace: what the recorder hands to the compiler, as plain data with one canonical text.

A trace has parameters (tensors), scalars (runtime numbers), nodes in the order of recording, and
results. Values are numbered densely: parameters first, then each node's results in order. The text
is canonical: two traces are the same program exactly when their texts are equal, so the hash is
taken of the text. `trace_parser.py` reads the text back.
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
    """A trace that is not well formed; the message names the line or the value, and what to do."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """dtype token and static shape; prints as ``f32[2,3]``."""

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
    """The tensor value ``%index``."""

    index: int

    def __str__(self) -> str:
        return f"%{self.index}"


@dataclass(frozen=True, slots=True)
class ScalarRef:
    """The runtime scalar ``$index``."""

    index: int

    def __str__(self) -> str:
        return f"${self.index}"


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype as an argument; prints as its token."""

    token: str

    def __str__(self) -> str:
        return self.token


class Complex(NamedTuple):
    """A complex number as an argument, where its parts are no runtime scalars; prints as
    ``complex(0.0,1.0)``."""

    real: float
    imaginary: float


Argument: TypeAlias = (
    "Ref | ScalarRef | DType | Complex | str | float | tuple[Argument, ...] | None"
)
"""The value of an argument; two ScalarRefs are a complex number. bool and int are floats to the
type checker."""


@dataclass(frozen=True, slots=True)
class Node:
    """One functional op: arguments in schema order, and the types of its results.

    A result of type None is an undefined tensor; it still takes a number. Argument values are Ref,
    ScalarRef, DType, None, bool, int, float, Complex, str, or tuples of these; two ScalarRefs are a
    complex number.
    """

    op: str
    args: tuple[tuple[str, Any], ...]
    results: tuple[TensorType | None, ...]

    def argument(self, name: str) -> Any:
        """The value of argument ``name``; TraceError if the node has none of that name."""
        for key, value in self.args:
            if key == name:
                return value
        raise TraceError(
            f"{self.op} has no argument {name!r}; it has {', '.join(k for k, _ in self.args)}"
        )


@dataclass(slots=True)
class Trace:  # noqa: PLW1641 (it can change, so it has no hash)
    """A recorded program. Compare traces by ``==``: equal exactly when their canonical texts
    are."""

    params: list[TensorType] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    results: list[int] = field(default_factory=list)

    @classmethod
    def parse(cls, text: str) -> Trace:
        """Reads canonical text; TraceError with line and column where it is not a trace."""
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
        """blake2b of the canonical text, 32 hexadecimal digits."""
        return hashlib.blake2b(str(self).encode(), digest_size=16).hexdigest()

    def with_scalars(self, values: Sequence[float | int | None]) -> Trace:
        """The trace for these values of its scalars, as numbers in their places; None leaves one a
        runtime value."""
        if len(values) != len(self.scalars):
            raise TraceError(
                f"the trace has {len(self.scalars)} scalars, {len(values)} values were given"
            )
        kept = [i for i, value in enumerate(values) if value is None]
        spelled = {
            i: ScalarRef(kept.index(i)) if value is None else value
            for i, value in enumerate(values)
        }
        nodes = [
            Node(n.op, tuple((k, _replaced(v, spelled)) for k, v in n.args), n.results)
            for n in self.nodes
        ]
        return Trace(list(self.params), [self.scalars[i] for i in kept], nodes, list(self.results))

    def types(self) -> list[TensorType | None]:
        """The type of every value, by number; None for an undefined tensor."""
        types: list[TensorType | None] = list(self.params)
        for node in self.nodes:
            types.extend(node.results)
        return types

    def verify(self) -> None:
        """Checks that the trace is well formed and canonical; TraceError names the node at
        fault."""
        from ftm_backend.ir.trace.verifier import verify

        verify(self)


def format_argument(value: object) -> str:
    """The canonical spelling of an argument."""
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


def _replaced(value: object, spelled: dict[int, Any]) -> Any:
    """An argument with its scalars replaced."""
    if isinstance(value, tuple):
        items = tuple(_replaced(item, spelled) for item in value)
        is_number = len(value) == 2 and all(isinstance(item, ScalarRef) for item in value)
        return (
            Complex(*items)
            if is_number and not any(isinstance(item, ScalarRef) for item in items)
            else items
        )
    return spelled[value.index] if isinstance(value, ScalarRef) else value


def argument_refs(value: object) -> Iterator[Ref | ScalarRef]:
    """The references inside an argument, in order."""
    if isinstance(value, (Ref, ScalarRef)):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from argument_refs(item)


def check_type(type_: TensorType) -> None:
    """TraceError if the dtype is unknown or an extent negative."""
    if type_.dtype not in dtypes.DTYPES:
        raise TraceError(f"unknown dtype {type_.dtype!r}; the dtypes are {' '.join(dtypes.DTYPES)}")
    if any(extent < 0 for extent in type_.shape):
        raise TraceError(f"{type_} has a negative extent")
