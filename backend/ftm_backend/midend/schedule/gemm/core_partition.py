"""Block extents along one group of axes, and the share of the busiest core.

Blocks are full except for the last one of the cut dimension. The cost model charges the busiest
core for as few partial blocks as the partition allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend.midend.schedule.gemm.candidate_tile_sizes import axis
from ftm_backend.midend.schedule.gemm.tiling_problem import TileCut
from ftm_backend.target import cost_rules
from ftm_backend.target.element_types import Numbers

__all__ = ["BlockExtents"]


class BlockExtents:
    """Elements of the blocks of each candidate cut, as arrays along one axis of the grid.

    Attributes:
        full: Elements of a full block.
        last: Elements of the last block of the cut dimension.
        last_fraction: Fraction of the busiest core's blocks that are last blocks.
        mean: Mean elements of the busiest core's blocks.
        ragged: Whether any candidate has a smaller last block.
    """

    def __init__(
        self,
        cuts: Sequence[TileCut],
        sides: Sequence[int],
        position: int,
        overlapping: bool = False,
    ) -> None:
        """Compute the extents.

        Args:
            cuts: Candidate cuts.
            sides: Extents of the group's dimensions.
            position: Axis of the grid.
            overlapping: Whether blocks may overlap, so that the last one counts as full.
        """
        sides = sides or (1,)
        self.full = axis([cut.elements for cut in cuts], position)
        self.blocks = axis([cut.blocks for cut in cuts], position)
        last_sizes = [
            cut.size if overlapping and cut.dim else (sides[cut.dim] - 1) % cut.size + 1
            for cut in cuts
        ]
        pairs = list(zip(last_sizes, cuts, strict=True))
        self.last = axis([last * (cut.elements // cut.size) for last, cut in pairs], position)
        self.period = axis([_blocks_of_a_dimension(cut, sides) for cut in cuts], position)
        self.ragged = any(last != cut.size for last, cut in pairs)

    def set_busiest(self, blocks: Numbers) -> None:
        """Set ``last_fraction`` and ``mean`` if the busiest core has ``blocks`` blocks."""
        self.last_fraction = blocks // self.period / blocks
        self.mean = self.mean_of(lambda elements: elements)

    def mean_of(self, cost: Callable[[Numbers], Numbers]) -> Numbers:
        """Return the mean over the busiest core's blocks of a cost."""
        full = cost(self.full)
        return full + (cost(self.last) - full) * self.last_fraction if self.ragged else full

    def busy_cores(self, cost: Callable[[Numbers], Numbers], waves: Numbers) -> Numbers:
        """Return how many cores are busy on average while the busiest one does its ``waves``.

        Args:
            cost: Cost of a block with a number of elements.
            waves: Blocks of the busiest core.
        """
        if not self.ragged:
            return self.blocks / waves
        full, last = cost(self.full), cost(self.last)
        return (
            self.blocks
            * (full + (last - full) / self.period)
            / (waves * (full + (last - full) * self.last_fraction))
        )


def _blocks_of_a_dimension(cut: TileCut, sides: Sequence[int]) -> int:
    """Return the number of blocks that cover the dimension that is cut."""
    return cost_rules.pieces(sides[cut.dim], cut.size) if cut.dim < len(sides) else 1
