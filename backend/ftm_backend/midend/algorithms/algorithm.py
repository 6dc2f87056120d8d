"""Record: an algorithm of a named operation.

The frontend writes a named operation, such as ``ftm.conv_transpose``, together with its
*expansion*: operations that compute the same on every machine. The expansion is the operation's
last operand (as the decomposition of ``stablehlo.composite``). Pass ``choose-algorithm`` either
takes the expansion, or lets a kernel compute the operation as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ftm_backend.ir.linalg.function import LinalgFunction, Statement
from ftm_backend.pass_manager import Requirement
from ftm_backend.target.presets import MachineParameters

__all__ = ["Algorithm"]


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
    """

    name: str
    doc: str
    cycles: Callable[[Statement, MachineParameters, float], float]
    apply: Callable[[LinalgFunction, Statement], None]
    requires: tuple[Requirement, ...] = ()
