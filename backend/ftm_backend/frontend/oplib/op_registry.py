"""Record: everything that the compiler knows about an op, in one place.

A record has the names of overloads that share a lowering, the accepted dtypes, the lowering, the
tolerance against PyTorch, and the reason for any gap. Registration checks that a record is
complete, so mistakes fail on import. Lowerings are plain functions; nothing here loads MLIR.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from ftm_backend.dtypes import DTYPES
from ftm_backend.frontend.strided_value import StridedValue

TOLERANCE = {
    "f64": (1e-12, 1e-12),
    "f32": (1e-5, 1e-6),
    "f16": (2e-3, 1e-4),
    "bf16": (1.6e-2, 1e-3),
}
"""Relative and absolute tolerance of an op that rounds. Integers and bools are always exact."""

SUMS = {"f64": (1e-11, 1e-11), "f32": (2e-5, 1e-5), "f16": (4e-3, 1e-3), "bf16": (3e-2, 1e-2)}
"""The same for an op that sums many numbers, in another order than PyTorch."""

PRODUCTS = {"f64": (1e-10, 1e-11), "f32": (5e-5, 1e-5), "f16": (4e-3, 2e-3), "bf16": (3e-2, 2e-2)}
"""The same for an op that sums many products."""

ROWS = {"f64": (1e-10, 1e-11), "f32": (5e-5, 1e-5), "f16": (4e-3, 1e-3), "bf16": (3e-2, 1e-2)}
"""The same for an op that divides by a sum."""

EXACT: dict[str, tuple[float, float]] = {}
"""Tolerance of an op whose results are bitwise equal to PyTorch's (NaN equals NaN)."""


Lower = Callable[..., StridedValue | tuple[StridedValue | None, ...]]
"""``lower(b, **arguments)``: builds one call and returns its results; None for undefined ones."""

F = TypeVar("F", bound=Lower)

_OMITTED = frozenset({"device", "layout", "pin_memory", "generator", "non_blocking"})
"""Arguments that no lowering takes."""

_OPTIONAL = frozenset(
    {
        "assume_unique",
        "bias_sizes",
        "ceil_mode",
        "check_errors",
        "compute_mode",
        "dtype",
        "half_to_float",
        "implicit",
        "include_last_offset",
        "input_dtype",
        "keepdim",
        "memory_format",
        "out_int32",
        "output_mask",
        "sorted",
        "sparse",
        "sparse_grad",
        "stable",
        "unroll_dim",
    }
)
"""Arguments that only determine the types of the results, or how PyTorch computes them. A lowering
takes those that it uses, and reads the rest from `LinalgBuilder.results`."""


_RENAMED = {
    ("aten::_cdist_backward", "grad"): "grad_output",
    ("aten::_pdist_backward", "grad"): "grad_output",
}
"""Arguments that PyTorch 2.14 has renamed: op and 2.13's name, to 2.14's."""


def parameter_name(op: str, argument: str) -> str:
    """Return the parameter of a lowering that takes an argument of the op.

    Args:
        op: The op as the trace names it.
        argument: The argument's name in the schema of any supported version of PyTorch.
    """
    return "from_" if argument == "from" else _RENAMED.get((op, argument), argument)


@cache
def omitted_arguments(lower: Callable[..., object]) -> frozenset[str]:
    """Return the arguments of ops that a lowering or a function of scalars does not take."""
    parameters = inspect.signature(lower).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return _OMITTED
    return _OMITTED | _OPTIONAL - {p.name for p in parameters}


@dataclass(frozen=True, slots=True)
class OpRecord:
    """The record of an op.

    Attributes:
        names: Overloads as the trace names them (``aten::add.Tensor``).
        dtypes: Accepted dtypes of tensor arguments.
        lower: ``lower(b, *, argument=value, ...)`` with the schema's argument names, by
            `parameter_name`. Tensors are StridedValues, runtime scalars ScalarExprs. Returns a
            StridedValue or a tuple; None stands for an undefined result.
        family: Name of the tests' sample generator.
        tolerance: Relative and absolute tolerance by dtype.
        gap: Why dtypes or arguments that PyTorch accepts are unsupported; "" if only complex is.
    """

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    lower: Lower
    family: str
    tolerance: dict[str, tuple[float, float]] = field(default_factory=lambda: TOLERANCE)
    gap: str = ""


RECORDS: dict[str, OpRecord] = {}
"""All registered ops by name."""


def _is_op_name(name: str) -> bool:
    """Return whether a name is ``namespace::op``, ``namespace::op.overload`` or ``ftm.op``."""
    namespace, colons, op = name.partition("::")
    parts = op.split(".") if colons else name.removeprefix("ftm.").split(".")
    most = 2 if colons else 1
    is_known = namespace.isidentifier() if colons else name.startswith("ftm.")
    return (
        is_known
        and len(parts) <= most
        and all(f"_{part}".isidentifier() and part for part in parts)
    )


def register(record: OpRecord) -> OpRecord:
    """Register a record.

    Raises:
        ValueError: The record is incomplete, or one of its names is already registered.
    """
    label = " ".join(record.names) or "a record without names"
    if not record.names or not all(map(_is_op_name, record.names)):
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
    """Decorator: register the function as the lowering of `names`.

    Args:
        names: Op names, separated by blanks.
        dtypes: Accepted dtypes.
        family: The tests' sample generator.
        tolerance: By dtype; `TOLERANCE` by default.
        gap: Why something is unsupported.
    """

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
