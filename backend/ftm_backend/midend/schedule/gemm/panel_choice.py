"""Discrete choices of a panel schedule: what cores share, the order of loops, what stays resident.

``ChoiceMasks`` holds several choices as boolean arrays, so that ``panel_cost`` and
``panel_transfer_cost`` price them at once. Both classes are data: they read and change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ftm_backend.midend.schedule.gemm.schedule import Share
from ftm_backend.target.element_types import Numbers

__all__ = ["ChoiceMasks", "PanelChoice"]


class PanelChoice(NamedTuple):
    """The parts of a plan other than sizes and the grid of cores; see ``Schedule``."""

    share: Share
    m_outer: bool
    keep: bool
    b_in_gsm: bool


class ChoiceMasks:
    """Choices as boolean arrays with the axes (choice, 1)."""

    def __init__(self, choices: Sequence[PanelChoice]) -> None:
        """Set the masks of ``choices``."""
        masks = np.array(
            [(c.share == "a", c.share == "b", c.m_outer, c.keep, c.b_in_gsm) for c in choices]
        ).T[:, :, None]
        self.share_a, self.share_b, self.m_outer, self.keep, self.b_in_gsm = masks
        self.shared = self.share_a | self.share_b
        # A is shared, but exchanged only once instead of in each step.
        self.exchanges_once = self.share_a & self.keep & self.m_outer
        self.keep_a, self.keep_b = self.keep & self.m_outer, self.keep & ~self.m_outer
        self.fills_during_panel = self.b_in_gsm & self.share_a & self.keep_b

    def by_loop(self, of_rows: Numbers, of_columns: Numbers) -> tuple[Numbers, Numbers]:
        """Return the values of the outer and of the inner loop."""
        return np.where(self.m_outer, of_rows, of_columns), np.where(
            self.m_outer, of_columns, of_rows
        )
