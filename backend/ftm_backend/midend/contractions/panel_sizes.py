"""Sizes of blocks that the planner of panels tries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ftm_backend.machine import rules
from ftm_backend.midend.contractions.tiling import Cut, cuts

__all__ = ["sizes", "taken"]


@lru_cache(maxsize=4096)
def sizes(extents: tuple[int, ...], quantum: int, largest: int, shares: int, growth: float) -> tuple[Cut, ...]:
    """Cuts of a group, growing by ``growth``; those of a single dimension give each of ``shares`` sharers as many."""
    extents = extents or (1,)
    if len(extents) > 1:
        kept: list[Cut] = []
        for each in cuts(extents, quantum, largest):
            if not kept or each.elements >= growth * kept[-1].elements:
                kept.append(each)
        return tuple(kept)
    found: dict[int, Cut] = {}
    target = float(quantum)
    while True:
        for each in {max(1, int(extents[0] / (shares * target))), rules.pieces(extents[0], int(shares * target))}:
            size = min(extents[0], rules.pieces(rules.pieces(extents[0], shares * each), quantum) * quantum)
            found.setdefault(size, Cut(0, size, size, rules.pieces(extents[0], size)))
        if shares * target >= extents[0]:
            if shares == 1:
                break
            shares = 1
        if target >= largest:
            break
        target = max(target * growth, target + 1)
    return tuple(sorted((cut for cut in found.values() if cut.elements <= largest or len(found) == 1), key=lambda c: c.size))


def taken(extents: Sequence[int], cut: Cut) -> tuple[int, ...]:
    """Steps of each dimension that a block takes."""
    return tuple(1 if at < cut.dim else cut.size if at == cut.dim else extent for at, extent in enumerate(extents))
