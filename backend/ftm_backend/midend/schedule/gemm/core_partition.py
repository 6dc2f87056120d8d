"""How large blocks are along one group of axes: full ones, the last one, and what the busiest core
meets of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from ftm_backend.midend.schedule.gemm.candidate_tile_sizes import axis
from ftm_backend.midend.schedule.gemm.tiling import TileCut
from ftm_backend.target import cost_rules

__all__ = ["BlockExtents"]


class BlockExtents:
    """Elements of blocks, for each cut of a group: arrays along its axis of a grid, and where trips
    are along others along those, too.

    full, last: of a full block, and of that behind which a walk of the cut dimension ends. part:
    how many of the busiest core's blocks are such last ones. mean: of those that it walks.
    """

    def __init__(
        self, cuts: Sequence[TileCut], sides: Sequence[int], position: int, whole: bool = False
    ) -> None:
        """whole: blocks may overlap, and the last one counts as a full one."""
        sides = sides or (1,)
        self.full = axis([cut.elements for cut in cuts], position)
        self.blocks = axis([cut.blocks for cut in cuts], position)
        rests = [
            (sides[cut.dim] - 1) % cut.size + 1 if not whole or cut.dim == 0 else cut.size
            for cut in cuts
        ]
        self.last = axis(
            [rest * (cut.elements // cut.size) for rest, cut in zip(rests, cuts, strict=True)],
            position,
        )
        self.period = axis(
            [
                cost_rules.pieces(sides[cut.dim], cut.size) if cut.dim < len(sides) else 1
                for cut in cuts
            ],
            position,
        )
        self.ragged = any(rest != cut.size for rest, cut in zip(rests, cuts, strict=True))

    def walked(self, blocks: Any) -> None:
        """Says how many blocks the busiest core walks: as few last ones among them as there can
        be."""
        self.part = blocks // self.period / blocks
        self.mean = self.over(lambda elements: elements)

    def times(self, factor: float) -> BlockExtents:
        """The same with so many elements for each."""
        found = copy(self)
        found.full, found.last, found.mean = (
            self.full * factor,
            self.last * factor,
            self.mean * factor,
        )
        return found

    def over(self, cost: Callable[[Any], Any]) -> Any:
        """The mean of what a block costs."""
        full = cost(self.full)
        return full + (cost(self.last) - full) * self.part if self.ragged else full

    def even(self, cost: Callable[[Any], Any], trips: Any) -> Any:
        """How many cores have blocks on average, by what these cost, while the busiest one walks
        its ``trips``."""
        if not self.ragged:
            return self.blocks / trips
        full, last = cost(self.full), cost(self.last)
        return (
            self.blocks
            * (full + (last - full) / self.period)
            / (trips * (full + (last - full) * self.part))
        )
