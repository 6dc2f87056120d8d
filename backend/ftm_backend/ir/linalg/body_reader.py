"""Reads the operations of a linalg body, and scalar operations outside of bodies, as nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ftm_backend.dtypes import MACHINE
from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.body_builder import constant, gather_index, operation
from ftm_backend.ir.linalg.function import Node, Tensor, Value, walk
from ftm_backend.mlir import ir
from ftm_backend.mlir_stubs import Attribute, Operation, Type

_TOKENS = frozenset(facts.builtin for facts in MACHINE)


def token(element_type: Type) -> str:
    """Return the dtype token of an MLIR element type; ``index`` is ``i64``.

    Raises:
        ValueError: The type has no counterpart on the machine.
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
    """Make a constant node from an MLIR attribute or a Python number."""
    return constant(
        attribute if isinstance(attribute, (bool, int, float)) else attribute.value, dtype
    )


class BodyReader:
    """Reads one block into nodes.

    Args:
        scalars: Nodes of the scalars that are defined outside of the block.
        tensors: Tensors that are defined outside of the block, for ``tensor.extract``.
        rank: Number of loops of the statement.
        gathers: Receives the values that ``tensor.extract`` reads at computed indices.
        copy: Materializes a tensor in memory and returns it.
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
        self._nodes: dict[ir.Value, Node] = {}

    def block(self, block: ir.Block, arguments: Sequence[Node]) -> list[Node]:
        """Read a block whose arguments are ``arguments`` and return the nodes that it yields."""
        self._nodes.update(zip(block.arguments, arguments, strict=True))
        for op in block.operations:
            if op.operation.name == "linalg.yield":
                return [self._node(o) for o in op.operands]
            self._nodes[op.results[0]] = self.operation(op)
        raise ValueError("a linalg body without linalg.yield")

    def operation(self, op: Operation) -> Node:
        """Return the node of one scalar operation.

        Raises:
            ValueError: A map body cannot hold the operation.
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
                f"{name} in the body of a linalg operation: only arith, math, linalg.index, "
                "tensor.extract and ftm.philox can be lowered"
            )
        predicate = (
            op.attributes["predicate"].value if name in ("arith.cmpf", "arith.cmpi") else None
        )
        return operation(name, dtype, operands, predicate)

    def _node(self, ssa: ir.Value) -> Node:
        node = self._nodes.get(ssa)
        return self._outside[ssa] if node is None else node

    def _extract(self, op: Operation) -> Node:
        tensor = self._tensors[op.operands[0]]
        indices = [self._node(o) for o in list(op.operands)[1:]]
        if tensor.value.splat is not None:
            # An index that depends on data must fault if it is out of bounds, even though every
            # element of the tensor is the same number. So such a tensor is put into memory.
            depends_on_data = any(n.op in ("in", "gather", "carry") for n in walk(indices))
            if self._copy is None or not depends_on_data:
                return tensor.value.splat
            tensor = self._copy(tensor)
        self._gathers.append(tensor.value)
        view = tensor.view
        return Node(
            "gather",
            tensor.value.dtype,
            (gather_index(indices, view.sizes, view.strides, view.offset),),
            tensor.value,
        )
