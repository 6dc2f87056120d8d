"""Events of a core's way through a program: what the walk produces and the timelines consume."""

from __future__ import annotations

from typing import NamedTuple

from ftm_backend.perf_model.tile_instruction_costs import TransferWork

Slot = tuple[int, int]
"""Tile number and slot in the ring; GSM tiles are the same for all cores."""

SCALAR = "scalar"
"""What the core does between tile instructions, and to issue them."""


class ComputeEvent(NamedTuple):
    """The core is busy; ``ideal`` is what ``flops`` take at peak; ``what`` is the instruction, or
    scalar work."""

    cycles: float
    flops: int = 0
    ideal: float = 0.0
    what: str = SCALAR


class DmaEvent(NamedTuple):
    """A transfer starts; the slots are free when it ends. ``buffer``: that it moves from or to, or
    -1."""

    slots: tuple[Slot, ...]
    transfer: TransferWork
    what: str = "DCP"
    buffer: int = -1


class WaitEvent(NamedTuple):
    """The core waits for a slot's transfers, or for all with None."""

    slot: Slot | None


class EnterEvent(NamedTuple):
    """A function starts (or, with -1, the caller goes on)."""

    function: int


class RepeatEvent(NamedTuple):
    """The same events ``count`` times."""

    events: tuple[Event, ...]
    count: int  # type: ignore[assignment]  # instead of tuple's method of that name


Event = ComputeEvent | DmaEvent | WaitEvent | EnterEvent | RepeatEvent
