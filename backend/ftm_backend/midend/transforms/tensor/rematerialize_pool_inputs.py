"""Pass ``rematerialize-pool-inputs``: what reads an image by windows computes its elements, from
tensors that are in memory anyway.

A normalization scales what its statistics have been taken of, an activation follows, and a pooling
reads that. The backward pass needs the tensor before the normalization, so it is in memory; the
image behind the activation is one more, and the padded image that the pooling reads a third.
Computed where they are read, neither goes to memory. What reads windows computes an element as
often as there are windows that see it: that is weighed against what DDR need not move.

What lies around a padded image is told apart by a tensor of ones with a border of zeros, fetched by
the same windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import (
    LinalgFunction,
    Node,
    Operand,
    SequentialLoop,
    Statement,
    Update,
    Value,
    walk,
)
from ftm_backend.midend.analysis.body_cost import interval
from ftm_backend.midend.schedule.gemm.contraction import match
from ftm_backend.midend.transforms.memory.resolve_in_place import drop_unused
from ftm_backend.midend.transforms.tensor.fold_pad_into_load import MOST_SIDES, around
from ftm_backend.midend.transforms.tensor.producer_inlining import (
    ReadPosition,
    cuts_of,
    element_around,
    is_elementwise,
    is_whole,
    ones,
    read_instead,
    rebuilt,
)
from ftm_backend.symbolic import is_integer
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["rematerialize_pool_inputs"]

_MOST_PLACES = 64
"""Places of a window."""

_MOST_NODES = 64
"""Operations that make an element of an image."""

_PARAMETER = 16
"""A tensor with so many times fewer elements than the image holds parameters of its planes."""


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """A tensor, and what computes an element of it, of operands over a loop for each of its
    dimensions.

    wide: what is read element by element; the other operands are parameters. places: where the
        image, and what pads it, is read.
    """

    value: Value
    element: Node
    wide: frozenset[Value]
    places: dict[Value, ReadPosition]


def rematerialize_pool_inputs(
    function: LinalgFunction, machine: MachineParameters
) -> LinalgFunction:
    """``function``, rewritten in place; what is in a repeat stays as it is."""
    seen = [
        o.value
        for item in function.body
        if isinstance(item, Statement) and _reads_windows(item)
        for o in item.operands
    ]
    images = dict.fromkeys(value for value in map(_inside, seen) if value is not None)
    if images:
        finder = _Finder(function)
        for value in images:
            image = finder.image(value)
            if image is not None and _pays(image, finder.readers, machine):
                _inline(function, image, finder.readers)
        drop_unused(function)
    return function


def _reads_windows(statement: Statement) -> bool:
    """Whether it reduces over the few places of a window, as a pooling does."""
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
    """The computed image that a value is, or has inside."""
    maker = value.producer
    if isinstance(maker, Update):
        value = maker.parts[0].value.value
    return value if isinstance(value.producer, Statement) else None


# --- which images
# -------------------------------------------------------------------------------------------


class _Finder:
    """Finds what makes an image, and whether all that read it can compute it."""

    def __init__(self, function: LinalgFunction) -> None:
        self.readers: dict[Value, list[Statement | Update | SequentialLoop]] = {}
        for item in function.body:
            for value in dict.fromkeys(item.reads()):
                self.readers.setdefault(value, []).append(item)
        self._results = {tensor.value for tensor in function.results}
        self._inputs = set(function.inputs)

    def image(self, value: Value) -> FeatureMap | None:
        """The image that a value is; None if it is no such thing."""
        places = self._places(value)
        if places is None:
            return None
        chain: set[Statement] = set()
        wide: set[Value] = set()
        element = self._element(value, value, chain, wide)
        if element is None or not wide or len(walk([element])) > _MOST_NODES:
            return None
        if not all(
            v in self._inputs or v in self._results or not chain.issuperset(self.readers[v])
            for v in wide
        ):
            return None  # it would have to be stored for this alone
        padded = {k for place in places.values() for k in place.padded}
        operands = [node.payload for node in walk([element]) if node.op == "in"]
        for read, place in places.items():
            if any(
                cuts_of(reader, read, place.shape) is None
                for reader in self.readers[read]
                if isinstance(reader, Statement)
            ):
                return None
        if any(o.value not in wide and any(o.index.coeffs[k] for k in padded) for o in operands):
            return None  # there is no parameter for what lies around
        return FeatureMap(value, element, frozenset(wide), places)

    def _places(self, value: Value) -> dict[Value, ReadPosition] | None:
        """Where the image is read, by statements alone that can compute it; None if others read it,
        too."""
        places: dict[Value, ReadPosition] = {}
        if not all(is_integer(n) and n > 0 for n in value.shape):
            return None
        for reader in self.readers.get(value, []):
            if isinstance(reader, Update):
                place = _padding(reader, value)
                if place is None or not self._are_computing(reader.result):
                    return None
                places[reader.result] = place
        others = [
            reader for reader in self.readers.get(value, []) if not isinstance(reader, Update)
        ]
        if others:
            places[value] = ReadPosition(value.shape, (0,) * len(value.shape), value.shape, None)
        return places if self._are_computing(value, tuple(others)) and places else None

    def _are_computing(self, value: Value, readers: tuple[object, ...] | None = None) -> bool:
        """Whether statements alone read a value, element by element, that compute something else
        than a product."""
        found = self.readers.get(value, []) if readers is None else readers
        if value in self._results:
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
        self, value: Value, image: Value, chain: set[Statement], wide: set[Value]
    ) -> Node | None:
        """What computes an element, back to what others read as well; None if elements are not
        computed one by one."""
        maker = value.producer
        if not isinstance(maker, Statement) or not is_elementwise(maker, image.shape):
            return None
        chain.add(maker)
        done: dict[Node, Node] = {}
        for node in walk([maker.results[0].yields]):
            if node.op == "index":
                return None
            if node.op != "in":
                done[node] = rebuilt(node, done)
                continue
            operand: Operand = node.payload
            source, whole = operand.value, is_whole(operand.index, image.shape)
            if source.border is not None or source.splat is not None:
                return None
            inner = None
            if whole and self.readers[source] == [maker] and source not in self._results:
                inner = self._element(source, image, chain, wide)
            if inner is None and whole:
                wide.add(source)
            elif inner is None and _PARAMETER * volume(source.shape) > volume(image.shape):
                return None
            done[node] = inner or node
        return done[maker.results[0].yields]


def _padding(update: Update, value: Value) -> ReadPosition | None:
    """Where an image lies that an update writes into the middle of one number; None if it does
    something else."""
    sides = around(update) if update.base.value.splat is not None else None
    if sides is None or update.parts[0].value.value is not value:
        return None
    shape, inside = update.result.shape, update.parts[0].place.sizes
    # dimensions of the image that are the padded one's first
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


# --- whether that pays
# --------------------------------------------------------------------------------------


def _pays(
    image: FeatureMap,
    readers: dict[Value, list[Statement | Update | SequentialLoop]],
    machine: MachineParameters,
) -> bool:
    """Whether DDR is saved more time, in writing the image and reading it, than computing it where
    it is read takes."""
    item = ELEMENT_BYTES[image.value.dtype]
    operands = len(
        {
            (node.payload.value, node.payload.index)
            for node in walk([image.element])
            if node.op == "in"
        }
    )
    moved = sum(item * prod(place.shape) for place in image.places.values())
    computed, more = 0.0, len(image.wide) - 1
    for value, place in image.places.items():
        each = interval(
            machine, [image.element], operands + (place.fill is not None)
        ) / machine.lanes(image.value.dtype)
        for reader in readers[value]:
            if isinstance(reader, Statement):
                computed += reader.volume * each
                moved -= more * prod(place.shape) * item
    return (
        moved / (cost_rules.bytes_per_cycle(machine, machine.cores) * machine.cores)
        > computed / machine.cores
    )


# --- doing it
# -----------------------------------------------------------------------------------------------


def _inline(
    function: LinalgFunction,
    image: FeatureMap,
    readers: dict[Value, list[Statement | Update | SequentialLoop]],
) -> None:
    """Lets what reads the image compute it."""
    for value, place in image.places.items():
        inside = None
        if place.fill is not None:
            inside, made = ones(image.value.dtype, place, len(image.value.shape))
            function.body.insert(0, made)
        element = element_around(image.element, image.wide, place, inside)
        for reader in readers[value]:
            if not isinstance(reader, Statement):
                continue  # it pads the image
            cuts = cuts_of(reader, value, place.shape)
            assert cuts is not None, "it is no image otherwise"
            read_instead(reader, value, element, place.shape, cuts)
            for operand in reader.operands:
                readers.setdefault(operand.value.in_memory, []).append(reader)
