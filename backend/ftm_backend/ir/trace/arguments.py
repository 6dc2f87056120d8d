"""Arguments of a node: constants, references to operands, and sizes.

In a node's specification an `Operand` marks the place of a reference, so nodes that differ only in
operands share it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from ftm_backend.symbolic import SymInt


class TraceError(ValueError):
    """A trace is malformed; the message names the line or value and what to do about it."""


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


OPERAND_MARK = "\0"
"""Stands for an operand in a text that is split there; strings in the text are escaped."""


class Operand(Enum):
    """The place of an operand in the arguments of a `CallSpec`."""

    VALUE = "%"
    SCALAR = "$"


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
    if isinstance(value, Operand):
        return OPERAND_MARK
    if isinstance(value, (int, SymInt, Ref, ScalarRef, DType, Blank)):
        return str(value)
    raise TraceError(f"{value!r} of type {type(value).__name__} cannot be an argument of a trace")


def replace_scalars(value: object, replacements: Mapping[int, object]) -> Any:
    """Replace the runtime scalars inside an argument."""
    if isinstance(value, tuple):
        items = tuple(replace_scalars(item, replacements) for item in value)
        is_number = len(value) == 2 and all(isinstance(item, ScalarRef) for item in value)
        return (
            Complex(*items)
            if is_number and not any(isinstance(item, ScalarRef) for item in items)
            else items
        )
    return replacements[value.index] if isinstance(value, ScalarRef) else value


class Blank:
    """Stands for a size in `CallSpec.structure`."""

    def __str__(self) -> str:
        return "#"


def is_size(value: object) -> TypeGuard[int]:
    """Return whether an argument is an integer: a literal, or a polynomial of symbols."""
    return type(value) is int or isinstance(value, SymInt)


def sizes_of_argument(name: str, value: object) -> tuple[int, ...]:
    """Return the sizes in an argument: an integer or a list of integers in `SIZE_ARGUMENTS`."""
    if name not in SIZE_ARGUMENTS:
        return ()
    if type(value) is tuple:
        return value if all(map(is_size, value)) else ()
    return (value,) if is_size(value) else ()


def with_sizes(value: object, sizes: Iterator[object]) -> object:
    """Replace the integers of an argument by the next of ``sizes``."""
    return tuple([next(sizes) for _ in value]) if type(value) is tuple else next(sizes)


_VALUE, _SCALAR = Operand.VALUE, Operand.SCALAR


def operand_slots(value: object) -> Iterator[Operand]:
    """Yield the operands' places in an argument, in order."""
    if isinstance(value, Operand):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from operand_slots(item)


def split_operands(value: object, operands: list[int]) -> object:
    """Replace references by `Operand`, and append their numbers to ``operands``."""
    if isinstance(value, (Ref, ScalarRef)):
        operands.append(value.index)
        return _VALUE if isinstance(value, Ref) else _SCALAR
    if isinstance(value, tuple) and not isinstance(value, Complex):
        return tuple([split_operands(item, operands) for item in value])
    return value


def join_operands(value: object, operands: Iterator[int]) -> Any:
    """Replace each `Operand` by a reference; the inverse of `split_operands`."""
    if value is _VALUE:
        return Ref(next(operands))
    if value is _SCALAR:
        return ScalarRef(next(operands))
    if type(value) is tuple and any(isinstance(item, (Operand, tuple)) for item in value):
        return tuple([join_operands(item, operands) for item in value])
    return value


def argument_refs(value: object) -> Iterator[Ref | ScalarRef]:
    """Yield the references inside an argument, in order."""
    if isinstance(value, (Ref, ScalarRef)):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from argument_refs(item)
