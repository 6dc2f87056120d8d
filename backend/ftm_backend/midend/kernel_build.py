"""Writes clusters of operations as ``ftm.kernel``.

Tensors that a kernel reads are its operands; views of them are repeated inside.  What costs nothing stays
outside and is captured: scalars, constants and splats.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend import dialect
from ftm_backend.midend.cluster import Cluster
from ftm_backend.mlir import ir


class KernelWriter:
    """Moves clusters, in an order in which each comes after those it reads, into kernels before the return.

    Args:
        block: the function's block.
    """

    def __init__(self, block: ir.Block):
        self._block = block
        self._return = block.operations[len(block.operations) - 1]
        self._outer: dict[ir.Value, ir.Value] = {}  # tensor computed in a kernel: the kernel's result
        self._updates: dict[ir.Value, list[ir.Operation]] = {}  # tensor: updates that write it somewhere
        self._users: dict[ir.Value, list[ir.Operation]] = {}
        for op in block.operations:
            if op.operation.name == "ftm.update":
                self._updates.setdefault(op.operands[1], []).append(op)
            for ssa in _reads(op):
                self._users.setdefault(ssa, []).append(op)

    def write(self, cluster: Cluster) -> None:
        """Makes the kernel of one cluster."""
        members: dict[ir.Operation, None] = {}
        for statement in cluster.statements:
            op = statement.source.operation
            members[op] = None
            for result in op.results:
                for update in self._updates.get(result, ()):
                    members[update.operation] = None
        inputs: dict[ir.Value, None] = {}
        views: dict[ir.Value, None] = {}
        for op in members:
            for ssa in _reads(op):
                self._collect(ssa, members, inputs, views)
        outputs = [
            result for op in members for result in op.results
            if any(user.operation not in members for user in self._readers(result))
        ]
        operands = [self._outer.get(ssa, ssa) for ssa in inputs]
        with ir.InsertionPoint(self._return):
            kernel = dialect.Kernel([r.type for r in outputs], operands, ir.StringAttr.get(cluster.kind))
        if cluster.one_core:
            kernel.operation.attributes["one_core"] = ir.UnitAttr.get()
        body = kernel.regions[0].blocks.append(*[o.type for o in operands])
        inside: dict[ir.Value, ir.Value] = dict(zip(inputs, body.arguments, strict=True))
        with ir.InsertionPoint(body):
            terminator = dialect.Yield(outputs)
        views_of: dict[ir.Value, list[ir.Value]] = {}
        for view in views:
            views_of.setdefault(view.owner.operands[0], []).append(view)
        for base, repeated in views_of.items():
            if isinstance(base.owner, ir.Block) or base.owner not in members:
                self._repeat(repeated, terminator, inside)
        for op in members:
            self._move(op, terminator, inside)
            for result in op.results:
                self._repeat(views_of.get(result, ()), terminator, inside)
        for result, outer in zip(outputs, kernel.results, strict=True):
            self._outer[result] = outer

    def finish(self) -> None:
        """Connects the function's results and erases views that are repeated in kernels."""
        for k, ssa in enumerate(list(self._return.operands)):
            if ssa in self._outer:
                self._return.operands[k] = self._outer[ssa]
                continue
            view = ssa.owner
            if not isinstance(view, ir.Block) and view.name == "ftm.view":
                view.operands[0] = self._outer.get(view.operands[0], view.operands[0])
                view.move_before(self._return)
        for op in reversed(list(self._block.operations)):
            if op.operation.name in ("ftm.view", "tensor.empty") and not any(True for _ in op.results[0].uses):
                op.operation.erase()

    def _readers(self, ssa: ir.Value) -> list[ir.Operation]:
        """Operations that read a tensor, through views or directly."""
        readers = []
        for user in self._users.get(ssa, ()):
            readers += self._users.get(user.results[0], ()) if user.operation.name == "ftm.view" else (user,)
        return readers

    def _collect(
        self, ssa: ir.Value, members: dict[ir.Operation, None], inputs: dict[ir.Value, None], views: dict[ir.Value, None]
    ) -> None:
        if ssa in inputs or ssa in views:
            return
        owner = ssa.owner
        if isinstance(owner, ir.Block) or ssa in self._outer:
            inputs[ssa] = None
            return
        if owner in members or is_captured(owner):
            return
        if owner.name == "ftm.view":
            self._collect(owner.operands[0], members, inputs, views)
            views[ssa] = None
        else:
            inputs[ssa] = None

    def _repeat(self, views: Sequence[ir.Value], terminator: ir.Operation, inside: dict[ir.Value, ir.Value]) -> None:
        """Copies views into the kernel, after what they view."""
        for view in views:
            copy = view.owner.clone(ip=ir.InsertionPoint(terminator))
            copy.operands[0] = inside.get(copy.operands[0], copy.operands[0])
            inside[view] = copy.results[0]

    def _move(self, op: ir.Operation, terminator: ir.Operation, inside: dict[ir.Value, ir.Value]) -> None:
        op.move_before(terminator)
        _rewire(op, inside)
        for region in op.regions:
            for block in region.blocks:
                for inner in block.operations:
                    _rewire(inner.operation, inside)


def is_captured(owner: ir.Operation) -> bool:
    """Whether kernels use the result of this operation without taking it as an operand."""
    if owner.name in ("tensor.empty", "linalg.fill"):
        return True
    return owner.name == "arith.constant" and _is_splat(owner.attributes["value"])


def _is_splat(attribute: ir.Attribute) -> bool:
    return not isinstance(attribute, ir.DenseElementsAttr) or attribute.is_splat


def _rewire(op: ir.Operation, inside: dict[ir.Value, ir.Value]) -> None:
    operands = op.operands
    for k in range(len(operands)):
        target = inside.get(operands[k])
        if target is not None:
            operands[k] = target


def _reads(op: ir.Operation) -> Sequence[ir.Value]:
    """The tensors that an operation uses, those that its body extracts from included."""
    reads = [o for o in op.operands if isinstance(o.type, ir.RankedTensorType)]
    for region in op.regions:
        for block in region.blocks:
            reads += [inner.operands[0] for inner in block.operations if inner.operation.name == "tensor.extract"]
    return reads
