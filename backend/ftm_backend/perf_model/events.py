"""Events of a core's walk through a program, from which ``timeline`` computes times."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from ftm_backend.perf_model.tile_instruction_costs import TransferWork

Slot = tuple[int, int]
"""Tile number and slot in the ring; GSM tiles are the same for all cores."""

SCALAR = "scalar"
"""Work of the core between tile instructions, and for issuing them."""


class ComputeEvent(NamedTuple):
    """The core is busy with the instruction ``what``; ``ideal`` cycles is ``flops`` at peak."""

    cycles: float
    flops: int = 0
    ideal: float = 0.0
    what: str = SCALAR


class DmaEvent(NamedTuple):
    """A transfer starts; ``slots`` are free when it ends. ``buffer`` is -1 if it has none."""

    slots: tuple[Slot, ...]
    transfer: TransferWork
    what: str = "DCP"
    buffer: int = -1


class WaitEvent(NamedTuple):
    """The core waits for the transfers of a slot; None: for all transfers."""

    slot: Slot | None


class CollectiveEvent(NamedTuple):
    """A collective of a tensor of ``size`` bytes starts; waits name it by ``call``."""

    kind: str
    size: int
    call: Hashable


class CollectiveWaitEvent(NamedTuple):
    """The core waits for a collective."""

    call: Hashable


class EnterEvent(NamedTuple):
    """A function starts; -1: it returns to its caller."""

    function: int


class RepeatEvent(NamedTuple):
    """The same events ``count`` times."""

    events: tuple[Event, ...]
    count: int  # type: ignore[assignment]  # hides tuple.count


Event = (
    ComputeEvent
    | DmaEvent
    | WaitEvent
    | CollectiveEvent
    | CollectiveWaitEvent
    | EnterEvent
    | RepeatEvent
)
