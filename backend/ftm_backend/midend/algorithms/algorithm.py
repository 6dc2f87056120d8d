"""Record: an algorithm of a named operation.

A named operation of linalg, such as ``linalg.conv_2d_nchw_fchw``, is a loop nest that every machine
computes; an algorithm may replace it by other operations. The frontend writes one of our own, such
as ``ftm.conv_transpose``, together with its *expansion*: operations that compute the same on every
machine. The expansion is the operation's last operand (as the decomposition of
``stablehlo.composite``). Pass ``choose-algorithm`` either takes the expansion, or lets a kernel
compute the operation as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ftm_backend.ir.linalg.function import (
    LinalgFunction,
    SequentialLoop,
    Statement,
    Tensor,
    Update,
    copy_statement,
)
from ftm_backend.pass_manager import Requirement
from ftm_backend.target.presets import MachineParameters

__all__ = ["Algorithm", "NamedOperation", "replace_operation"]


@dataclass(frozen=True, eq=False)
class Algorithm:
    """An algorithm.

    Attributes:
        name: Its name in ``FTM_TUNE``.
        doc: One sentence that starts with a verb.
        cycles: ``cycles(operation, machine, limit)`` returns the modelled cycles; infinity if the
            algorithm cannot compute the operation. A result above ``limit`` may be any number
            above it, so that a hopeless candidate is not planned to the end.
        apply: Rewrites the operation, which is in the function's body, in place.
        requires: What a machine needs.
        needs_request: ``needs_request(operation, machine)`` returns whether it is only considered
            if the user chooses it (``FTM_TUNE``).
    """

    name: str
    doc: str
    cycles: Callable[[Statement, MachineParameters, float], float]
    apply: Callable[[LinalgFunction, Statement], None]
    requires: tuple[Requirement, ...] = ()
    needs_request: Callable[[Statement, MachineParameters], bool] = lambda operation, machine: False


@dataclass(frozen=True, eq=False)
class NamedOperation:
    """A named operation whose algorithm is chosen.

    Attributes:
        decision: Its name in ``FTM_TUNE``.
        algorithms: Its algorithms, the default first: it works on every machine.
        operands: Number of its operands as long as its algorithm is not chosen.
    """

    decision: str
    algorithms: tuple[Algorithm, ...]
    operands: int


def replace_operation(
    function: LinalgFunction,
    operation: Statement,
    items: Sequence[Statement | Update | SequentialLoop],
    computed: Tensor | None = None,
) -> None:
    """Replace an operation by others, and a copy of what they compute.

    Args:
        function: The function, changed in place.
        operation: The operation, in the function's body.
        items: What replaces it, in order.
        computed: The part of their results that is the operation's result; None if the last of them
            computes it.
    """
    items = list(items)
    if computed is not None:
        value = operation.results[0].value
        last = copy_statement(computed)
        last.results[0].value, value.producer = value, last
        items.append(last)
    for item in items:
        if isinstance(item, Statement):
            item.origins = operation.origins
    position = function.body.index(operation)
    function.body[position : position + 1] = items
