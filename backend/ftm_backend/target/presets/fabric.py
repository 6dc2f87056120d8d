"""The fabric of a machine: how its ranks are connected, as levels of a hierarchy.

A rank is one machine of the preset, which runs one process. Example: four clusters of a chip
exchange data on the chip (level 0), 32 chips over the switch of their frame (level 1), and frames
over a fat tree (level 2).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FabricLevel:
    """One level of switches. Bandwidths are bytes per second in each direction."""

    name: str
    ranks: int
    """Ranks that one switch of this level connects, over all levels below it."""
    latency: float
    """Seconds from the start of a send to the first byte at the receiver."""
    bandwidth: float
    """Bandwidth of one transfer between two ranks that this level connects."""
    uplink: float
    """Bandwidth that the ranks of one group of the level below share to reach this level.

    In the lowest level, such a group is one rank.
    """


@dataclass(frozen=True)
class Fabric:
    """The levels, innermost first."""

    levels: tuple[FabricLevel, ...]

    @property
    def ranks(self) -> int:
        """Greatest number of ranks."""
        return self.levels[-1].ranks

    def level(self, span: int) -> int:
        """Return the number of the lowest level that connects ``span`` consecutive ranks."""
        return next(k for k, level in enumerate(self.levels) if level.ranks >= span)

    def seconds(self, span: int, size: float, is_crowded: bool, stride: int = 1) -> float:
        """Return the time of one message from each rank to another one, all at the same time.

        Args:
            span: Partners are in the same group of this many consecutive ranks.
            size: Bytes of each message.
            is_crowded: Whether all ranks of a group of the level below send out of that group. If
                not, one of ``stride`` does, as in a ring.
            stride: Number of rings, each of every ``stride``-th rank.
        """
        top = self.level(span)
        rate = self.levels[top].bandwidth
        for below, level in zip((None, *self.levels), self.levels[: top + 1], strict=False):
            group = below.ranks if below else 1
            rate = min(rate, level.uplink / (group if is_crowded else min(stride, group)))
        return self.levels[top].latency + size / rate
