"""Pass ``rematerialize-rows``: compute the elements of long rows in each statement that reads them.

Example: softmax computes ``e = exp(x - max)``, the sum of each row of ``e``, and ``e / sum``. One
kernel does so while it has a row on chip. A longer row is passed over twice, and the kernel of the
sums would store ``e`` for the kernel that divides. Instead both compute ``e`` from ``x``.

Changes the function in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.body_builder import inlined
from ftm_backend.ir.linalg.function import (
    FunctionResult,
    LinalgFunction,
    Node,
    Statement,
    Value,
)
from ftm_backend.midend.analysis.use_def import FunctionUses
from ftm_backend.midend.schedule.choose_by_cost import pays
from ftm_backend.midend.schedule.cost import traffic_cycles
from ftm_backend.symbolic import size_hint, statically_known_equal
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["rematerialize_rows"]

_PART_OF_AM = 0.62
"""Part of AM that a row may take, with all that is loaded, computed and stored of it.

The transfers of longer rows have no room to overlap. On m7032, stored exponentials of softmax take
0.99 to 1.02 times the time of those computed again at 0.63 to 0.69 of AM, and 1.1 to 2 times from
0.76 on.
"""

_PART_OF_CACHED_AM = 1.6
"""The same where cores copy data themselves: such a row is in the second level of caches.

Measured on the host with 2 cores: stored exponentials take 0.68 to 0.75 of the time at 0.75 to 1.5
of AM, and 1.5 times the time from 2.3 on.
"""


def rematerialize_rows(function: LinalgFunction, machine: MachineParameters) -> LinalgFunction:
    """Inline such elements, except inside of sequential loops."""
    uses = FunctionUses(function)
    values = [v for item in function.body if isinstance(item, Statement) for v in item.writes()]
    for value in values:
        maker = value.producer
        readers = _readers(maker, uses) if isinstance(maker, Statement) else []
        if isinstance(maker, Statement) and readers and _is_cheaper(maker, readers, machine):
            for reader in readers:
                made = inlined(reader, partial(_element, maker.results[0]), [maker])
                function.body[function.body.index(reader)] = made
            function.body.remove(maker)
            uses = FunctionUses(function)
    return function


def _element(result: FunctionResult, node: Node) -> Node | None:
    """Return the body of a result where it is loaded."""
    is_loaded = node.op == "in" and node.payload.value is result.value
    return result.yields if is_loaded else None


# --- matching


def _readers(maker: Statement, uses: FunctionUses) -> list[Statement]:
    """Return the statements that can compute what ``maker`` computes, element by element.

    They are a reduction, and others that read its result. Empty if something else reads it, too.
    """
    is_elementwise = _is_loop_nest(maker) and not maker.is_reduction and len(maker.results) == 1
    if not is_elementwise:
        return []
    (result,) = maker.results
    readers = [r for r in uses.readers(result.value) if isinstance(r, Statement)]
    reduced = {v for reader in readers if reader.is_reduction for v in reader.writes()}
    others = [reader for reader in readers if not reader.is_reduction]
    is_followed = bool(others) and all(not reduced.isdisjoint(r.reads()) for r in others)
    is_private = readers == uses.readers(result.value) and result.value not in uses.results
    are_aligned = all(_is_aligned(maker, reader) for reader in readers)
    return readers if is_followed and is_private and are_aligned else []


def _is_loop_nest(statement: Statement) -> bool:
    return statement.op == "linalg.generic" and not statement.gathers


def _is_aligned(maker: Statement, reader: Statement) -> bool:
    """Return whether ``reader`` has the maker's loops, and reads its result as it is written."""
    (result,) = maker.results
    indices = [o.index for o in reader.operands if o.value is result.value]
    pairs = [(reader.loops, maker.loops), *((i.coeffs, result.index.coeffs) for i in indices)]
    return _is_loop_nest(reader) and all(
        len(one) == len(other) and all(map(statically_known_equal, one, other))
        for one, other in pairs
    )


# --- cost


def _is_cheaper(maker: Statement, readers: Sequence[Statement], machine: MachineParameters) -> bool:
    """Return whether rows are too long to stay on chip, and storing them moves more.

    Stored elements are written once, and read by all statements but the first. Otherwise all these
    read what the elements are computed from. Transfers of such rows take longer than their bodies.
    """
    part = _PART_OF_AM if machine.tile_buffers > 1 else _PART_OF_CACHED_AM
    if _row_bytes(maker, readers) <= part * machine.am_bytes:
        return False
    stored = len(readers) * _bytes(maker.writes())
    read_again = (len(readers) - 1) * _bytes(maker.reads())
    keep, fuse = (traffic_cycles(machine, moved) for moved in (stored, read_again))
    return pays(machine, "rematerialize-rows", str(maker.loops), keep, fuse)


def _bytes(values: Iterable[Value]) -> int:
    return sum(ELEMENT_BYTES[v.dtype] * size_hint(volume(v.shape)) for v in dict.fromkeys(values))


def _row_bytes(maker: Statement, readers: Sequence[Statement]) -> float:
    """Return the bytes of a row: of the tensors that have an element for each of its elements."""
    reduction = next(reader for reader in readers if reader.is_reduction)
    extents = zip(reduction.loops, reduction.reduced, strict=True)
    length = size_hint(volume([n for n, is_reduced in extents if is_reduced]))
    values = [*maker.reads(), *maker.writes(), *(v for r in readers for v in r.writes())]
    elements = size_hint(maker.volume)
    wide = (v for v in values if size_hint(volume(v.shape)) == elements)
    return _bytes(wide) * length / max(elements, 1)
