"""FOLD: windows summed at the places that they see."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from ftm_backend.target.macros.vector_unit import UnitVector, VectorUnit


class FoldSide(NamedTuple):
    """One dimension of the image: taps and their distance, windows and theirs, its size, and what
    lies before it."""

    taps: int
    spacing: int
    windows: int
    stride: int
    size: int
    before: int

    def window(self, place: np.ndarray, tap: int) -> tuple[np.ndarray, np.ndarray]:
        """Whose tap sees each place, and whether there is such a window."""
        offset = place + self.before - tap * self.spacing
        number = offset // self.stride
        return number, (offset % self.stride == 0) & (number >= 0) & (number < self.windows) & (
            place < self.size
        )


def fold(u: VectorUnit, x: np.ndarray, y: np.ndarray, sides: Sequence[FoldSide]) -> None:
    """Places that are ``stride`` apart in each dimension are a phase: their windows lie beside each
    other in x, so a shuffle brings those of a tap to the lanes of a vector of them. Vectors of the
    phases of a row are interleaved; each row that they reach into is stored by itself. What a lane
    has no window for is not added.
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
            made = [_phase(u, rows, sides, (*phases, r), first + u.numbers, count) for r in inner]
            for part in range(len(made)):
                numbers = (part * u.lanes + u.numbers) // len(made)
                together = made[0]
                for r in range(1, len(made)):
                    mine = (part * u.lanes + u.numbers) % len(made) == r
                    together = u.shuffle(
                        np.where(mine, u.lanes + numbers, numbers if r == 1 else u.numbers),
                        together,
                        made[r],
                    )
                residues = (part * u.lanes + u.numbers) % len(made)
                image, places, inside = _places(sides, (*phases, residues), first + numbers, count)
                flat = image * size
                for place, step in zip(places, _steps(sides), strict=True):
                    flat = flat + place * step
                alone = prod(side.stride for side in sides) == 1
                _store(
                    u,
                    together,
                    y[channel],
                    np.where(inside, flat, -1),
                    1 if alone else 1 + -(-(u.lanes - 1) // sides[-1].size),
                )


def _steps(sides: Sequence[FoldSide]) -> list[int]:
    return [prod(side.size for side in sides[k + 1 :]) for k in range(len(sides))]


def _places(
    sides: Sequence[FoldSide], phases: Sequence[int | np.ndarray], numbers: np.ndarray, count: int
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Of elements of a phase: their images, their places in these, and whether they exist."""
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
    u: VectorUnit,
    rows: np.ndarray,
    sides: Sequence[FoldSide],
    phases: Sequence[int],
    numbers: np.ndarray,
    count: int,
) -> UnitVector:
    """The sums of so many elements of a phase, over the taps that see it."""
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
        found = u.load(rows[number], first)
        for ahead in range(
            u.lanes, max(u.lanes, int(source[within].max(initial=first)) - first) + 1, u.lanes
        ):
            reached = source - first
            after = np.clip(reached - ahead + u.lanes, u.lanes, 2 * u.lanes - 1)
            kept = np.clip(reached, 0, u.lanes - 1) if ahead == u.lanes else u.numbers
            found = u.shuffle(
                np.where(reached >= ahead, after, kept), found, u.load(rows[number], first + ahead)
            )
        total = u.select(UnitVector(within, total.block, 0), u.add(total, found), total)
    return total


def _store(u: VectorUnit, vector: UnitVector, row: np.ndarray, flat: np.ndarray, most: int) -> None:
    """Lanes to their places in a row; those of -1 nowhere. Stretches of neighbours are stored by
    themselves, each from lane 0 on; ``most`` are counted. One alone begins there."""
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
        lined = (
            vector if most == 1 else u.shuffle(np.minimum(u.numbers + start, u.lanes - 1), vector)
        )
        u.store(lined, stretch, 0)
