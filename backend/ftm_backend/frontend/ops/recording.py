"""What the recorder has to know of an op that its schema does not say.

It is said beside the op's record, once, by `recorded`; the recorder gets all of it as one table.  Ops without a record, which run on
the CPU, may be named as well: their calls are checked like eager's.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

__all__ = ["FACTS", "Indices", "Recording", "recorded", "recording_table"]

Extent = Literal["first", "dim", "classes", "all", "each"]
"""Of the op's first argument: its first dimension; the one that the call names; the dimension of the classes (the second, or
the only one); all elements; for a list of indices, the dimensions one after the other."""


@dataclass(frozen=True, slots=True)
class Indices:
    """An argument holds places in the op's first argument.

    argument: its position.  within: what the places are of.  wraps: negative ones count from the end.
    """

    argument: int
    within: Extent
    wraps: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """The facts.

    constants: Scalar arguments that shape the program (bounds of a range, the order of a norm); the others may change from step
        to step and compile once.
    indices: which argument holds places; those that came from the CPU are checked where the call is made.
    cpu_indices: index arguments may live on the CPU.
    reads_apart: eager refuses to write over what the op still reads.
    value_is_number: a tensor called ``value`` is read as a number before anything is written, so it may lie in what is written.
    permissive_meta: the meta kernel takes calls that eager refuses; they are tried on the CPU's kernel, on tensors of zeros.
    refuses_values: eager looks at elements of an operand: a divisor of integers that is 0, weights that are no distribution.
    may_fail: a program can find, when it runs, an element that the op refuses, and its error names the line that recorded the call;
        said of ops without ``indices``.
    one_dtype: eager wants operands of one dtype, and the meta kernel does not look.
    checks_out: so it is with the dtype or shape of ``out``.
    converts_to_out: the result is cast to the dtype of ``out`` by rule, which a trial on zeros can't show.
    takes_no_bools: there is no kernel for results of bool.
    like: the argument whose memory format the CPU gives the first result; -1: what the meta kernel says holds.
    """

    constants: tuple[str, ...] = ()
    indices: Indices | None = None
    cpu_indices: bool = False
    reads_apart: bool = False
    value_is_number: bool = False
    permissive_meta: bool = False
    refuses_values: bool = False
    may_fail: bool = False
    one_dtype: bool = False
    checks_out: bool = False
    converts_to_out: bool = False
    takes_no_bools: bool = False
    like: int = -1


FACTS: dict[str, Recording] = {}
"""By the op's name without overload."""

_WORDS = tuple(f.name for f in fields(Recording) if f.name not in ("constants", "indices", "like"))


def recorded(
    names: str, *, constants: tuple[str, ...] = (), indices: Indices | None = None, cpu_indices: bool = False,
    reads_apart: bool = False, value_is_number: bool = False, permissive_meta: bool = False,
    refuses_values: bool = False, may_fail: bool = False, one_dtype: bool = False, checks_out: bool = False, converts_to_out: bool = False,
    takes_no_bools: bool = False, like: int = -1,
) -> None:
    """Says the facts of ``names`` (separated by blanks, without overloads).

    Raises:
        ValueError: a name has an overload or has facts already, or the extent of the indices is none.
    """
    if indices is not None and indices.within not in get_args(Extent):
        raise ValueError(f"{names}: indices lie within {', '.join(get_args(Extent))}, not {indices.within!r}")
    for name in names.split():
        if "." in name or "::" not in name:
            raise ValueError(f"{name}: facts are of all overloads: write namespace::name")
        if name in FACTS:
            raise ValueError(f"{name}: its facts are said twice")
        FACTS[name] = Recording(constants, indices, cpu_indices, reads_apart, value_is_number, permissive_meta, refuses_values,
                                may_fail, one_dtype, checks_out, converts_to_out, takes_no_bools, like)


Row = tuple[str, list[str], list[str], str, int, bool, int]


def recording_table() -> list[Row]:
    """Name, constants, the words for what holds, and where the indices are (extent, argument, wraps; extent "": nowhere), like."""
    rows = []
    for name, facts in FACTS.items():
        words = [word for word in _WORDS if getattr(facts, word)]
        at = facts.indices
        where = (at.within, at.argument, at.wraps) if at else ("", 0, False)
        rows.append((name, list(facts.constants), words, *where, facts.like))
    return rows
