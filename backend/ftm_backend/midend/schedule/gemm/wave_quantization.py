"""How many cores are busy while a plan of panels runs, and what each gets of DDR then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ftm_backend.target.presets import MachineParameters

__all__ = ["share", "trips"]

Trips = tuple[tuple[Any, Any], ...]
"""How many groups of cores have work on average in all trips of the busiest one but the last, and
in the last; each with its part of the trips. One group has work in all of them."""


def trips(blocks: Any, busiest: Any, groups: int, even: Any) -> Trips:
    """For ``blocks`` over so many groups. busiest: blocks of the one that has most; even: groups
    that have work over all trips."""
    if groups == 1:
        return ((1.0, 1.0),)
    busy = np.minimum(blocks, groups)
    full = np.minimum(even * busiest / blocks, 1.0)  # of a block
    left = blocks - (busiest - 1) * busy
    return (np.maximum(busy * full, 1.0), 1 - 1 / busiest), (
        np.maximum(left * full, 1.0),
        1 / busiest,
    )


def share(
    machine: MachineParameters, active: Callable[[Any, Any], Any], rows: Trips, columns: Trips
) -> tuple[Any, Any]:
    """Bytes of DDR that the busiest core gets in a cycle, and how many cores are active, on average
    over the trips.

    Cores that have a panel less than the others leave DDR to these for the last trip, and few cores
    cannot take all of it.

    active: all of the traffic over that of the busiest core, with so many groups that have rows,
        and columns.
    """
    seconds: Any = 0.0
    average: Any = 0.0
    for even_rows, of_rows in rows:
        for even_columns, of_columns in columns:
            busy, part = active(even_rows, even_columns), of_rows * of_columns
            average = average + part * busy
            seconds = seconds + part / np.minimum(
                machine.ddr_bandwidth / busy, machine.core_bandwidth
            )
    return 1 / (seconds * machine.clock_hz), average
