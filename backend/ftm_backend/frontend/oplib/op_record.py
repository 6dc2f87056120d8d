"""The op record: everything the compiler knows about an op, in one place.

A record has the op's names (overloads that share a lowering), the dtypes it takes, how it lowers,
how far results may be from PyTorch's, and why anything is left out. Registration checks that a
record is complete, so a mistake shows when the module is imported. Nothing here loads MLIR:
lowerings are plain functions.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from ftm_backend.dtypes import DTYPES
from ftm_backend.frontend.strided_value import StridedValue

__all__ = [
    "EXACT",
    "PRODUCTS",
    "RECORDS",
    "ROWS",
    "SUMS",
    "TOLERANCE",
    "Lower",
    "OpRecord",
    "lowering",
    "register",
]

TOLERANCE = {
    "f64": (1e-12, 1e-12),
    "f32": (1e-5, 1e-6),
    "f16": (2e-3, 1e-4),
    "bf16": (1.6e-2, 1e-3),
}
"""(relative, absolute) of an op that rounds; integers and bools are always exact."""

SUMS = {"f64": (1e-11, 1e-11), "f32": (2e-5, 1e-5), "f16": (4e-3, 1e-3), "bf16": (3e-2, 1e-2)}
"""The same of an op that adds up many numbers, in another order than PyTorch does."""

PRODUCTS = {"f64": (1e-10, 1e-11), "f32": (5e-5, 1e-5), "f16": (4e-3, 2e-3), "bf16": (3e-2, 2e-2)}
"""And of one that adds up many products."""

ROWS = {"f64": (1e-10, 1e-11), "f32": (5e-5, 1e-5), "f16": (4e-3, 1e-3), "bf16": (3e-2, 1e-2)}
"""And of one that divides by what it has added up."""

EXACT: dict[str, tuple[float, float]] = {}
"""Tolerance of an op whose results are bit for bit PyTorch's (NaN equals NaN)."""

_NAME = re.compile(r"[A-Za-z_]\w*::\w+(\.\w+)?|ftm\.\w+")


Lower = Callable[..., StridedValue | tuple[StridedValue | None, ...]]
"""``lower(b, **arguments)``: the results of one call; None for what is undefined."""

F = TypeVar("F", bound=Lower)


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One op.

    names: as the trace writes them (``aten::add.Tensor``). dtypes: tokens that any tensor argument
    may have. lower: ``lower(b, *, argument=value, ...)`` with the schema's argument names
    (``from_`` for ``from``);
        tensors are Values, runtime scalars Elems; gives a Value or a tuple (None: undefined).
    family: name of the tests' sample generator. tolerance: per dtype, as TOLERANCE. gap: why dtypes
    or argument values that PyTorch takes are not taken; "" if there are none but complex.
    """

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    lower: Lower
    family: str
    tolerance: dict[str, tuple[float, float]] = field(default_factory=lambda: TOLERANCE)
    gap: str = ""


RECORDS: dict[str, OpRecord] = {}
"""Every registered op by name."""


def register(record: OpRecord) -> OpRecord:
    """Adds ``record``; ValueError if it is incomplete or one of its names is taken."""
    label = " ".join(record.names) or "a record without names"
    if not record.names or not all(_NAME.fullmatch(name) for name in record.names):
        raise ValueError(f"{label}: names are written as in a trace, such as aten::add.Tensor")
    unknown = [d for d in record.dtypes if d not in DTYPES]
    if not record.dtypes or unknown:
        raise ValueError(f"{label}: dtypes must be tokens, not {unknown or 'empty'}")
    if not record.family:
        raise ValueError(
            f"{label}: a family is needed, so that the tests know how to sample the op"
        )
    for dtype in record.tolerance:
        if DTYPES[dtype].kind != "float":
            raise ValueError(f"{label}: {dtype} results are exact; a tolerance is for floats")
    if next(iter(inspect.signature(record.lower).parameters), None) != "b":
        raise ValueError(f"{label}: the first parameter of a lowering is the builder, b")
    for name in record.names:
        if name in RECORDS:
            raise ValueError(f"{name} has two records")
        RECORDS[name] = record
    return record


def lowering(
    names: str,
    dtypes: Iterable[str],
    family: str,
    tolerance: dict[str, tuple[float, float]] | None = None,
    gap: str = "",
) -> Callable[[F], F]:
    """Decorator: registers the function as the lowering of ``names`` (separated by blanks)."""

    def decorate(function: F) -> F:
        register(
            OpRecord(
                tuple(names.split()),
                tuple(dtypes),
                function,
                family,
                TOLERANCE if tolerance is None else tolerance,
                gap,
            )
        )
        return function

    return decorate
