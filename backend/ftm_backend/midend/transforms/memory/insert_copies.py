"""Pass ``insert-copies``: make in-place writes safe, and remove dead operations.

Example: ``y = x.clone(); y[0] = 1`` while ``x`` is still read. The update gets a copy as its base,
and nothing else uses the copy.

Afterwards:

- a loop nest computes each part of an update, and stores it in its own shape;
- nothing else uses the base of an update, a scatter or a wait for a collective;
- a program does not wait for a collective whose result it only returns: its caller does;
- a tensor that is read as a whole, or through a window, is in memory;
- an operation of its own computes each result, in order;
- each operation is needed for a result, or has an effect.

Changes the function in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import (
    COLLECTIVE_START,
    COLLECTIVE_WAIT,
    IN_PLACE,
    LinalgFunction,
    Node,
    Operand,
    SequentialLoop,
    Statement,
    Tensor,
    Update,
    Value,
    WindowPart,
    copy_statement,
    has_effect,
)
from ftm_backend.ir.linalg.named_ops import CONV_TRANSPOSE
from ftm_backend.ir.linalg.strided_view import Strided, compose
from ftm_backend.midend.analysis.use_def import FunctionUses
from ftm_backend.target.presets import MachineParameters

_MAX_VISITED = 256
"""Operations that the search for a dependence visits; beyond, a copy is made, which is safe."""


def insert_copies(function: LinalgFunction, machine: MachineParameters) -> LinalgFunction:
    """Return ``function`` with copies where an in-place write needs them."""
    del machine
    _InPlaceResolver(function).run()
    drop_unused(function)
    _return_without_waits(function)
    return function


def _return_without_waits(function: LinalgFunction) -> None:
    """Return the result of a collective itself, without a wait, if nothing else reads it."""
    makers = [tensor.value.producer for tensor in function.results]
    if not any(isinstance(maker, Statement) and maker.op == COLLECTIVE_WAIT for maker in makers):
        return
    uses = FunctionUses(function, nested=True)
    removed = set()
    for number, (tensor, wait) in enumerate(zip(function.results, makers, strict=True)):
        if not isinstance(wait, Statement) or wait.op != COLLECTIVE_WAIT:
            continue
        if uses.count(tensor.value) == 1:
            function.results[number] = wait.tensors[0]
            removed.add(wait)
    function.body = [item for item in function.body if item not in removed]


def drop_unused(function: LinalgFunction) -> None:
    """Remove the operations that no result depends on, except those with effects."""
    needed = {t.value for t in function.results}
    kept = []
    for item in reversed(function.body):
        if has_effect(item) or any(v in needed for v in item.writes()):
            if isinstance(item, SequentialLoop):
                _trim(item, needed)
            needed.update(item.reads())
            kept.append(item)
    function.body = kept[::-1]


def _trim(repeat: SequentialLoop, needed: set[Value]) -> None:
    """Remove results of a loop that are neither in ``needed`` nor read by its iterations.

    Also removes what only these depend on.
    """
    body = repeat.body
    while True:
        read = {v.window.value for v in body.inputs if v.window is not None}
        kept = {v for v in repeat.results if v in needed or v in read}
        stored = [
            (t, w) for t, w in zip(body.results, repeat.stores, strict=True) if w.value in kept
        ]
        body.results, repeat.stores = [t for t, _ in stored], [w for _, w in stored]
        drop_unused(body)
        uses = FunctionUses(body)
        inputs = [v for v in body.inputs if uses.is_used(v)]
        if len(inputs) == len(body.inputs):
            break
        body.inputs = inputs
    pairs = [(v, base) for v, base in zip(repeat.results, repeat.bases, strict=True) if v in kept]
    repeat.results, repeat.bases = [v for v, _ in pairs], [base for _, base in pairs]


def _stores_anywhere(statement: Statement) -> bool:
    """Return whether the kernel of a statement can store its results as parts of other tensors."""
    return statement.op.startswith("linalg.") or statement.op == CONV_TRANSPOSE


class _InPlaceResolver:
    """Rewrites one function, or the body of a loop."""

    def __init__(self, function: LinalgFunction, outside: frozenset[Value] = frozenset()) -> None:
        self._function = function
        self._body: list[Statement | Update | SequentialLoop] = []
        self._uses = FunctionUses(function)
        self._inputs = outside.union(function.inputs)
        self._position = {item: k for k, item in enumerate(function.body)}
        self._repeated = -1  # position of the last loop: operations before it run before it
        # bases over which results of a statement are stored
        self._stored: dict[Statement | Update | SequentialLoop, list[Value]] = {}

    def run(self) -> None:
        for item in self._function.body:
            if isinstance(item, Update):
                self._update(item)
            elif isinstance(item, SequentialLoop):
                self._repeat(item)
            elif item.op in IN_PLACE:
                self._own_destination(item)
            elif item.op == COLLECTIVE_START and not item.tensors[0].is_whole:
                self._replace(item, 0, self._copy(item.tensors[0]))
            elif not item.op.startswith("linalg."):
                self._in_memory(item, range(len(item.tensors)))
            self._body.append(item)
        self._return()
        self._function.body = self._body

    # --- updates

    def _update(self, update: Update) -> None:
        self._own_base(update)
        pieces = [piece for part in update.parts for piece in self._pieces(part)]
        update.parts = [self._part(update, piece) for piece in pieces]

    def _pieces(self, part: WindowPart) -> list[WindowPart]:
        """Return the parts of a part that is itself put together only for this update.

        Their producers then store them where they belong. Returns the part if it is another value,
        or if its parts are not strided there.
        """
        value, inner = part.value, part.value.value.producer
        is_composed = isinstance(inner, Update) and not self._exists(inner.base.value)
        if not (is_composed and value.is_whole and self._alone(value.value)):
            return [part]
        assert isinstance(inner, Update)
        places = [compose(piece.place, part.place) for piece in inner.parts]
        if None in places:
            return [part]
        return [
            WindowPart(piece.value, place)
            for piece, place in zip(inner.parts, places, strict=True)
            if place is not None
        ]

    def _part(self, update: Update, part: WindowPart) -> WindowPart:
        value = part.value
        maker = value.value.producer
        if isinstance(maker, Statement) and _stores_anywhere(maker) and value.is_whole:
            place = (
                part.place
                if part.place.sizes == value.value.shape
                else part.place.reshape(value.value.shape)
            )
            early = self._position.get(maker, -1) < self._repeated
            if place is not None and not early and not self._depends(update.base.value, maker):
                self._stored.setdefault(maker, []).append(update.base.value)
                return WindowPart(Tensor.whole(value.value), place)
        copied = self._copy(value)
        assert copied.producer is not None
        self._stored.setdefault(copied.producer, []).append(update.base.value)
        return WindowPart(Tensor.whole(copied), part.place)

    def _depends(self, value: Value, on: Statement) -> bool:
        """Return whether ``value`` depends on ``on``, which will store over ``value``.

        The kernel that computes a part of an update also stores it, so it runs after the update's
        base is computed.
        """
        limit = self._position[on]
        seen: set[Statement | Update | SequentialLoop] = set()
        stack = [value]
        while stack:
            maker = stack.pop().producer
            if maker is None or maker in seen:
                continue
            if maker is on or len(seen) == _MAX_VISITED:
                return True
            seen.add(maker)
            bases = self._stored.get(maker, ())
            if bases or isinstance(maker, Update) or self._position.get(maker, limit) > limit:
                stack += maker.reads()
                stack += bases
        return False

    def _own_base(self, update: Update) -> None:
        base = update.base
        if base.value.splat is not None:
            update.base = Tensor.whole(self._filled(base.value.splat, update.result))
        elif self._exists(base.value) and not (self._alone(base.value) and base.is_whole):
            update.base = Tensor.whole(self._copy(base))

    def _alone(self, value: Value) -> bool:
        """Return whether this function computes ``value``, and one operation uses it."""
        return value.producer in self._position and self._uses.count(value) == 1

    def _exists(self, value: Value) -> bool:
        """Return whether ``value`` has elements, and is not only a shape."""
        return value.producer is not None or value.data is not None or value in self._inputs

    # --- repeats

    def _repeat(self, repeat: SequentialLoop) -> None:
        for number, base in enumerate(repeat.bases):
            if base.splat is not None:
                repeat.bases[number] = self._filled(base.splat, repeat.results[number])
            elif self._exists(base) and not self._alone(base):
                repeat.bases[number] = self._copy(Tensor.whole(base))
        for value in repeat.body.inputs:
            window = value.window
            assert window is not None, "an input of a loop's body is a window"
            if window.value.splat is not None:
                value.window = replace(window, value=self._copy(Tensor.whole(window.value)))
        outside = self._inputs.union(self._position_values(), repeat.results)
        _InPlaceResolver(repeat.body, outside).run()
        self._repeated = self._position[repeat]

    def _position_values(self) -> set[Value]:
        """Return the values that this function has computed so far."""
        return {value for item in self._body for value in item.writes()}

    # --- whole tensors

    def _own_destination(self, item: Statement) -> None:
        dest = item.tensors[0]
        if dest.value.splat is not None:
            self._replace(item, 0, self._filled(dest.value.splat, item.results[0].value))
        elif not (self._alone(dest.value) and dest.is_whole):
            self._replace(item, 0, self._copy(dest))
        self._in_memory(item, range(1, len(item.tensors)))

    def _in_memory(self, statement: Statement, numbers: Sequence[int]) -> None:
        for number in numbers:
            if statement.tensors[number].value.splat is not None:
                self._replace(statement, number, self._copy(statement.tensors[number]))

    def _replace(self, statement: Statement, number: int, value: Value) -> None:
        whole = Tensor.whole(value)
        tensors = list(statement.tensors)
        tensors[number] = Tensor(
            value, whole.view.reshape(tensors[number].view.sizes) or whole.view
        )
        statement.tensors = tuple(tensors)
        view = tensors[number].view
        statement.operands[number] = Operand(value, Affine(view.offset, view.strides))

    # --- results

    def _return(self) -> None:
        returned: set[Value] = set()
        for number, tensor in enumerate(self._function.results):
            value = tensor.value
            if value.producer not in self._position or not tensor.is_whole or value in returned:
                tensor = Tensor(self._copy(tensor), Strided.whole(tensor.view.sizes))
            self._function.results[number] = tensor
            returned.add(tensor.value)

    # --- copies

    def _copy(self, tensor: Tensor) -> Value:
        """Insert a copy; return its dense value, which has the view's shape."""
        made = copy_statement(tensor)
        self._position[made] = len(self._position)
        self._body.append(made)
        return made.results[0].value

    def _filled(self, node: Node, like: Value) -> Value:
        return self._copy(Tensor.whole(Value(like.dtype, like.shape, splat=node)))
