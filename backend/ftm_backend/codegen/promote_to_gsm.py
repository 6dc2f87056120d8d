"""Pass `promote-to-gsm`: keep values between kernels in GSM instead of the arena.

Kernels place their own tiles from the start of GSM on. So a promoted value is placed above the
tiles of all kernels that run during its lifetime, which is counted in epochs (``arena_liveness``):
within an epoch cores are not synchronized, so no two values or tiles of it may share a byte. The
exception is a value that a kernel computes in place from another one: it may take its memory.

A value that is read soon and again much later, such as an activation for the backward pass, is
stored twice by its producer: the later uses read the arena, the early ones read the copy in GSM.

Candidates are placed greedily, by the DDR traffic that they save per byte and epoch of GSM.

Changes the program's memory regions and its calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ftm_backend.codegen.arena_liveness import ArenaLifetimes, ArenaValue, Residency
from ftm_backend.codegen.clone_with_second_store import rebind, store_to_copy
from ftm_backend.ir.tile.kernel_tree import TileKernel, callee_and_arguments
from ftm_backend.ir.tile.program import CompiledFunction, TileProgram
from ftm_backend.target.element_types import slot_bytes
from ftm_backend.target.presets import MachineParameters

_POWERS = (0.25, 0.5)
"""Exponents of the lifetime in the greedy order; both are tried, since neither is always better."""
_LAUNCHES = 64
"""A copy must be large enough that DDR needs the latencies of this many transfers for it."""


def promote_to_gsm(program: TileProgram, machine: MachineParameters) -> TileProgram:
    """Move regions of the arena to GSM."""
    if not program.buffers("arena"):
        return program
    found = ArenaLifetimes(program, machine.gsm_bytes)
    functions = {function.name: function for function in program.functions}
    min_bytes = _LAUNCHES * machine.dma_latency * machine.ddr_bandwidth / machine.clock_hz
    candidates = [c for value in found.values for c in _candidates(value, functions, min_bytes)]
    placed = max(
        (_place(candidates, power, found.gsm_used, machine.gsm_bytes) for power in _POWERS),
        key=_saved_bytes,
    )
    moved = {c.value.symbol: offset for c, offset in placed.items() if not c.copy}
    program.header = [
        *(item for item in program.header if item.name not in moved),
        *(
            replace(region, kind="gsm", offset=moved[region.name])
            for region in program.buffers("arena")
            if region.name in moved
        ),
    ]
    for number, candidate in enumerate(c for c in placed if c.copy):
        _copy(program, candidate, f"g{number}", placed[candidate])
    return program


def _candidates(
    value: ArenaValue, functions: Mapping[str, TileKernel | CompiledFunction], min_bytes: float
) -> Iterator[Residency]:
    """Yield the ways to keep a value in GSM: for all uses, or as a copy for the first ones."""
    yield Residency(value, value.uses, False)
    producer = value.uses[0]
    has_one_store = producer.once and producer.writes and len(producer.parameters) == 1
    if value.bytes < min_bytes or not has_one_store:
        return
    callee = functions[callee_and_arguments(producer.instruction)[0]]
    if producer.parameters[0] in callee.scattered:  # only plain stores can be duplicated
        return
    for end in range(1, len(value.uses)):
        if value.uses[end].writes or not value.uses[end].once:
            return
        yield Residency(value, value.uses[: end + 1], True)


def _copy(program: TileProgram, candidate: Residency, name: str, offset: int) -> None:
    """Store a value to GSM as well, and let its first uses read it there."""
    symbol = candidate.value.symbol
    region = candidate.value.directive
    program.header.append(replace(region, kind="gsm", name=name, offset=offset))
    store_to_copy(program, candidate.uses[0].instruction, symbol, name)
    for use in candidate.uses[1:]:
        rebind(use.instruction, symbol, name)


Placed = dict[Residency, int]
"""Byte offsets in GSM."""


def _saved_bytes(placed: Placed) -> float:
    """Return the bytes of DDR traffic that nothing waits for any more."""
    return sum(candidate.saved * candidate.bytes for candidate in placed)


def _place(
    candidates: Iterable[Residency], power: float, gsm_used: Sequence[int], capacity: int
) -> Placed:
    """Place candidates that fit, at most one per value, each as high as possible.

    Args:
        candidates: Placed in the order of ``saved / epochs ** power``, larger ones first.
        power: See above.
        gsm_used: Bytes of GSM per epoch that tiles use.
        capacity: Bytes of GSM.
    """

    def priority(candidate: Residency) -> tuple[float, int]:
        epochs = candidate.last - candidate.first + 1
        return candidate.saved / epochs**power, candidate.bytes

    placed: Placed = {}
    live: list[list[Residency]] = [[] for _ in gsm_used]
    done: set[ArenaValue] = set()
    top = capacity - capacity % slot_bytes(1, 1, 1)
    for candidate in sorted(candidates, key=priority, reverse=True):
        epochs = range(candidate.first, candidate.last + 1)
        floor = max(gsm_used[epoch] for epoch in epochs)
        if candidate.value in done or floor + candidate.bytes > top:
            continue
        others = dict.fromkeys(other for epoch in epochs for other in live[epoch])
        offset = _on_tied(candidate, placed, others)
        if offset is None:
            regions = [(placed[other], placed[other] + other.bytes) for other in others]
            offset = _highest(candidate.bytes, top, regions)
        if offset >= floor:
            placed[candidate] = offset
            done.add(candidate.value)
            for epoch in epochs:
                live[epoch].append(candidate)
    return placed


def _highest(size: int, top: int, regions: Iterable[tuple[int, int]]) -> int:
    """Return the highest offset below ``top`` at which ``size`` bytes avoid ``regions``.

    Regions are (begin, end). The result is negative if there is no room.
    """
    end = top
    for begin, region_end in sorted(regions, key=lambda region: -region[1]):
        if region_end <= end - size:
            break
        end = min(end, begin)
    return end - size


def _on_tied(candidate: Residency, placed: Placed, others: Iterable[Residency]) -> int | None:
    """Return the offset of a value that may share its memory, if nothing else overlaps it there."""
    for tied in others:
        if candidate.may_lie_on(tied):
            begin, end = placed[tied], placed[tied] + candidate.bytes
            rivals = (
                other
                for other in others
                if placed[other] != begin or not candidate.may_lie_on(other)
            )
            if all(
                end <= placed[other] or placed[other] + other.bytes <= begin for other in rivals
            ):
                return begin
    return None
