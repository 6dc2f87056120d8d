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
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ftm_backend import dtypes
from ftm_backend.ir.trace.arguments import (
    OPERAND_MARK,
    SIZE_ARGUMENTS,
    Argument,
    Blank,
    Complex,
    DType,
    Operand,
    Ref,
    ScalarRef,
    TraceError,
    argument_refs,
    format_argument,
    join_operands,
    operand_slots,
    replace_scalars,
    sizes_of_argument,
    split_operands,
    with_sizes,
)
from ftm_backend.symbolic import ShapeEnv

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
    args: tuple[tuple[str, object], ...]
    results: tuple[TensorType | None, ...]

    @functools.cached_property
    def slots(self) -> tuple[Operand, ...]:
        """The kinds of the operands, in order."""
        return tuple(slot for _, value in self.args for slot in operand_slots(value))

    @functools.cached_property
    def text_parts(self) -> tuple[str, ...]:
        """The text around the operands, which ends with the types: one part more than operands."""
        args = ", ".join(f"{name}={format_argument(value)}" for name, value in self.args)
        types = ", ".join("none" if t is None else str(t) for t in self.results)
        return tuple(f"{self.op}({args}) : {types}".split(OPERAND_MARK))

    @functools.cached_property
    def numbers(self) -> tuple[int, ...]:
        """The sizes: integers of `SIZE_ARGUMENTS` in order, then the extents of the results."""
        found = [n for name, value in self.args for n in sizes_of_argument(name, value)]
        return (*found, *(n for type_ in self.results if type_ for n in type_.shape))

    @functools.cached_property
    def structure(self) -> str:
        """The text without operands, and with ``#`` for each of `numbers`."""
        blank = self.with_numbers([Blank()] * len(self.numbers))
        first, *parts = blank.text_parts
        return first + "".join(
            slot.value + part for slot, part in zip(self.slots, parts, strict=True)
        )

    def with_numbers(self, numbers: Sequence[object]) -> CallSpec:
        """Return the spec with other sizes in place of `numbers`."""
        given = iter(numbers)
        args = tuple(
            (name, with_sizes(value, given) if sizes_of_argument(name, value) else value)
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
        cls, op: str, args: Sequence[tuple[str, object]], results: Sequence[TensorType | None]
    ) -> Node:
        """Create a node from arguments that contain its operands, as `Ref` and `ScalarRef`."""
        operands: list[int] = []
        spec_args = tuple((name, split_operands(value, operands)) for name, value in args)
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
    def args(self) -> tuple[tuple[str, Argument], ...]:
        """The arguments in schema order, with `Ref` and `ScalarRef` for operands."""
        operands = iter(self.operands)
        return tuple((name, join_operands(value, operands)) for name, value in self.spec.args)

    @property
    def values(self) -> list[int]:
        """The numbers of the operands that are tensors."""
        return [
            n for n, s in zip(self.operands, self.spec.slots, strict=True) if s is Operand.VALUE
        ]

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
            Node.of(n.op, [(k, replace_scalars(v, replacements)) for k, v in n.args], n.results)
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


def check_type(type_: TensorType) -> None:
    """Raise TraceError if the dtype is unknown or an extent is negative."""
    if type_.dtype not in dtypes.DTYPES:
        raise TraceError(f"unknown dtype {type_.dtype!r}; the dtypes are {' '.join(dtypes.DTYPES)}")
    if any(extent < 0 for extent in type_.shape):
        raise TraceError(f"{type_} has a negative extent")
