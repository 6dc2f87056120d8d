"""Trace IR: what the recorder hands to the compiler, as plain data with one canonical text.

A trace has parameters (tensors), scalars (runtime numbers), nodes in recording order, and results.
Values are numbered densely: parameters first, then each node's results in order. An integer is a
literal, or a polynomial of the symbols that the trace declares. The text is canonical: two traces
are the same program exactly when their texts are equal, so the hash of a trace is the hash of its
text. ``parser`` parses the text.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from ftm_backend import dtypes
from ftm_backend.symbolic import ShapeEnv, SymInt

__all__ = [
    "SIZE_ARGUMENTS",
    "Argument",
    "CallSpec",
    "Complex",
    "DType",
    "Node",
    "Operand",
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

    def with_shape(self, extents: Iterator[Any]) -> TensorType:
        """Return the type with extents taken from an iterator."""
        return TensorType(self.dtype, tuple([next(extents) for _ in self.shape]))


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


SIZE_ARGUMENTS = frozenset(
    "C HxW N diagonal end index input_size input_sizes k length m n normalized_shape num_classes"
    " num_samples num_weights offset output_size pad repeats self_sizes shifts size sizes"
    " split_size split_sizes start steps storage_offset strides".split()
)
"""Arguments whose integers are sizes, counts or indices.

Other traces of the same structure may have other values. All other arguments, such as dimensions,
decide what an op computes."""


class Operand(Enum):
    """The place of an operand in the arguments of a `CallSpec`."""

    VALUE = "%"
    SCALAR = "$"


@dataclass(frozen=True)
class CallSpec:
    """A call without its operands; calls that differ only in operands share one.

    Attributes:
        op: Name of the op, e.g. ``aten::add.Tensor``.
        args: Arguments in schema order, with an `Operand` in place of each operand.
        results: Type of each result. A result of type None is an undefined tensor, which still has
            a number.
    """

    op: str
    args: tuple[tuple[str, Any], ...]
    results: tuple[TensorType | None, ...]

    @functools.cached_property
    def slots(self) -> tuple[Operand, ...]:
        """The kinds of the operands, in order."""
        return tuple(slot for _, value in self.args for slot in _slots(value))

    @functools.cached_property
    def text_parts(self) -> tuple[str, ...]:
        """The text around the operands, which ends with the types: one part more than operands."""
        parts: list[str] = []
        part = f"{self.op}("
        for position, (name, value) in enumerate(self.args):
            first, *others = _text_around_operands(value)
            part += f"{', ' if position else ''}{name}={first}"
            for other in others:
                parts.append(part)
                part = other
        types = ", ".join("none" if t is None else str(t) for t in self.results)
        return (*parts, f"{part}) : {types}")

    @functools.cached_property
    def numbers(self) -> tuple[int, ...]:
        """The sizes: integers of `SIZE_ARGUMENTS` in order, then the extents of the results."""
        found = [n for name, value in self.args for n in sizes_of_argument(name, value)]
        return (*found, *(n for type_ in self.results if type_ for n in type_.shape))

    @functools.cached_property
    def structure(self) -> str:
        """The text without operands, and with ``#`` for each of `numbers`."""
        blank = self.with_numbers([_Blank()] * len(self.numbers))
        first, *parts = blank.text_parts
        return first + "".join(
            slot.value + part for slot, part in zip(self.slots, parts, strict=True)
        )

    def with_numbers(self, numbers: Sequence[Any]) -> CallSpec:
        """Return the spec with other sizes in place of `numbers`."""
        given = iter(numbers)
        args = tuple(
            (name, _with_sizes(value, given) if sizes_of_argument(name, value) else value)
            for name, value in self.args
        )
        results = tuple(type_ and type_.with_shape(given) for type_ in self.results)
        return CallSpec(self.op, args, results)


@dataclass(frozen=True, slots=True)
class Node:
    """One call of a functional op.

    Attributes:
        spec: The call without its operands.
        operands: The number of each value or scalar, in the order of ``spec.slots``.
    """

    spec: CallSpec
    operands: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, op: str, args: Sequence[tuple[str, Any]], results: Sequence[TensorType | None]
    ) -> Node:
        """Create a node from arguments that contain its operands, as `Ref` and `ScalarRef`."""
        operands: list[int] = []
        spec_args = tuple((name, _split_operands(value, operands)) for name, value in args)
        return cls(CallSpec(op, spec_args, tuple(results)), tuple(operands))

    @property
    def op(self) -> str:
        """Name of the op."""
        return self.spec.op

    @property
    def results(self) -> tuple[TensorType | None, ...]:
        """Type of each result."""
        return self.spec.results

    @property
    def args(self) -> tuple[tuple[str, Any], ...]:
        """The arguments in schema order, with `Ref` and `ScalarRef` for operands."""
        operands = iter(self.operands)
        return tuple((name, _join_operands(value, operands)) for name, value in self.spec.args)

    @property
    def values(self) -> list[int]:
        """The numbers of the operands that are tensors."""
        return [n for n, s in zip(self.operands, self.spec.slots, strict=True) if s is _VALUE]

    def argument(self, name: str) -> Any:
        """Return argument ``name``; raise TraceError if the node has no such argument."""
        for key, value in self.args:
            if key == name:
                return value
        raise TraceError(
            f"{self.op} has no argument {name!r}; it has {', '.join(k for k, _ in self.spec.args)}"
        )

    def text(self, number: int) -> str:
        """Return the canonical text, for a first result with this number."""
        names = ", ".join(f"%{number + i}" for i in range(len(self.spec.results)))
        slots, parts = self.spec.slots, self.spec.text_parts
        pieces = [f"{names} = {parts[0]}"]
        for slot, operand, part in zip(slots, self.operands, parts[1:], strict=True):
            pieces += [slot.value, str(operand), part]
        return "".join(pieces)


