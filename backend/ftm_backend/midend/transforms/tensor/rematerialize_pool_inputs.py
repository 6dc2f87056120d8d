"""Pass ``rematerialize-pool-inputs``: recompute the input of a pooling in its kernel.

Example: ``max_pool(pad(relu(a * y + b)))``, where ``a`` and ``b`` come from batch norm. The
backward pass reads ``y``, so it is in DDR anyway. The result of ReLU and the padded copy are two
more tensors of that size. If the pooling computes them from ``y``, neither is stored. It computes
an element once for each window that has it; that cost is compared with the saved traffic.

The padding is recognized on chip by a tensor of ones with a border of zeros, which is loaded
through the same windows.

Changes the function in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.body_builder import operands_of, substitute
from ftm_backend.ir.linalg.function import (
    LinalgFunction,
    Node,
    Operand,
    Statement,
    Update,
    Value,
    walk,
)
from ftm_backend.midend.analysis.use_def import FunctionUses
from ftm_backend.midend.schedule.choose_by_cost import pays
from ftm_backend.midend.schedule.cost import body_cycles, traffic_cycles
from ftm_backend.midend.schedule.gemm.contraction import match
from ftm_backend.midend.transforms.memory.insert_copies import drop_unused
from ftm_backend.midend.transforms.tensor.fold_pad_into_load import MOST_SIDES, around
from ftm_backend.midend.transforms.tensor.producer_inlining import (
    ReadPosition,
    cuts_of,
    element_around,
    inline_element,
    is_elementwise,
    is_whole,
    ones,
)
from ftm_backend.symbolic import is_integer
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["rematerialize_pool_inputs"]

_MOST_PLACES = 64
"""Largest number of elements in a window."""

_MOST_NODES = 64
"""Largest number of operations for an element of a feature map."""

_PARAMETER = 16
"""A tensor with this many times fewer elements than the feature map holds parameters of its
planes."""


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """A tensor that its readers can compute.

    Attributes:
        value: The tensor.
        element: The body of one element, over one loop for each dimension.
        wide: Tensors that the body reads element by element; the others are parameters.
        places: The values in which it is read: itself, and padded copies.
    """

    value: Value
    element: Node
    wide: frozenset[Value]
    places: dict[Value, ReadPosition]


def rematerialize_pool_inputs(
    function: LinalgFunction, machine: MachineParameters
) -> LinalgFunction:
    """Inline the inputs of poolings, except inside of sequential loops."""
    seen = [
        o.value
        for item in function.body
        if isinstance(item, Statement) and _reads_windows(item)
        for o in item.operands
    ]
    feature_maps = dict.fromkeys(value for value in map(_inside, seen) if value is not None)
    if feature_maps:
        finder = _Finder(function)
        for value in feature_maps:
            feature_map = finder.find(value)
            if feature_map is not None and _is_cheaper(feature_map, finder.uses, machine):
                _inline(function, feature_map, finder.uses)
        drop_unused(function)
    return function


def _reads_windows(statement: Statement) -> bool:
    """Return whether a statement reduces over the few elements of a window."""
    if (
        statement.op != "linalg.generic"
        or not statement.is_reduction
        or not all(is_integer(n) and n > 0 for n in statement.loops)
    ):
        return False
    places = prod(
        n for n, reduced in zip(statement.loops, statement.reduced, strict=True) if reduced
    )
    return 1 < places <= _MOST_PLACES and match(statement) is None


def _inside(value: Value) -> Value | None:
    """Return the tensor that ``value`` pads, or itself; None if no statement computes it."""
    maker = value.producer
    if isinstance(maker, Update):
        value = maker.parts[0].value.value
    return value if isinstance(value.producer, Statement) else None


# --- matching


class _Finder:
    """Finds tensors that all their readers can compute."""

    def __init__(self, function: LinalgFunction) -> None:
        self.uses = FunctionUses(function)
        self._inputs = set(function.inputs)

    def find(self, value: Value) -> FeatureMap | None:
        """Return ``value`` as a tensor that its readers can compute; None otherwise."""
        places = self._places(value)
        if places is None:
            return None
        chain: set[Statement] = set()
        wide: set[Value] = set()
        element = self._element(value, value, chain, wide)
        if element is None or not wide or len(walk([element])) > _MOST_NODES:
            return None
        are_stored = all(
            v in self._inputs
            or v in self.uses.results
            or not chain.issuperset(self.uses.readers(v))
            for v in wide
        )
        is_rewritable = all(self._can_rewrite(read, place) for read, place in places.items())
        if not are_stored or not is_rewritable:
            return None  # its input would be stored only for this
        padded = {k for place in places.values() for k in place.padded}
        if any(
            o.value not in wide and any(o.index.coeffs[k] for k in padded)
            for o in operands_of([element])
        ):
            return None  # there is no parameter for what lies around
        return FeatureMap(value, element, frozenset(wide), places)

    def _can_rewrite(self, value: Value, place: ReadPosition) -> bool:
        """Return whether each statement that reads ``value`` can compute its elements."""
        return all(
            cuts_of(reader, value, place.shape) is not None
            for reader in self.uses.readers(value)
            if isinstance(reader, Statement)
        )

    def _places(self, value: Value) -> dict[Value, ReadPosition] | None:
        """Return where a tensor is read; None if a reader cannot compute it."""
        places: dict[Value, ReadPosition] = {}
        if not all(is_integer(n) and n > 0 for n in value.shape):
            return None
        for reader in self.uses.readers(value):
            if isinstance(reader, Update):
                place = _padding(reader, value)
                if place is None or not self._are_computing(reader.result):
                    return None
                places[reader.result] = place
        others = [reader for reader in self.uses.readers(value) if not isinstance(reader, Update)]
        if others:
            places[value] = ReadPosition(value.shape, (0,) * len(value.shape), value.shape, None)
        return places if self._are_computing(value, tuple(others)) and places else None

    def _are_computing(self, value: Value, readers: tuple[object, ...] | None = None) -> bool:
        """Return whether only elementwise reads of statements that are no matmuls use ``value``.

        Args:
            value: The tensor.
            readers: Check only these readers.
        """
        found = self.uses.readers(value) if readers is None else readers
        if value in self.uses.results:
            return False
        return all(
            isinstance(r, Statement)
            and r.op == "linalg.generic"
            and all(is_integer(n) and n > 0 for n in r.loops)
            and r.reads().count(value) == sum(o.value is value for o in r.operands)
            and match(r) is None
            for r in found
        )

    def _element(
        self, value: Value, feature_map: Value, chain: set[Statement], wide: set[Value]
    ) -> Node | None:
        """Return the body of an element, back to tensors that others read too.

        Args:
            value: The tensor to compute.
            feature_map: The tensor that the search began with.
            chain: Gets the statements that the body replaces.
            wide: Gets the tensors that the body reads element by element.

        Returns:
            None if an element depends on more than one element of a tensor.
        """
        maker = value.producer
        if not isinstance(maker, Statement) or not is_elementwise(maker, feature_map.shape):
            return None
        chain.add(maker)
        computed: dict[Node, Node] = {}
        body = maker.results[0].yields
        for node in walk([body]):
            if node.op == "index":
                return None
            if node.op != "in":
                continue
            operand: Operand = node.payload
            source, whole = operand.value, is_whole(operand.index, feature_map.shape)
            if source.border is not None or source.splat is not None:
                return None
            inner = None
            if whole and self.uses.is_read_only_by(source, maker):
                inner = self._element(source, feature_map, chain, wide)
            if inner is None and whole:
                wide.add(source)
            elif inner is None and _PARAMETER * volume(source.shape) > volume(feature_map.shape):
                return None
            computed[node] = inner or node
        return substitute([body], computed.get)[body]


def _padding(update: Update, value: Value) -> ReadPosition | None:
    """Return the position of ``value`` in the tensor that an update pads; None otherwise."""
    sides = around(update) if update.base.value.splat is not None else None
    if sides is None or update.parts[0].value.value is not value:
        return None
    shape, inside = update.result.shape, update.parts[0].place.sizes
    # leading dimensions of the feature map that are merged into the first one of the padded tensor
    outer = len(value.shape) - len(shape) + 1
    if (
        outer < 1
        or value.shape[outer:] != inside[1:]
        or prod(value.shape[:outer]) != inside[0]
        or (outer > 1 and shape[0] != inside[0])
    ):
        return None
    whole = (*value.shape[:outer], *shape[1:]) if outer > 1 else shape
    place = ReadPosition(
        whole,
        ((0,) * (len(value.shape) - len(shape)) + tuple(sides[0])),
        value.shape,
        update.base.value.splat,
    )
    return place if len(whole) - place.padded[0] <= MOST_SIDES else None


# --- cost


def _is_cheaper(
    feature_map: FeatureMap,
    uses: FunctionUses,
    machine: MachineParameters,
) -> bool:
    """Return whether the saved DDR traffic takes longer than the additional computation."""
    item = ELEMENT_BYTES[feature_map.value.dtype]
    operands = len({(o.value, o.index) for o in operands_of([feature_map.element])})
    moved = sum(item * prod(place.shape) for place in feature_map.places.values())
    extra, more = 0.0, len(feature_map.wide) - 1
    for value, place in feature_map.places.items():
        loads = operands + (place.fill is not None)
        for reader in uses.readers(value):
            if isinstance(reader, Statement):
                extra += body_cycles(machine, [feature_map.element], loads, reader.volume)
                moved -= more * prod(place.shape) * item
    saved = traffic_cycles(machine, moved)
    return pays(machine, "rematerialize-pool-inputs", str(feature_map.value), saved, extra)


# --- rewriting


def _inline(
    function: LinalgFunction,
    feature_map: FeatureMap,
    uses: FunctionUses,
) -> None:
    """Let all readers compute the feature map."""
    for value, place in feature_map.places.items():
        inside = None
        if place.fill is not None:
            inside, made = ones(feature_map.value.dtype, place, len(feature_map.value.shape))
            function.body.insert(0, made)
        element = element_around(feature_map.element, feature_map.wide, place, inside)
        for reader in uses.readers(value):
            if not isinstance(reader, Statement):
                continue  # the update that pads it
            cuts = cuts_of(reader, value, place.shape)
            assert cuts is not None, "checked when the feature map was found"
            inline_element(reader, value, element, place.shape, cuts)
            uses.note(reader, (operand.value.in_memory for operand in reader.operands))
