"""Register elementwise ops: ``pointwise(names, function of scalars)``.

The function takes the op's arguments by name. Tensors and runtime scalars arrive as ScalarExprs,
all others (None, bool, int, float, str, lists) as in the trace.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TypedDict

from ftm_backend.dtypes import HALVES, compute_dtype
from ftm_backend.frontend.linalg_builder import Body, LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.op_registry import TOLERANCE, OpRecord, omitted_arguments, register
from ftm_backend.frontend.scalar_math import ScalarExpr

RESULT = "result"
"""Convert arguments to the result's dtype: arithmetic."""

PROMOTED = "promoted"
"""Convert arguments to the dtype that PyTorch promotes them to: comparisons."""

OWN = "own"
"""Keep the arguments' dtypes; the function converts what it needs."""

_OPERANDS = frozenset({"self", "other"})  # a Python bool among these is a number of the computation


class PointwiseOptions(TypedDict, total=False):
    """The keyword arguments of `pointwise`."""

    compute: str
    keep: Iterable[str]
    rounds: Iterable[str]
    tolerance: dict[str, tuple[float, float]] | None
    gap: str


def pointwise(
    names: str,
    function: Body,
    dtypes: Iterable[str],
    family: str,
    *,
    compute: str = RESULT,
    keep: Iterable[str] = (),
    rounds: Iterable[str] = (),
    tolerance: dict[str, tuple[float, float]] | None = None,
    gap: str = "",
) -> OpRecord:
    """Register an elementwise op.

    Args:
        names: Op names, separated by blanks.
        function: From arguments to the result, a ScalarExpr or a tuple, which is converted to the
            result's dtype. It gets that dtype as ``result_dtype`` if it has such a parameter. Half
            types are computed in f32.
        dtypes: Accepted dtypes.
        family: The tests' sample generator.
        compute: RESULT, PROMOTED or OWN.
        keep: Tensor arguments that keep their dtype (masks, indices).
        rounds: Number arguments that PyTorch rounds to the half type before it computes in f32.
        tolerance: By dtype; `TOLERANCE` by default.
        gap: Why something is unsupported.
    """
    keep, rounds = frozenset(keep), frozenset(rounds)
    takes_dtype = "result_dtype" in inspect.signature(function).parameters
    omitted = omitted_arguments(function)

    def lower(b: LinalgBuilder, **arguments: object) -> tuple[StridedValue, ...]:
        outputs = tuple(t for t in b.results if t is not None)
        for name in omitted:
            arguments.pop(name, None)
        if takes_dtype:
            arguments["result_dtype"] = b.result.dtype
        numbers = [
            v
            for k, v in arguments.items()
            if isinstance(v, (StridedValue, ScalarExpr)) and k not in keep
        ]
        common = (
            ""
            if compute == OWN
            else b.result.dtype
            if compute == RESULT
            else b.promoted_dtype(numbers)
        )
        dtype = compute_dtype(common) if common else ""
        arguments = {
            k: b.constant(v, dtype or "i1") if isinstance(v, bool) and k in _OPERANDS else v
            for k, v in arguments.items()
        }
        tensors = {k: v for k, v in arguments.items() if isinstance(v, StridedValue)}

        def operand(v: ScalarExpr) -> ScalarExpr:
            """Convert an element to the compute dtype through the promoted dtype.

            An integer beyond the range of f16 becomes infinite in between.
            """
            return v.to(common).to(dtype) if common in HALVES else v.to(dtype)

        def number(name: str, v: object) -> object:
            """Convert a number to the compute dtype."""
            if name in rounds and common in HALVES and isinstance(v, (ScalarExpr, int, float)):
                return operand(b.scalar_operand(v, common))
            return v.to(dtype) if isinstance(v, ScalarExpr) and dtype and name not in keep else v

        attributes = {k: number(k, v) for k, v in arguments.items() if k not in tensors}

        def body(*elems: ScalarExpr) -> tuple[ScalarExpr, ...]:
            values = dict(zip(tensors, elems, strict=True))
            if dtype:
                values = {k: v if k in keep else operand(v) for k, v in values.items()}
            result = function(**values, **attributes)
            result = result if isinstance(result, tuple) else (result,)
            return tuple(m.to(o.dtype) for m, o in zip(result, outputs, strict=True))

        return b.pointwise_all(body, list(tensors.values()), outputs)

    return register(
        OpRecord(
            tuple(names.split()),
            tuple(dtypes),
            lower,
            family,
            TOLERANCE if tolerance is None else tolerance,
            gap,
        )
    )
