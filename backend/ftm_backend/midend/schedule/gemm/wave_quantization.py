"""Wave quantization of panels: how many cores are busy in each wave, and their DDR bandwidth.

Example: 10 panels on 8 cores run in two waves. All 8 cores are busy in the first, 2 in the second;
these 2 share DDR's bandwidth, limited by that of a core.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ftm_backend.target.element_types import Numbers
from ftm_backend.target.presets import MachineParameters

__all__ = ["ddr_share", "waves"]

Waves = tuple[tuple[Numbers, Numbers], ...]
"""Full waves, then the last wave: mean number of busy groups of cores, fraction of all waves."""


def waves(blocks: Numbers, busiest: Numbers, groups: int, even: Numbers) -> Waves:
    """Return the waves of ``blocks`` blocks on ``groups`` groups of cores.

    Args:
        blocks: Number of blocks.
        busiest: Blocks of the group that has most.
        groups: Number of groups.
        even: Mean number of busy groups over all waves.
    """
    if groups == 1:
        return ((1.0, 1.0),)
    busy = np.minimum(blocks, groups)
    full = np.minimum(even * busiest / blocks, 1.0)  # of a block
    left = blocks - (busiest - 1) * busy
    return (np.maximum(busy * full, 1.0), 1 - 1 / busiest), (
        np.maximum(left * full, 1.0),
        1 / busiest,
    )


def ddr_share(
    machine: MachineParameters,
    active: Callable[[Numbers, Numbers], Numbers],
    rows: Waves,
    columns: Waves,
) -> tuple[Numbers, Numbers]:
    """Return the busiest core's DDR bandwidth, averaged over the waves.

    In the last wave fewer cores share DDR, but each is limited by its own bandwidth.

    Args:
        machine: The target.
        active: Traffic of all cores over that of the busiest one, as a function of the number of
            groups that have rows and of those that have columns.
        rows: Waves of row panels.
        columns: Waves of column blocks.

    Returns:
        Bytes per cycle of the busiest core, and the mean of ``active``.
    """
    seconds: Numbers = 0.0
    average: Numbers = 0.0
    for even_rows, of_rows in rows:
        for even_columns, of_columns in columns:
            busy, part = active(even_rows, even_columns), of_rows * of_columns
            average = average + part * busy
            seconds = seconds + part / np.minimum(
                machine.ddr_bandwidth / busy, machine.core_bandwidth
            )
    return 1 / (seconds * machine.clock_hz), average
