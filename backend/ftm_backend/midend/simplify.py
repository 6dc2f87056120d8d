"""Pass ``simplify``: every operation in a form that ``reader.py`` reads.

Afterwards the function holds structured linalg, ``ftm.view``, ``ftm.update``, ``ftm.scatter``, constants and
scalar math, with these guarantees:
 - a view's base is no view: views of views are composed, or the inner one is copied where no strides can say it;
 - what only moves elements (transpose, broadcast, slices, reshapes, copying generics) is a view;
 - the value of an update comes from a computing operation, its base belongs to the update alone, so the
   update can happen in place;
 - each returned tensor is computed by an operation of its own, in order, or is a dense view of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend import dialect
from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.affine import MapReader, row_major, volume
from ftm_backend.midend.views import View, compose
from ftm_backend.mlir import ir, linalg, tensor

COMPUTING = ("linalg.", "ftm.scatter", "ftm.update", "ftm.scan", "ftm.sort")
"""Prefixes of operations that compute a tensor into a buffer of its own."""


def simplify(module: ir.Module, machine: MachineParameters) -> None:
    """Brings every function of ``module`` into the form above."""
    del machine
    with module.context, ir.Location.unknown():
        for function in module.body.operations:
            if function.operation.name == "func.func" and len(function.regions[0].blocks):
                _Simplifier(function.regions[0].blocks[0]).run()


class _Simplifier:
    def __init__(self, block: ir.Block):
        self._block = block
        self._views: dict[ir.Value, tuple[ir.Value, View]] = {}  # a view's base and shape
        self._copies: dict[ir.Value, ir.Value] = {}
        self._maps = MapReader()
        self._i64 = ir.IntegerType.get_signless(64)

    def run(self) -> None:
        for op in list(self._block.operations):
            rewrite = _REWRITES.get(op.operation.name)
            if rewrite is not None:
                with ir.InsertionPoint(op):
                    rewrite(self, op)
        self._erase_unused()

    # --- views -----------------------------------------------------------------------------------------

    def _make_view(self, base: ir.Value, view: View, result_type: ir.Type) -> ir.Value:
        """A view of ``base``, which may itself be a view."""
        if base in self._views:
            root, inner = self._views[base]
            composed = compose(view, inner)
            if composed is None:
                root, composed = self._copy_once(base), view
            base, view = root, composed
        strides = tuple(0 if n == 1 else s for n, s in zip(view.shape, view.strides, strict=True))
        result = dialect.View(
            result_type, base, ir.IntegerAttr.get(self._i64, view.offset),
            strides=ir.DenseI64ArrayAttr.get(list(strides))).result
        self._views[result] = (base, view)
        return result

    def _replace_by_view(self, op: ir.Operation, base: ir.Value, view: View) -> None:
        result = op.results[0]
        if view.is_dense and base.type == result.type:
            result.replace_all_uses_with(base)
        else:
            result.replace_all_uses_with(self._make_view(base, view, result.type))
        op.operation.erase()

    def _view(self, op: ir.Operation) -> None:
        shape = tuple(ir.RankedTensorType(op.results[0].type).shape)
        view = View(shape, op.attributes["offset"].value, tuple(op.attributes["strides"]))
        base = op.operands[0]
        if base in self._views or (view.is_dense and base.type == op.results[0].type):
            self._replace_by_view(op, base, view)
        else:
            self._views[op.results[0]] = (base, view)

    def _reshape(self, op: ir.Operation) -> None:
        self._replace_by_view(op, op.operands[0], View.dense(ir.RankedTensorType(op.results[0].type).shape))

    def _extract_slice(self, op: ir.Operation) -> None:
        view = _slice(op, ir.RankedTensorType(op.operands[0].type).shape, ir.RankedTensorType(op.results[0].type).shape)
        self._replace_by_view(op, op.operands[0], view)

    def _transpose(self, op: ir.Operation) -> None:
        base = op.operands[0]
        strides = row_major(ir.RankedTensorType(base.type).shape)
        shape = tuple(ir.RankedTensorType(op.results[0].type).shape)
        order = tuple(op.attributes["permutation"])
        self._replace_by_view(op, base, View(shape, 0, tuple(strides[k] for k in order)))

    def _broadcast(self, op: ir.Operation) -> None:
        base = op.operands[0]
        strides = iter(row_major(ir.RankedTensorType(base.type).shape))
        shape = tuple(ir.RankedTensorType(op.results[0].type).shape)
        added = set(op.attributes["dimensions"])
        self._replace_by_view(op, base, View(shape, 0, tuple(0 if k in added else next(strides) for k in range(len(shape)))))

    def _generic(self, op: ir.Operation) -> None:
        """A generic that yields an input as it is only moves elements: a view, if its result is dense."""
        for inner in op.regions[0].blocks[0].operations:
            if inner.operation.name == "tensor.extract":
                self._extracted(inner)
        self._forget_unread(op)
        if len(op.results) != 1 or len(op.operands) != 2:
            return
        block = op.regions[0].blocks[0]
        last = block.operations[0]
        if last.operation.name != "linalg.yield" or last.operands[0] != block.arguments[0]:
            return
        if any("parallel" not in str(kind) for kind in op.attributes["iterator_types"]):
            return
        source, target = (self._maps(a.value) for a in op.attributes["indexing_maps"])
        places = [t.coeffs.index(1) for t in target if t.const == 0 and sorted(t.coeffs)[-1:] == [1] and sum(map(abs, t.coeffs)) == 1]
        if len(places) != len(target) or sorted(places) != list(range(len(op.attributes["iterator_types"]))):
            return
        base = op.operands[0]
        strides = row_major(ir.RankedTensorType(base.type).shape)
        offset = sum(s.const * step for s, step in zip(source, strides, strict=True))
        per_loop = [sum(s.coeffs[k] * step for s, step in zip(source, strides, strict=True)) for k in range(len(places))]
        shape = tuple(ir.RankedTensorType(op.results[0].type).shape)
        self._replace_by_view(op, base, View(shape, offset, tuple(per_loop[k] for k in places)))

    def _forget_unread(self, op: ir.Operation) -> None:
        """Operands that the body never reads only say how long loops are: whatever made them is not needed."""
        block = op.regions[0].blocks[0]
        for k, argument in enumerate(block.arguments):
            operand = op.operands[k]
            if not _defines(operand, "tensor.empty") and not any(True for _ in argument.uses):
                kind = ir.RankedTensorType(operand.type)
                op.operands[k] = tensor.EmptyOp(list(kind.shape), kind.element_type).result

    def _extracted(self, extract: ir.Operation) -> None:
        """What is read at a place that the data says is in memory, even where it holds one number throughout:
        a place outside of it has to fault."""
        root, _ = self._views.get(extract.operands[0], (extract.operands[0], None))
        if _is_splat(root) and _reads_data(list(extract.operands)[1:]):
            extract.operands[0] = self._copy(extract.operands[0])

    # --- updates ---------------------------------------------------------------------------------------

    def _pad(self, op: ir.Operation) -> None:
        base, result = op.operands[0], op.results[0]
        fill = op.regions[0].blocks[0].operations
        terminator = fill[len(fill) - 1]
        if terminator.operation.name != "tensor.yield" or terminator.operands[0].owner == op.regions[0].blocks[0]:
            raise ValueError("tensor.pad with a computed padding value; only a value from outside can be lowered")
        shape = tuple(ir.RankedTensorType(result.type).shape)
        strides = row_major(shape)
        low = tuple(op.attributes["static_low"])
        if min((*low, *op.attributes["static_high"]), default=0) < 0:
            raise ValueError("tensor.pad with dynamic or negative padding cannot be lowered: slice instead")
        padding = terminator.operands[0]
        filled = self._fill(padding, result.type)
        offset = sum(p * s for p, s in zip(low, strides, strict=True))
        updated = self._make_update(filled, base, offset, strides)
        result.replace_all_uses_with(updated)
        op.operation.erase()

    def _fill(self, value: ir.Value, result_type: ir.Type) -> ir.Value:
        empty = tensor.EmptyOp(list(ir.RankedTensorType(result_type).shape), ir.RankedTensorType(result_type).element_type)
        return linalg.fill(value, outs=[empty.result])

    def _insert_slice(self, op: ir.Operation) -> None:
        view = _slice(op, ir.RankedTensorType(op.operands[1].type).shape, ir.RankedTensorType(op.operands[0].type).shape)
        result = op.results[0]
        result.replace_all_uses_with(self._make_update(op.operands[1], op.operands[0], view.offset, view.strides))
        op.operation.erase()

    def _make_update(self, base: ir.Value, value: ir.Value, offset: int, strides: Sequence[int]) -> ir.Value:
        update = dialect.Update(
            base.type, base, value, ir.IntegerAttr.get(self._i64, offset), strides=ir.DenseI64ArrayAttr.get(list(strides)))
        with ir.InsertionPoint(update):
            self._update(update)
        return update.result

    def _update(self, op: ir.Operation) -> None:
        value = op.operands[1]
        plain = _is_computed(value, ("linalg.",)) and not _defines(value, "linalg.fill")
        if not plain or _depends(op.operands[0], value.owner):
            op.operands[1] = self._copy(value)
        self._own_base(op)

    def _scatter(self, op: ir.Operation) -> None:
        for k in (1, 2):
            root, _ = self._views.get(op.operands[k], (op.operands[k], None))
            if _is_splat(root):
                op.operands[k] = self._copy(op.operands[k])
        self._own_base(op)

    def _rows(self, op: ir.Operation) -> None:
        """A scan or sort reads a tensor in memory."""
        root, _ = self._views.get(op.operands[0], (op.operands[0], None))
        if _is_splat(root):
            op.operands[0] = self._copy(op.operands[0])

    def _own_base(self, op: ir.Operation) -> None:
        """Gives an update or scatter, which writes over its first operand, one that nobody else reads."""
        base = op.operands[0]
        users = [use for use in base.uses]
        if _defines(base, "linalg.fill"):
            if len(users) > 1:
                op.operands[0] = base.owner.clone().results[0]
        elif not _defines(base, "tensor.empty") and (len(users) > 1 or not _is_computed(base, COMPUTING)):
            op.operands[0] = self._copy(base)

    def _return(self, op: ir.Operation) -> None:
        returned: set[ir.Value] = set()
        for k, value in enumerate(list(op.operands)):
            root, view = self._views.get(value, (value, None))
            computed = _is_computed(root, COMPUTING) and (view is None or _covers(view, root))
            if _defines(root, "linalg.fill") and (view is not None or len(list(root.uses)) > 1):
                computed = False
            if not computed or root in returned:
                op.operands[k] = root = self._copy(value)
            returned.add(root)

    # --- copies ----------------------------------------------------------------------------------------

    def _copy(self, value: ir.Value) -> ir.Value:
        """A dense copy of ``value`` at the insertion point."""
        kind = ir.RankedTensorType(value.type)
        rank = len(kind.shape)
        identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))
        parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
        empty = tensor.EmptyOp(list(kind.shape), kind.element_type)
        op = linalg.GenericOp(
            [kind], [value], [empty.result], ir.ArrayAttr.get([identity, identity]), ir.ArrayAttr.get([parallel] * rank))
        block = op.regions[0].blocks.append(kind.element_type, kind.element_type)
        with ir.InsertionPoint(block):
            linalg.YieldOp([block.arguments[0]])
        return op.results[0]

    def _copy_once(self, value: ir.Value) -> ir.Value:
        """The copy of a view, placed right after the view so that all its users can share it."""
        known = self._copies.get(value)
        if known is None:
            after = value.owner
            known = self._copy(value)
            copy = known.owner
            copy.move_after(after)
            copy.operands[1].owner.move_before(copy)
            self._copies[value] = known
        return known

    def _erase_unused(self) -> None:
        for op in reversed(list(self._block.operations)):
            if op.operation.name != "func.return" and not any(True for r in op.results for _ in r.uses):
                op.operation.erase()


def _defines(value: ir.Value, name: str) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == name


def _is_computed(value: ir.Value, prefixes: tuple[str, ...]) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name.startswith(prefixes)


def _depends(value: ir.Value, on: ir.Operation) -> bool:
    """Whether computing ``value`` needs the result of ``on``, which will be stored over ``value``.

    The kernel that computes the value of an update also writes it, so it comes after the update's base.
    """
    seen: set[ir.Operation] = set()
    stack = [value]
    while stack:
        owner = stack.pop().owner
        if isinstance(owner, ir.Block) or owner in seen:
            continue
        if owner == on:
            return True
        seen.add(owner)
        if not on.is_before_in_block(owner) and not any(_updated_bases(owner)):
            continue
        stack += owner.operands
        stack += [
            inner.operands[0] for region in owner.regions for block in region.blocks for inner in block.operations
            if inner.operation.name == "tensor.extract"]
        stack += _updated_bases(owner)
    return False


def _updated_bases(op: ir.Operation) -> list[ir.Value]:
    """Tensors over which the results of ``op`` are stored."""
    return [
        use.owner.operation.operands[0] for result in op.results for use in result.uses
        if use.owner.operation.name == "ftm.update" and use.owner.operation.operands[1] == result]


def _is_splat(value: ir.Value) -> bool:
    """Whether readers see a constant instead of a tensor in memory."""
    if _defines(value, "arith.constant"):
        return value.owner.attributes["value"].is_splat
    return _defines(value, "linalg.fill")


def _reads_data(values: Sequence[ir.Value]) -> bool:
    """Whether any of ``values``, which are computed in the body of a generic, depends on an element of a tensor."""
    seen: set[ir.Value] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, ir.Block):
            if owner.owner.name == "linalg.generic":
                return True
        elif owner.name == "tensor.extract":
            return True
        else:
            stack += owner.operands
    return False


def _covers(view: View, base: ir.Value) -> bool:
    return view.is_dense and volume(view.shape) == volume(ir.RankedTensorType(base.type).shape)


def _slice(op: ir.Operation, whole: Sequence[int], part: Sequence[int]) -> View:
    """The view that an extract_slice or insert_slice addresses; ``part`` may lack dimensions of size 1."""
    offsets, sizes, steps = (tuple(op.attributes[f"static_{k}"]) for k in ("offsets", "sizes", "strides"))
    if min((*offsets, *sizes), default=0) < 0:
        raise ValueError(f"{op.operation.name} with dynamic offsets or sizes cannot be lowered")
    flat = row_major(whole)
    offset = sum(o * s for o, s in zip(offsets, flat, strict=True))
    # Extents of 1 that are dropped have no say in the address, so any match of the others is right.
    steps_flat = [a * b for a, b in zip(steps, flat, strict=True)]
    strides, k = [], len(sizes) - 1
    for extent in reversed(part):
        while sizes[k] != extent:
            k -= 1
        strides.append(steps_flat[k])
        k -= 1
    return View(tuple(part), offset, tuple(reversed(strides)))


_REWRITES: dict[str, Callable[[_Simplifier, ir.Operation], None]] = {
    "ftm.view": _Simplifier._view,
    "tensor.expand_shape": _Simplifier._reshape,
    "tensor.collapse_shape": _Simplifier._reshape,
    "tensor.extract_slice": _Simplifier._extract_slice,
    "tensor.insert_slice": _Simplifier._insert_slice,
    "tensor.pad": _Simplifier._pad,
    "linalg.transpose": _Simplifier._transpose,
    "linalg.broadcast": _Simplifier._broadcast,
    "linalg.generic": _Simplifier._generic,
    "ftm.update": _Simplifier._update,
    "ftm.scatter": _Simplifier._scatter,
    "ftm.scan": _Simplifier._rows,
    "ftm.sort": _Simplifier._rows,
    "func.return": _Simplifier._return,
}
