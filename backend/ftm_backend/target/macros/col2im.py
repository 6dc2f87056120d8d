"""Expansion of FOLD (col2im): windows are summed into the feature map they were cut from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from ftm_backend.target.macros.macro_simulator import MacroSimulator, UnitVector


class FoldSide(NamedTuple):
    """One dimension of the feature map.

    Attributes:
        taps: Filter taps.
        spacing: Dilation.
        windows: Number of windows.
        stride: Distance of windows.
        size: Extent of the feature map.
        before: Padding before it.
    """

    taps: int
    spacing: int
    windows: int
    stride: int
    size: int
    before: int

    def window(self, place: np.ndarray, tap: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the window whose tap covers each place, and whether that window exists."""
        offset = place + self.before - tap * self.spacing
        number = offset // self.stride
        return number, (offset % self.stride == 0) & (number >= 0) & (number < self.windows) & (
            place < self.size
        )


def fold(u: MacroSimulator, x: np.ndarray, y: np.ndarray, sides: Sequence[FoldSide]) -> None:
    """Sum windows.

    Elements that are ``stride`` apart in each dimension form a phase. The windows of a phase are
    adjacent in x, so one shuffle per tap brings their values to the lanes of a vector. The vectors
    of the phases of a row are then interleaved, and each row that they reach into is stored
    separately. Lanes that no window covers are not added to.
    """
    grid = [-(-side.size // side.stride) for side in sides]
    taps, windows = prod(side.taps for side in sides), prod(side.windows for side in sides)
    channels, images = x.shape[0] // taps, x.shape[1] // windows
    count, size = images * prod(grid), prod(side.size for side in sides)
    pieces = -(-count // u.lanes)
    *outer, inner = (range(side.stride) for side in sides)
    for block in u.loop(channels * pieces):
        channel, first = block // pieces, block % pieces * u.lanes
        rows = x[channel * taps : (channel + 1) * taps]
        for phases in product(*outer):
            vectors = [
                _phase(u, rows, sides, (*phases, r), first + u.numbers, count) for r in inner
            ]
            for part in range(len(vectors)):
                numbers = (part * u.lanes + u.numbers) // len(vectors)
                residues = (part * u.lanes + u.numbers) % len(vectors)
                interleaved = vectors[0]
                for r in range(1, len(vectors)):
                    others = numbers if r == 1 else u.numbers
                    lanes = np.where(residues == r, u.lanes + numbers, others)
                    interleaved = u.shuffle(lanes, interleaved, vectors[r])
                image, places, inside = _places(sides, (*phases, residues), first + numbers, count)
                flat = image * size
                for place, step in zip(places, _steps(sides), strict=True):
                    flat = flat + place * step
                is_single_phase = prod(side.stride for side in sides) == 1
                _store(
                    u,
                    interleaved,
                    y[channel],
                    np.where(inside, flat, -1),
                    1 if is_single_phase else 1 + -(-(u.lanes - 1) // sides[-1].size),
                )


def _steps(sides: Sequence[FoldSide]) -> list[int]:
    return [prod(side.size for side in sides[k + 1 :]) for k in range(len(sides))]


def _places(
    sides: Sequence[FoldSide], phases: Sequence[int | np.ndarray], numbers: np.ndarray, count: int
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Return image, position and existence of the elements ``numbers`` of a phase."""
    places: list[np.ndarray] = []
    inside, left = numbers < count, numbers
    for side, phase in zip(reversed(sides), reversed(phases), strict=True):
        steps = -(-side.size // side.stride)
        place = left % steps * side.stride + phase
        places.insert(0, place)
        inside = inside & (place < side.size)
        left = left // steps
    return left, places, inside


def _phase(
    u: MacroSimulator,
    rows: np.ndarray,
    sides: Sequence[FoldSide],
    phases: Sequence[int],
    numbers: np.ndarray,
    count: int,
) -> UnitVector:
    """Sum the taps that cover the elements ``numbers`` of a phase."""
    image, places, exists = _places(sides, phases, numbers, count)
    total = u.constant(rows.dtype.type(0))
    for number, taps in enumerate(product(*(range(side.taps) for side in sides))):
        if any(
            (r + s.before - t * s.spacing) % s.stride
            for s, t, r in zip(sides, taps, phases, strict=True)
        ):
            continue
        source, within = image, exists
        for side, tap, place in zip(sides, taps, places, strict=True):
            window, there = side.window(place, tap)
            source, within = source * side.windows + window, within & there
        first = int(source[within].min()) if within.any() else 0
        values = u.load(rows[number], first)
        reached = source - first
        for ahead in range(
            u.lanes, max(u.lanes, int(source[within].max(initial=first)) - first) + 1, u.lanes
        ):
            after = np.clip(reached - ahead + u.lanes, u.lanes, 2 * u.lanes - 1)
            kept = np.clip(reached, 0, u.lanes - 1) if ahead == u.lanes else u.numbers
            values = u.shuffle(
                np.where(reached >= ahead, after, kept), values, u.load(rows[number], first + ahead)
            )
        total = u.select(UnitVector(within, total.block, 0), u.add(total, values), total)
    return total


def _store(
    u: MacroSimulator, vector: UnitVector, row: np.ndarray, flat: np.ndarray, most: int
) -> None:
    """Store lanes at the places ``flat`` of a row; lanes with place -1 are dropped.

    Each stretch of consecutive places is shuffled to lane 0 and stored. ``most`` stretches are
    charged; with ``most == 1`` the stretch starts at lane 0 already.
    """
    starts = [
        k for k in range(len(flat)) if flat[k] >= 0 and (k == 0 or flat[k] != flat[k - 1] + 1)
    ]
    for number in range(max(most, len(starts))):
        if number < len(starts):
            start = starts[number]
            end = next(
                (k for k in range(start, len(flat)) if flat[k] != flat[start] + k - start),
                len(flat),
            )
            stretch = row[flat[start] : flat[start] + end - start]
        else:
            start, stretch = 0, row[:0]
        is_aligned = most == 1
        lanes = np.minimum(u.numbers + start, u.lanes - 1)
        u.store(vector if is_aligned else u.shuffle(lanes, vector), stretch, 0)
