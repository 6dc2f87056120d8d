"""Pass ``fuse-elementwise-producers``: what follows a product computes its other operands from the
program's inputs where it reads them.

An optimizer scales a parameter and its state before it adds what the gradient makes: ``p * decay``
and ``v * beta`` need no product. The update runs on the product's tiles, before the gradient is
stored, and reads what it adds to from memory. As statements of their own the scalings are a pass
over memory, and what they make is read once more.
"""

from __future__ import annotations

from collections import Counter

from ftm_backend.ir.linalg.affine import digits, volume
from ftm_backend.ir.linalg.function import (
    FunctionResult,
    LinalgFunction,
    Node,
    Operand,
    Statement,
    Value,
    walk,
)
from ftm_backend.midend.analysis.body_cost import operations
from ftm_backend.midend.schedule.gemm.contraction import match
from ftm_backend.symbolic import guarded_equal, is_integer
from ftm_backend.target.presets import MachineParameters

__all__ = ["fuse_elementwise_producers"]

_MOST_INLINED = 64
"""Operations of what is computed in the place of an operand: scalings are a few, and a long chain
is worth a pass over memory."""


def fuse_elementwise_producers(
    function: LinalgFunction, machine: MachineParameters
) -> LinalgFunction:
    """``function``, rewritten in place; what is in a repeat stays as it is."""
    del machine
    readers = Counter(value for item in function.body for value in item.reads())
    readers.update(tensor.value for tensor in function.results)
    entering = set(function.inputs)
    scaled: dict[Value, Statement] = {}  # computed from one input, and read once
    length: dict[Value, int] = {}  # of these: how many operations make them from the input
    products: set[Value] = set()  # and what is computed from their elements
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
        elif _is_from(item, entering, scaled) and readers[item.results[0].value] == 1:
            value = item.results[0].value
            length[value] = operations([item]) + length.get(item.operands[0].value, 0)
            if length[value] <= _MOST_INLINED:
                scaled[value] = item
    left = {value for item in function.body for value in item.reads()}.union(
        tensor.value for tensor in function.results
    )
    gone = {id(statement) for value, statement in scaled.items() if value not in left}
    function.body = [item for item in function.body if id(item) not in gone]
    return function


def _is_elementwise(statement: Statement) -> bool:
    """Whether it computes each element by itself, from operands at affine places."""
    return bool(statement.results) and not (
        statement.is_reduction or statement.gathers or statement.op.startswith("ftm.")
    )


def _is_from(statement: Statement, entering: set[Value], scaled: dict[Value, Statement]) -> bool:
    """Whether it computes one tensor from one of the inputs, or of those computed so, at the
    element that it writes."""
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
    """Whether it reads each element of an operand at one point of its loops."""
    order = (
        digits(statement.loops, operand.index) if all(map(is_integer, statement.loops)) else None
    )
    return order is not None and statement.volume == volume(operand.value.shape) == volume(
        [statement.loops[k] for k in order]
    )


def _inlined(statement: Statement, scaled: dict[Value, Statement]) -> Statement:
    """The statement with bodies in the place of elements of ``scaled`` that it reads once each;
    itself if it reads none."""
    inlined = {
        o.value for o in statement.operands if o.value in scaled and _reads_each_once(statement, o)
    }
    if not inlined:
        return statement
    done: dict[Node, Node] = {}
    operands: dict[int, Operand] = {}

    def element(operand: Operand) -> Node:
        """The element that an operand is, computed."""
        if operand.value not in inlined:
            operands[id(operand)] = operand
            return Node("in", operand.value.dtype, payload=operand)
        maker = scaled[operand.value]
        (result,), (source,) = maker.results, maker.operands
        made: dict[Node, Node] = {}
        inlined.update({source.value} & scaled.keys())
        inner = element(Operand(source.value, operand.index))
        for node in walk([result.yields]):
            made[node] = inner if node.op == "in" else _over(node, made)
        return made[result.yields]

    for node in walk(result.yields for result in statement.results):
        done[node] = element(node.payload) if node.op == "in" else _over(node, done)
    results = [
        FunctionResult(r.value, r.index, r.indices, done[r.yields], r.combine, r.init)
        for r in statement.results
    ]
    made = Statement(
        "linalg.generic", statement.loops, statement.reduced, list(operands.values()), results
    )
    for result in results:
        result.value.producer = made
    return made


def _over(node: Node, done: dict[Node, Node]) -> Node:
    """The node with others in the place of its operands."""
    return (
        Node(node.op, node.dtype, tuple(done[each] for each in node.operands), node.payload)
        if node.operands
        else node
    )
