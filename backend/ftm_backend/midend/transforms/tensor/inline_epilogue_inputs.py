"""Pass ``inline-epilogue-inputs``: inline scalings into the matmul epilogue that reads them.

Example: an optimizer computes ``p * decay - lr * (x.T @ dy)``. ``p * decay`` depends only on inputs
of the program. Inlined, the update runs on the matmul's tiles before they are stored. As a
statement of its own it is a pass over memory, and its result is read again.

Changes the function in place.
"""

from __future__ import annotations

from ftm_backend.ir.linalg.affine import digits, volume
from ftm_backend.ir.linalg.body_builder import inlined, substitute
from ftm_backend.ir.linalg.function import (
    LinalgFunction,
    Node,
    Operand,
    Statement,
    Value,
    walk,
)
from ftm_backend.midend.analysis.body_cost import operations
from ftm_backend.midend.analysis.use_def import FunctionUses
from ftm_backend.midend.schedule.gemm.contraction import match
from ftm_backend.symbolic import guarded_equal, is_integer
from ftm_backend.target.presets import MachineParameters

__all__ = ["inline_epilogue_inputs"]

_MOST_INLINED = 64
"""Largest number of operations to inline: scalings have few, and a long chain is worth a pass over
memory."""


def inline_epilogue_inputs(function: LinalgFunction, machine: MachineParameters) -> LinalgFunction:
    """Inline such producers, except inside of sequential loops."""
    del machine
    uses = FunctionUses(function)
    entering = set(function.inputs)
    scaled: dict[Value, Statement] = {}  # computed from one input, and read once
    length: dict[Value, int] = {}  # of these: operations from the input on
    products: set[Value] = set()  # and values computed from their elements
    for position, item in enumerate(function.body):
        if not isinstance(item, Statement):
            continue
        if item.volume and match(item) is not None:
            products.update(item.writes())
        elif not _is_elementwise(item):
            continue
        elif any(
            o.value in products and guarded_equal(volume(o.value.shape), item.volume)
            for o in item.operands
        ):
            function.body[position] = _inlined(item, scaled)
            products.update(item.writes())
        elif _is_from(item, entering, scaled) and uses.count(item.results[0].value) == 1:
            value = item.results[0].value
            length[value] = operations([item]) + length.get(item.operands[0].value, 0)
            if length[value] <= _MOST_INLINED:
                scaled[value] = item
    uses = FunctionUses(function)
    gone = {id(statement) for value, statement in scaled.items() if not uses.is_used(value)}
    function.body = [item for item in function.body if id(item) not in gone]
    return function


def _is_elementwise(statement: Statement) -> bool:
    """Return whether each element is computed independently, from affine accesses."""
    return bool(statement.results) and not (
        statement.is_reduction or statement.gathers or statement.op.startswith("ftm.")
    )


def _is_from(statement: Statement, entering: set[Value], scaled: dict[Value, Statement]) -> bool:
    """Return whether a statement computes one tensor from one other, element by element.

    Args:
        statement: The statement.
        entering: Inputs of the function.
        scaled: Values that are computed from these in the same way.
    """
    if (
        len(statement.results) != 1
        or len(statement.operands) != 1
        or not all(map(is_integer, statement.loops))
    ):
        return False
    (result,), (operand,) = statement.results, statement.operands
    alone = all(node.op != "index" for node in walk([result.yields]))
    known = operand.value in entering or operand.value in scaled
    whole = all(
        guarded_equal(statement.volume, volume(value.shape))
        for value in (result.value, operand.value)
    )
    return (
        alone
        and known
        and whole
        and operand.value.border is None
        and operand.index.guarded_equal(result.index)
    )


def _reads_each_once(statement: Statement, operand: Operand) -> bool:
    """Return whether a statement reads each element of an operand exactly once."""
    order = (
        digits(statement.loops, operand.index) if all(map(is_integer, statement.loops)) else None
    )
    return order is not None and statement.volume == volume(operand.value.shape) == volume(
        [statement.loops[k] for k in order]
    )


def _inlined(statement: Statement, scaled: dict[Value, Statement]) -> Statement:
    """Return the statement with the bodies of those in ``scaled`` that it reads inlined.

    Only operands whose elements it reads once are inlined; without any, it is the same statement.
    """
    makers = {
        o.value: scaled[o.value]
        for o in statement.operands
        if o.value in scaled and _reads_each_once(statement, o)
    }
    if not makers:
        return statement

    def element(operand: Operand) -> Node:
        """Return the body that computes the element of an operand."""
        if operand.value not in makers:
            return Node("in", operand.value.dtype, payload=operand)
        (result,), (source,) = makers[operand.value].results, makers[operand.value].operands
        if source.value in scaled:
            makers[source.value] = scaled[source.value]
        inner = element(Operand(source.value, operand.index))
        return substitute([result.yields], lambda n: inner if n.op == "in" else None)[result.yields]

    # the bodies complete the makers
    return inlined(
        statement, lambda n: element(n.payload) if n.op == "in" else None, makers.values()
    )
