"""Reads the operations of a linalg body, and scalar operations outside, as nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ftm_backend.dtypes import MACHINE
from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Node, Tensor, Value, walk
from ftm_backend.ir.linalg.scalar_nodes import constant, gather_place, operation
from ftm_backend.mlir import ir
from ftm_backend.mlir_stubs import Attribute, Operation, Type

__all__ = ["BodyReader", "constant_node", "token"]

_TOKENS = frozenset(facts.builtin for facts in MACHINE)


def token(element_type: Type) -> str:
    """The dtype token of an element type; ``index`` is ``i64``.

    Raises:
        ValueError: a type that no tile can hold.
    """
    text = str(element_type)
    if text == "index":
        return "i64"
    if text not in _TOKENS:
        raise ValueError(
            f"element type {text} has no tile; the midend takes {', '.join(sorted(_TOKENS))}"
        )
    return text


def constant_node(attribute: Attribute, dtype: str) -> Node:
    """A constant from an attribute or a Python number."""
    return constant(
        attribute if isinstance(attribute, (bool, int, float)) else attribute.value, dtype
    )


class BodyReader:
    """Reads one block.

    Args:
        scalars: nodes of the scalars defined outside.
        tensors: what the tensors outside are, for ``tensor.extract``.
        rank: number of loops.
        gathers: receives the values that are read at computed places.
        copy: puts a tensor into memory.
    """

    def __init__(
        self,
        scalars: Mapping[ir.Value, Node],
        tensors: Mapping[ir.Value, Tensor],
        rank: int,
        gathers: list[Value],
        copy: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self._tensors, self._rank, self._gathers, self._copy = tensors, rank, gathers, copy
        self._outside = scalars
        self._known: dict[ir.Value, Node] = {}

    def block(self, block: ir.Block, arguments: Sequence[Node]) -> list[Node]:
        """The yielded nodes, in terms of ``arguments`` for the block's arguments."""
        self._known.update(zip(block.arguments, arguments, strict=True))
        for op in block.operations:
            if op.operation.name == "linalg.yield":
                return [self._node(o) for o in op.operands]
            self._known[op.results[0]] = self.operation(op)
        raise ValueError("a linalg body without linalg.yield")

    def operation(self, op: Operation) -> Node:
        """The node of one element operation.

        Raises:
            ValueError: the operation is not one that a map body can hold.
        """
        name = op.operation.name
        if name == "arith.constant":
            return constant_node(op.attributes["value"], token(op.results[0].type))
        if name == "linalg.index":
            return Node("index", "i64", payload=Affine.loop(op.attributes["dim"].value, self._rank))
        if name == "tensor.extract":
            return self._extract(op)
        operands = tuple(self._node(o) for o in op.operands)
        dtype = token(op.results[0].type)
        if name in ("arith.index_cast", "arith.index_castui"):
            source = operands[0].dtype
            if source == dtype:
                return operands[0]
            widening = "arith.extsi" if name == "arith.index_cast" else "arith.extui"
            return Node(
                widening if int(dtype[1:]) > int(source[1:]) else "arith.trunci", dtype, operands
            )
        if not name.startswith(("arith.", "math.")) and name != "ftm.philox":
            raise ValueError(
                f"{name} in the body of a linalg operation: only arith, math, linalg.index, tensor.extract and ftm.philox can be lowered"
            )
        predicate = (
            op.attributes["predicate"].value if name in ("arith.cmpf", "arith.cmpi") else None
        )
        return operation(name, dtype, operands, predicate)

    def _node(self, ssa: ir.Value) -> Node:
        known = self._known.get(ssa)
        return self._outside[ssa] if known is None else known

    def _extract(self, op: Operation) -> Node:
        tensor = self._tensors[op.operands[0]]
        places = [self._node(o) for o in list(op.operands)[1:]]
        if tensor.value.splat is not None:
            # A place that the data says has to fault where it is outside, even of one number
            # throughout.
            if self._copy is None or not any(
                n.op in ("in", "gather", "carry") for n in walk(places)
            ):
                return tensor.value.splat
            tensor = self._copy(tensor)
        self._gathers.append(tensor.value)
        view = tensor.view
        return Node(
            "gather",
            tensor.value.dtype,
            (gather_place(places, view.sizes, view.strides, view.offset),),
            tensor.value,
        )
