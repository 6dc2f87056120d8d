"""Pass ``choose-algorithm``: choose the cheapest algorithm of each named operation.

Example: the gradient of a convolution's input is ``ftm.conv_transpose``. On a machine whose DMA
overlaps compute it can be one matmul with col2im, or a convolution for each sub-pixel phase. The
registry (``midend/algorithms``) lists the algorithms of each operation with their costs.

Changes the function in place. Afterwards no operation has an expansion.
"""

from __future__ import annotations

from math import inf

from ftm_backend.ir.linalg.function import LinalgFunction, SequentialLoop, Statement
from ftm_backend.midend.algorithms.algorithm import Algorithm
from ftm_backend.midend.algorithms.registry import ALGORITHMS
from ftm_backend.midend.schedule.choose import choose
from ftm_backend.midend.transforms.memory.resolve_in_place import drop_unused
from ftm_backend.target.presets import MachineParameters

__all__ = ["choose_algorithm", "take_defaults"]


def choose_algorithm(function: LinalgFunction, machine: MachineParameters) -> LinalgFunction:
    """Rewrite named operations; inside of sequential loops by their default algorithm."""
    named = [item for item in function.body if isinstance(item, Statement) and _is_open(item)]
    for operation in named:
        _choice(operation, machine).apply(function, operation)
    _take_defaults_in_loops(function)
    if named:
        drop_unused(function)
    return function


def _choice(operation: Statement, machine: MachineParameters) -> Algorithm:
    """Return the cheapest algorithm; the default is only estimated if another one is possible."""
    default, *others = ALGORITHMS[operation.op]
    costs: dict[str, float] = {}
    for algorithm in others:
        if all(need.holds(machine) for need in algorithm.requires):
            limit = min(costs.values(), default=inf)
            costs[algorithm.name] = algorithm.cycles(operation, machine, limit)
    limit = min(costs.values(), default=inf)
    if limit == inf:
        return default
    decision = operation.op.removeprefix("ftm.").replace("_", "-")
    if costs.get(machine.choice(decision), inf) == inf:  # else the user has ruled it out
        costs = {default.name: default.cycles(operation, machine, limit), **costs}
    subject = " by ".join("x".join(map(str, t.view.sizes)) for t in operation.tensors[:2])
    chosen = choose(machine, decision, subject, costs)
    return next(each for each in (default, *others) if each.name == chosen)


def take_defaults(function: LinalgFunction, machine: MachineParameters) -> LinalgFunction:
    """Rewrite all named operations by their default algorithm; for another attempt to compile."""
    del machine
    named = [item for item in function.body if isinstance(item, Statement) and _is_open(item)]
    for operation in named:
        ALGORITHMS[operation.op][0].apply(function, operation)
    _take_defaults_in_loops(function)
    return function


def _take_defaults_in_loops(function: LinalgFunction) -> None:
    for item in function.body:
        if isinstance(item, SequentialLoop):
            for operation in list(item.body.body):
                if isinstance(operation, Statement) and _is_open(operation):
                    ALGORITHMS[operation.op][0].apply(item.body, operation)
            _take_defaults_in_loops(item.body)


def _is_open(statement: Statement) -> bool:
    """Return whether a statement is a named operation with an expansion."""
    return statement.op in ALGORITHMS and len(statement.tensors) == 3
