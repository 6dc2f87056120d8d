"""Pass ``promote-to-gsm``: values between kernels that GSM has room for lie there, and not in the
arena.

Kernels place their own tiles in GSM from its beginning on. How far is known once they are placed,
so a value that is kept lies above the tiles of all kernels that run while it lives. That is counted
in epochs (``lifetimes``), as in an epoch cores run on without waiting for each other: neither two
values of it nor a value and a tile have a byte in common. Only a value that took over the memory of
another one in the arena, because a kernel computes it in place, may do so in GSM.

A value that is read soon and then again long after, as activations are that a network's backward
pass needs, is stored twice by the kernel that makes it: the arena keeps it, and who reads it soon
reads the copy in GSM.

What saves the most traffic of DDR for each byte and epoch that it holds is kept first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ftm_backend.codegen.arena_liveness import ArenaLifetimes, ArenaValue, Residency
from ftm_backend.codegen.clone_for_second_store import rebind, store_twice, stores_alone
from ftm_backend.ir.tile.kernel_tree import TileKernel, callee_and_arguments
from ftm_backend.ir.tile.program import CompiledFunction, TileProgram
from ftm_backend.target.element_types import slot_bytes
from ftm_backend.target.presets import MachineParameters

__all__ = ["promote_to_gsm"]

_POWERS = (0.25, 0.5)
"""How much it tells against a value that it stays long: what saves most is not found in one
order."""
_LAUNCHES = 64
"""A copy is worth its stores if DDR takes as long for it as for the latencies of so many
transfers."""


def promote_to_gsm(program: TileProgram, machine: MachineParameters) -> TileProgram:
    """Moves regions of the arena to GSM, on machines whose cores compute while transfers run."""
    if not program.arena:
        return program
    found = ArenaLifetimes(program, machine.gsm_bytes)
    functions = {function.name: function for function in program.functions}
    least = _LAUNCHES * machine.dma_latency * machine.ddr_bandwidth / machine.clock_hz
    stays = [stay for value in found.values for stay in _stays(value, functions, least)]
    placed = max(
        (_place(stays, power, found.taken, machine.gsm_bytes) for power in _POWERS), key=_saved
    )
    moved = {stay.value.symbol: offset for stay, offset in placed.items() if not stay.copy}
    program.gsm = [
        [symbol, moved[symbol], *kind] for symbol, _, *kind in program.arena if symbol in moved
    ]
    program.arena = [entry for entry in program.arena if entry[0] not in moved]
    for number, stay in enumerate(stay for stay in placed if stay.copy):
        _copy(program, stay, f"g{number}", placed[stay])
    return program


def _stays(
    value: ArenaValue, functions: Mapping[str, TileKernel | CompiledFunction], least: float
) -> Iterator[Residency]:
    """How a value can be kept: for all of its uses, or a copy of at least so many bytes for the
    first of these."""
    yield Residency(value, value.uses, False)
    made = value.uses[0]
    if value.bytes < least or not (made.once and made.writes and len(made.parameters) == 1):
        return
    if not stores_alone(functions[callee_and_arguments(made.instruction)[0]], made.parameters[0]):
        return
    for end in range(1, len(value.uses)):
        if value.uses[end].writes or not value.uses[end].once:
            return
        yield Residency(value, value.uses[: end + 1], True)


def _copy(program: TileProgram, stay: Residency, name: str, offset: int) -> None:
    """Stores a value to GSM as well, and lets those who read it while it stays read it there."""
    symbol, _, *kind = stay.value.entry
    program.gsm.append([name, offset, *kind])
    store_twice(program, stay.uses[0].instruction, symbol, name)
    for use in stay.uses[1:]:
        rebind(use.instruction, symbol, name)


Placed = dict[Residency, int]
"""Offsets in GSM."""


def _saved(placed: Placed) -> float:
    """Bytes that nobody need wait for."""
    return sum(stay.saved * stay.bytes for stay in placed)


def _place(stays: Iterable[Residency], power: float, taken: Sequence[int], capacity: int) -> Placed:
    """Offsets, as high as they can be, of the stays that fit, one of each value.

    power: of the epochs that a stay takes, which what it saves is divided by; those that come to
        most go first, the larger of two.
    """

    def worth(stay: Residency) -> tuple[float, int]:
        return stay.saved / (stay.last - stay.first + 1) ** power, stay.bytes

    placed: Placed = {}
    living: list[list[Residency]] = [[] for _ in taken]
    done: set[ArenaValue] = set()
    top = capacity - capacity % slot_bytes(1, 1, 1)
    for stay in sorted(stays, key=worth, reverse=True):
        epochs = range(stay.first, stay.last + 1)
        floor = max(taken[epoch] for epoch in epochs)
        if stay.value in done or floor + stay.bytes > top:
            continue
        others = dict.fromkeys(other for epoch in epochs for other in living[epoch])
        offset = _on_another(stay, placed, others)
        if offset is None:
            offset = _highest(
                stay.bytes, top, [(placed[other], placed[other] + other.bytes) for other in others]
            )
        if offset >= floor:
            placed[stay] = offset
            done.add(stay.value)
            for epoch in epochs:
                living[epoch].append(stay)
    return placed


def _highest(size: int, top: int, regions: Iterable[tuple[int, int]]) -> int:
    """The highest offset of so many bytes below ``top`` and outside of regions (begin, end); below
    0 if there are too few."""
    end = top
    for begin, behind in sorted(regions, key=lambda region: -region[1]):
        if behind <= end - size:
            break
        end = min(end, begin)
    return end - size


def _on_another(stay: Residency, placed: Placed, others: Iterable[Residency]) -> int | None:
    """The offset of a value whose memory this one takes over or leaves to it, if nothing else lies
    there."""
    for tied in others:
        if stay.may_lie_on(tied):
            begin, end = placed[tied], placed[tied] + stay.bytes
            beside = (
                other for other in others if placed[other] != begin or not stay.may_lie_on(other)
            )
            if all(
                end <= placed[other] or placed[other] + other.bytes <= begin for other in beside
            ):
                return begin
    return None
