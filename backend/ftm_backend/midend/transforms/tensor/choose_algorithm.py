"""Pass ``choose-algorithm``: choose the cheapest algorithm of each named operation.

Example: the gradient of a convolution's input is ``ftm.conv_transpose``. On a machine whose DMA
overlaps compute it can be one matmul with col2im, or a convolution for each sub-pixel phase. Each
of these convolutions is then a contraction over windows, or computed by Winograd's algorithm. The
registry (``midend/algorithms``) lists the algorithms of each operation with their costs.

Changes the function in place. Afterwards no operation has an expansion.
"""

from __future__ import annotations

from math import inf

from ftm_backend.ir.linalg.function import LinalgFunction, SequentialLoop, Statement
from ftm_backend.midend.algorithms.algorithm import Algorithm
from ftm_backend.midend.algorithms.registry import NAMED_OPERATIONS
from ftm_backend.midend.analysis.structural_key import statement_key
from ftm_backend.midend.schedule.choose_by_cost import choose
from ftm_backend.midend.transforms.memory.insert_copies import drop_unused
from ftm_backend.target.presets import MachineParameters

__all__ = ["choose_algorithm", "take_defaults"]


def choose_algorithm(function: LinalgFunction, machine: MachineParameters) -> LinalgFunction:
    """Rewrite named operations; inside of sequential loops by their default algorithm.

    Equal layers of a network are estimated once.
    """
    estimated: dict[str, dict[str, float]] = {}
    for name in NAMED_OPERATIONS:
        operations = _open_operations(function, name)
        for operation in operations:
            key = statement_key(operation)[0]
            if key not in estimated:
                estimated[key] = _costs(operation, machine)
            _choice(operation, machine, estimated[key]).apply(function, operation)
        if _open_operations(function, name) != operations:
            drop_unused(function)
    _take_defaults_in_loops(function)
    return function


def _open_operations(function: LinalgFunction, name: str) -> list[Statement]:
    """Return the operations of one name whose algorithm is not chosen yet."""
    operands = NAMED_OPERATIONS[name].operands
    return [
        item
        for item in function.body
        if isinstance(item, Statement) and item.op == name and len(item.tensors) == operands
    ]


def _costs(operation: Statement, machine: MachineParameters) -> dict[str, float]:
    """Return the cycles of each algorithm that can be chosen.

    The default is only estimated if another one is possible.
    """
    named = NAMED_OPERATIONS[operation.op]
    default, *others = named.algorithms
    wanted = machine.choice(named.decision)
    costs: dict[str, float] = {}
    for algorithm in others:
        is_candidate = algorithm.name == wanted or not algorithm.needs_request(operation, machine)
        if is_candidate and all(need.holds(machine) for need in algorithm.requires):
            limit = min(costs.values(), default=inf)
            costs[algorithm.name] = algorithm.cycles(operation, machine, limit)
    limit = min(costs.values(), default=inf)
    if limit < inf and costs.get(wanted, inf) == inf:  # else the user has ruled the default out
        costs = {default.name: default.cycles(operation, machine, limit), **costs}
    return costs


def _choice(operation: Statement, machine: MachineParameters, costs: dict[str, float]) -> Algorithm:
    """Return the cheapest algorithm, or the one that the user has chosen."""
    named = NAMED_OPERATIONS[operation.op]
    if min(costs.values(), default=inf) == inf:
        costs = {named.algorithms[0].name: 0.0}  # not compared with another one
    subject = " by ".join("x".join(map(str, t.view.sizes)) for t in operation.tensors[:2])
    chosen = choose(machine, named.decision, subject, costs, lambda: _all_costs(operation, machine))
    return next(each for each in named.algorithms if each.name == chosen)


def _all_costs(operation: Statement, machine: MachineParameters) -> dict[str, float]:
    """Return the cycles of all algorithms of an operation, for an explanation."""
    return {
        algorithm.name: algorithm.cycles(operation, machine, inf)
        if all(need.holds(machine) for need in algorithm.requires)
        else inf
        for algorithm in NAMED_OPERATIONS[operation.op].algorithms
    }


def take_defaults(function: LinalgFunction, machine: MachineParameters) -> LinalgFunction:
    """Rewrite all named operations by their default algorithm; for another attempt to compile."""
    del machine
    _take_defaults_of(function)
    return function


def _take_defaults_of(function: LinalgFunction) -> None:
    for name, named in NAMED_OPERATIONS.items():
        for operation in _open_operations(function, name):
            named.algorithms[0].apply(function, operation)
    _take_defaults_in_loops(function)


def _take_defaults_in_loops(function: LinalgFunction) -> None:
    for item in function.body:
        if isinstance(item, SequentialLoop):
            _take_defaults_of(item.body)