@dataclass(slots=True)
class Trace:  # noqa: PLW1641 (it can change, so it has no hash)
    """A recorded program. Two traces are equal if their canonical texts are.

    Attributes:
        params: Types of the parameters.
        scalars: Dtypes of the runtime scalars: f64 or i64.
        nodes: The calls in recording order.
        results: Numbers of the values that the program returns.
        symbols: The symbols in the integers, with their hints; None if all are literals.
    """

    params: list[TensorType] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    symbols: ShapeEnv | None = None

    @classmethod
    def parse(cls, text: str) -> Trace:
        """Parse canonical text; TraceError has line and column if it is not a trace."""
        from ftm_backend.ir.trace.parser import parse

        return parse(text)

    def __str__(self) -> str:
        lines = ["trace", *self.declarations(), *self.lines(), ""]
        return "\n".join(lines)

    def declarations(self) -> list[str]:
        """Return the lines that declare the symbols."""
        if self.symbols is None:
            return []
        return [
            f"  size {name} = {hint}, {least}" + ", own" * (name in self.symbols.distinct)
            for name, (hint, least) in self.symbols.declared.items()
        ]

    def lines(self) -> list[str]:
        """Return a line for each parameter, scalar and node, and one for the results."""
        lines = [f"  %{i} = param {type_}" for i, type_ in enumerate(self.params)]
        lines += [f"  ${i} = scalar {dtype}" for i, dtype in enumerate(self.scalars)]
        number = len(self.params)
        for node in self.nodes:
            lines.append("  " + node.text(number))
            number += len(node.spec.results)
        lines.append("  return " + ", ".join(f"%{i}" for i in self.results))
        return lines

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
            Node.of(n.op, [(k, _replaced(v, replacements)) for k, v in n.args], n.results)
            for n in self.nodes
        ]
        return Trace(list(self.params), [self.scalars[i] for i in kept], nodes, list(self.results))

    def types(self) -> list[TensorType | None]:
        """Return the type of every value, by number; None for an undefined tensor."""
        types: list[TensorType | None] = list(self.params)
        for node in self.nodes:
            types.extend(node.spec.results)
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
    if isinstance(value, (int, SymInt, Ref, ScalarRef, DType, _Blank)):
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


class _Blank:
    """Stands for a size in `CallSpec.structure`."""

    def __str__(self) -> str:
        return "#"


def is_size(value: object) -> bool:
    """Return whether an argument is an integer: a literal, or a polynomial of symbols."""
    return type(value) is int or isinstance(value, SymInt)


def sizes_of_argument(name: str, value: Any) -> tuple[int, ...]:
    """Return the sizes in an argument: an integer or a list of integers in `SIZE_ARGUMENTS`."""
    if name not in SIZE_ARGUMENTS:
        return ()
    if type(value) is tuple:
        return value if all(map(is_size, value)) else ()
    return (value,) if is_size(value) else ()


def _with_sizes(value: Any, sizes: Iterator[Any]) -> Any:
    return tuple([next(sizes) for _ in value]) if type(value) is tuple else next(sizes)


_VALUE, _SCALAR = Operand.VALUE, Operand.SCALAR


def _slots(value: object) -> Iterator[Operand]:
    if isinstance(value, Operand):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _slots(item)


def _text_around_operands(value: object) -> list[str]:
    """Return the canonical text of an argument, split at its operands."""
    if isinstance(value, Operand):
        return ["", ""]
    if not isinstance(value, tuple) or isinstance(value, Complex):
        return [format_argument(value)]
    pieces = ["["]
    for position, item in enumerate(value):
        first, *others = _text_around_operands(item)
        pieces[-1] += ("," if position else "") + first
        pieces += others
    pieces[-1] += "]"
    return pieces


def _split_operands(value: Any, operands: list[int]) -> Any:
    """Replace references by `Operand`, and append their numbers to ``operands``."""
    if isinstance(value, (Ref, ScalarRef)):
        operands.append(value.index)
        return _VALUE if isinstance(value, Ref) else _SCALAR
    if isinstance(value, tuple) and not isinstance(value, Complex):
        return tuple([_split_operands(item, operands) for item in value])
    return value


def _join_operands(value: Any, operands: Iterator[int]) -> Any:
    """Replace each `Operand` by a reference; the inverse of `_split_operands`."""
    if value is _VALUE:
        return Ref(next(operands))
    if value is _SCALAR:
        return ScalarRef(next(operands))
    if type(value) is tuple and any(isinstance(item, (Operand, tuple)) for item in value):
        return tuple([_join_operands(item, operands) for item in value])
    return value


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
