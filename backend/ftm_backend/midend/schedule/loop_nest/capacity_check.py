"""Capacity check of a fused loop nest: number of operands, tile shape, and size in AM."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ftm_backend.ir.linalg.affine import Affine, volume
from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.midend.analysis.body_cost import MOST_OPERATIONS, operations
from ftm_backend.midend.schedule.loop_nest.iteration_domain import (
    DomainDim,
    DomainShape,
    IterationDomain,
    Loops,
    strides_of,
)
from ftm_backend.midend.schedule.loop_nest.merged_axes import index_nodes
from ftm_backend.symbolic import size_hint
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
    return not shape.resident or _fits(domain, shape, machine, stored)


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
    """Return the bytes per resident element of all tiles.

    Tiles are those of loads (without duplicates), stores, values that a later map reads, and
    index vectors.
    """
    tiles: dict[object, str] = {}
    stage: dict[Statement, int] = {}  # number of each statement's map, as in ``stages_of``
    wide: dict[Loops, bool] = {}
    strides: dict[tuple[Loops, tuple[int, ...]], frozenset[tuple[DomainDim, int]]] = {}

    def resident_strides(loops: Loops, index: Affine) -> frozenset[tuple[DomainDim, int]]:
        """Return the strides of an access if it depends on resident dimensions."""
        key = loops, index.coeffs
        if key not in strides:
            found = strides_of(*key)
            strides[key] = frozenset() if held.isdisjoint(found) else frozenset(found.items())
        return strides[key]

    for s, loops in domain.loops.items():
        if loops not in wide:
            wide[loops] = held.issubset(domain.span(s))
        stage[s] = 0
        for o in s.operands:
            producer = o.value.producer
            if producer in stage:
                assert isinstance(producer, Statement)
                later = (
                    bool(domain.reduced(producer)) or wide[domain.loops[producer]] != wide[loops]
                )
                stage[s] = max(stage[s], stage[producer] + later)
        if not wide[loops]:
            continue
        for o in s.operands:
            producer = o.value.producer
            if producer not in stage:
                if along := resident_strides(loops, o.index):
                    tiles[o.value, o.index.const, along] = o.value.dtype
            elif (
                wide[domain.loops[producer]]
                and stage[producer] != stage[s]
                and not domain.reduced(producer)
            ):
                tiles[o.value] = o.value.dtype
        reduced = domain.reduced(s)
        if held.isdisjoint(reduced):  # reduced along the free dimensions, if at all
            tiles |= {
                r.value: r.value.dtype
                for r in s.results
                if reduced or stored(r.value, domain.loops.keys())
            }
        for node in index_nodes(s.results):
            if along := resident_strides(loops, node.payload):
                tiles["position", along] = "i64"
    return sum(ELEMENT_BYTES[dtype] for dtype in tiles.values())
