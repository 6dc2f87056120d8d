"""Explains the memory of a profile: what held it when it was at its peak."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from ftm_lazy import _C
from ftm_lazy.device.device_name import NAME
from ftm_lazy.profiler.events import Events, MemoryEvent

Owners = Mapping[int, str]
"""Address of a block to what holds it at the end of the profile."""


@dataclass(frozen=True)
class Holding:
    """Blocks of one kind at the peak.

    Attributes:
        kind: ``weights``, ``gradients``, ``optimizer``, ``saved for backward``, ``scratch``,
            ``buffers and data`` or ``before the profile``.
        module: The module whose forward pass computed them, or "".
        line: The Python line that recorded the largest one, or "".
        bytes: Their capacity.
        blocks: Their number.
    """

    kind: str
    module: str
    line: str
    bytes: int
    blocks: int


@dataclass(frozen=True)
class MemoryPeak:
    """The peak of the device's memory between two moments.

    Attributes:
        time: When it was.
        bytes: Blocks in use.
        idle: Blocks that the pool kept for reuse: fragmentation.
        holdings: The largest first.
    """

    time: int
    bytes: int
    idle: int
    holdings: tuple[Holding, ...]


def classify_blocks() -> dict[int, str]:
    """Return what the live tensors of PyTorch's own owners are: by address of their block.

    It looks at all parameters, buffers, gradients and optimizers of the process.
    """
    found: dict[int, str] = {}
    for each in gc.get_objects():
        # `isinstance` would run the `__class__` of lazy proxies.
        kind = type(each)
        if issubclass(kind, torch.nn.Module):
            _note(found, each._parameters.values(), "weights")
            _note(found, each._buffers.values(), "buffers and data")
            gradients = (p.grad for p in each._parameters.values() if p is not None)
            _note(found, gradients, "gradients")
        elif issubclass(kind, torch.optim.Optimizer):
            for state in each.state.values():
                if isinstance(state, dict):
                    _note(found, state.values(), "optimizer")
    return found


def _note(found: dict[int, str], tensors: Iterable[object], kind: str) -> None:
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.device.type == NAME:
            address = _C._block_address(tensor)
            if address:
                found[address] = kind


def memory_line(events: Events, start: int) -> list[tuple[int, int]]:
    """Return (time, bytes in use) after each event; ``start`` bytes were in use before."""
    used, line = start, [(events.begin, start)]
    for event in events.memory:
        used += event.bytes
        line.append((event.time, used))
    return line


def peak_of(
    events: Events, before: Mapping[int, int], owners: Owners, begin: int, end: int
) -> MemoryPeak | None:
    """Explain the peak between two moments.

    Args:
        events: The profile.
        before: Address and bytes of the blocks that were in use when it began.
        owners: The result of `classify_blocks`.
        begin: First moment.
        end: Last moment.

    Returns:
        The peak; None if no block was taken in this time.
    """
    live: dict[int, MemoryEvent] = {
        address: MemoryEvent(events.begin, address, size, 0, 0) for address, size in before.items()
    }
    idle: dict[int, int] = {}
    used, best = sum(before.values()), -1
    snapshot: tuple[int, list[MemoryEvent], int] | None = None
    for event in events.memory:
        if event.time > end:
            break
        used += event.bytes
        if event.bytes > 0:
            live[event.address] = event
            idle.pop(event.address, None)
        else:
            live.pop(event.address, None)
            idle[event.address] = -event.bytes
        if event.time >= begin and used > best:
            best = used
            snapshot = event.time, list(live.values()), sum(idle.values())
    if snapshot is None:
        return None
    time, blocks, kept = snapshot
    groups: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    runs = {run.number: run for run in events.runs}
    for block in blocks:
        kind, module, line = _owner(block, runs, owners)
        groups[kind, module].append((block.bytes, line))
    holdings = [
        Holding(kind, module, max(parts)[1], sum(size for size, _ in parts), len(parts))
        for (kind, module), parts in groups.items()
    ]
    return MemoryPeak(time, best, kept, tuple(sorted(holdings, key=lambda h: -h.bytes)))


def _owner(block: MemoryEvent, runs: Mapping[int, object], owners: Owners) -> tuple[str, str, str]:
    """Return kind, module and line of a block."""
    if block.address in owners:
        return owners[block.address], "", ""
    run = runs.get(block.run)
    if run is None:
        return "buffers and data" if block.run == 0 else "before the profile", "", ""
    if block.result < 0:
        return "scratch", "", ""
    results = run.results  # type: ignore[attr-defined]
    if block.result >= len(results):
        return "buffers and data", "", ""
    module, line, is_backward = results[block.result]
    if module.endswith(".step"):
        return "optimizer", module, line
    return ("gradients" if is_backward else "saved for backward"), module, line
