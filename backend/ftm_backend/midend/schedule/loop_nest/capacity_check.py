"""Capacity check of a fused loop nest: number of operands, tile shape, and size in AM."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ftm_backend.ir.linalg.affine import Affine, volume
from ftm_backend.ir.linalg.function import Operand, Statement, Value
from ftm_backend.midend.analysis.body_cost import MOST_OPERATIONS, operations
from ftm_backend.midend.schedule.loop_nest.iteration_domain import (
    DomainDim,
    DomainShape,
    IterationDomain,
    Loops,
    strides_of,
)
from ftm_backend.midend.schedule.loop_nest.map_stages import stage_keys
from ftm_backend.midend.schedule.loop_nest.merged_axes import index_nodes
from ftm_backend.symbolic import guarded_equal, size_hint
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["MOST_STATEMENTS", "ONE_CORE_WORK", "Stored", "common_domain", "fits_tiles"]

ONE_CORE_WORK = 20_000
"""Nest kernels with fewer element operations run on one core: a barrier costs as much."""

MOST_STATEMENTS = 48
_VECTOR = 64  # desired columns of a transposed tile
_MOST_OPERANDS = 24
# Headroom in AM for tiles that are being loaded while the current ones are in use.
_HEADROOM = 1.3

Stored = Callable[[Value, Collection[Statement]], bool]
"""Whether a kernel of these statements stores the value to memory."""


def common_domain(statements: list[Statement]) -> IterationDomain | None:
    """Return the iteration domain of the statements; None if their loops do not match."""
    domain = IterationDomain()
    return domain if all(domain.add(statement) for statement in statements) else None


def fits_tiles(domain: IterationDomain, machine: MachineParameters, stored: Stored) -> bool:
    """Whether one tile shape fits all statements of a domain and the scratchpad."""
    if len(domain.loops) > MOST_STATEMENTS or operations(domain.loops) > MOST_OPERATIONS:
        return False
    operands = {(o.value, o.index) for _, o in domain.fetched()}
    if len(operands) > _MOST_OPERANDS:
        return False
    shape = domain.shape()
    if shape is None:
        return False
    if not shape.resident:
        return True
    return _fits(domain, shape, machine, stored) and not _transposes_operands(domain, shape)


def _transposes_operands(domain: IterationDomain, shape: DomainShape) -> bool:
    """Whether a reduction's large operands would all be loaded against their layout.

    Example: ``silu(x @ a.t()) @ b.t()`` for one row ``x``. A nest of both products holds rows of
    ``a``, and would load columns of ``b``. In a kernel of its own, the second product reads rows.
    """
    against = set(shape.held if shape.transposed else shape.free)
    for statement in domain.loops:
        if not statement.is_reduction:
            continue
        found = set()
        for operand in statement.operands:
            if operand.value.producer in domain.loops:
                continue
            strides = domain.coefficients(statement, operand.index)
            if size_hint(volume([leaf.extent for leaf in strides])) > ONE_CORE_WORK:
                wide = (leaf for leaf in strides if size_hint(leaf.extent) >= _VECTOR)
                found |= {leaf in against for leaf in wide if guarded_equal(strides[leaf], 1)}
        if found == {True}:
            return True
    return False


def _fits(
    domain: IterationDomain, shape: DomainShape, machine: MachineParameters, stored: Stored
) -> bool:
    """Whether a tile fits that holds all resident dimensions.

    If these are columns, it must have at least a vector's width of the free dimensions.
    """
    held = set(shape.held)
    width = size_hint(volume([leaf.extent for leaf in held]))
    free = size_hint(volume([leaf.extent for leaf in shape.free]))
    if free < machine.cores and width * len(domain.loops) > ONE_CORE_WORK:
        return False
    across = min(free, _VECTOR) if shape.transposed else 1
    return width * across * _held_bytes(domain, held, stored) * _HEADROOM <= machine.am_bytes


def _held_bytes(domain: IterationDomain, held: set[DomainDim], stored: Stored) -> int:
    """Return the bytes per resident element of all tiles."""
    tiles = _ResidentTiles(domain, held, stored)
    for statement in domain.loops:
        tiles.add(statement)
    return sum(ELEMENT_BYTES[dtype] for dtype in tiles.types.values())


class _ResidentTiles:
    """The tiles that have resident dimensions.

    These are loads (without duplicates), stores, values that a later map reads, and index vectors.

    Attributes:
        types: The element type of each tile.
    """

    def __init__(self, domain: IterationDomain, held: set[DomainDim], stored: Stored) -> None:
        self._domain, self._held, self._stored = domain, held, stored
        self.types: dict[object, str] = {}
        self._stage = stage_keys(domain, held)
        self._strides: dict[tuple[Loops, tuple[int, ...]], frozenset[tuple[DomainDim, int]]] = {}

    def add(self, statement: Statement) -> None:
        """Add the tiles of the next statement."""
        loops, (_, is_narrow) = self._domain.loops[statement], self._stage[statement]
        if is_narrow:
            return
        for operand in statement.operands:
            self._add_operand(statement, operand)
        reduced = self._domain.reduced(statement)
        if self._held.isdisjoint(reduced):  # reduced along the free dimensions, if at all
            for result in statement.results:
                if reduced or self._stored(result.value, self._domain.loops.keys()):
                    self.types[result.value] = result.value.dtype
        for node in index_nodes(statement.results):
            if along := self._resident_strides(loops, node.payload):
                self.types["position", along] = "i64"

    def _add_operand(self, statement: Statement, operand: Operand) -> None:
        loops, producer = self._domain.loops[statement], operand.value.producer
        if not isinstance(producer, Statement) or producer not in self._stage:
            if along := self._resident_strides(loops, operand.index):
                self.types[operand.value, operand.index.const, along] = operand.value.dtype
            return
        stage, is_narrow = self._stage[producer]
        is_later = stage != self._stage[statement][0]
        if not is_narrow and is_later and not self._domain.reduced(producer):
            self.types[operand.value] = operand.value.dtype

    def _resident_strides(self, loops: Loops, index: Affine) -> frozenset[tuple[DomainDim, int]]:
        """Return the strides of an access if it depends on resident dimensions."""
        key = loops, index.coeffs
        if key not in self._strides:
            found = strides_of(*key)
            is_resident = not self._held.isdisjoint(found)
            self._strides[key] = frozenset(found.items() if is_resident else ())
        return self._strides[key]
