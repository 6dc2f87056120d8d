"""Windows of an operand: blocks that DMA would fetch in pieces or repeatedly, fetched as the box
that they cover.

The windows of a convolution take each element of the image once for every tap. A block of them is a
*box* of the tensor: DMA brings the box into a slot once, and ``MMW`` reads the windows there. A box
has *sides*, outermost first; each is walked by one or more axes of the contraction: the rows of an
image by the rows of the result, ``stride`` at a time, and by those of the window. Weights that are
read backwards, or with filters and channels exchanged, are such boxes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.symbolic import is_integer

__all__ = ["COLUMN_SIDES", "WindowSide", "behind", "box_strides", "windows"]

FEWEST = 3
"""Sides of a box whose elements are in turn, and which is one for being fetched in longer runs."""
COLUMN_SIDES = 2
"""The innermost sides of a box, which lie along a slot's rows."""
MOST_BEHIND = 4
"""Granules of a tensor behind what a kernel reads that boxes may reach into."""


@dataclass(frozen=True)
class WindowSide:
    """One side of a box.

    unit: distance of neighbours along it in the tensor, in elements. steps: for the position of
    each axis that walks it, as given to ``windows``, how many of these it goes at once; backwards
    if negative. full: its length where blocks take all of its axes; joined: the length that it is
    then fetched with, up to where the next side's neighbour begins, where that makes longer runs.
    """

    unit: int
    steps: tuple[tuple[int, int], ...]
    full: int = 0
    joined: int = 0

    def fetched(self, length: int) -> int:
        """The length that DMA brings for a block that covers ``length``."""
        return self.joined if length == self.full and self.joined else length


def windows(
    extents: Sequence[int],
    access: Affine,
    rows: Sequence[int],
    columns: Sequence[int],
    near: int,
    granule: int = 1,
    behind: int = 0,
) -> tuple[WindowSide, ...] | None:
    """The sides of the box that ``access`` covers; None where DMA fetches the rows as they are, or
    they cover no box.

    Args:
        extents: of all axes. rows, columns: the axes that make the operand's rows and columns;
        ``WindowSide`` tells them by their position here, rows first. near: elements at a distance
        below this are worth fetching with what lies between them. granule: elements of DMA's
        granule. behind: elements of the tensor behind the last one, as ``behind`` tells; sides are
        joined where that leaves them in it.
    """
    axes = (*rows, *columns)
    walks = [
        (abs(access.coeffs[axis]), position)
        for position, axis in enumerate(axes)
        if access.coeffs[axis] != 0
    ]
    if not walks or not all(is_integer(n) for n in (*extents, *access.coeffs)):
        return None
    walks.sort()
    least = walks[0][0]
    unit = 1 if least < near else least
    sides: list[tuple[int, list[tuple[int, int]]]] = []
    length = 1
    for stride, position in walks:
        if not sides:
            sides.append((unit, []))
        elif stride < unit * length:
            if stride % unit:
                return None
        else:
            unit, length = stride, 1
            sides.append((unit, []))
        step = stride // unit
        sides[-1][1].append((position, step if access.coeffs[axes[position]] > 0 else -step))
        length += (extents[axes[position]] - 1) * step
    found = _joined(
        extents, [WindowSide(unit, tuple(steps)) for unit, steps in sides], axes, granule, behind
    )
    plain = all(len(steps) == 1 and steps[0][1] == 1 for _, steps in sides) and _in_turn(
        [steps[0][0] for _, steps in sides], len(rows)
    )
    if plain and (len(sides) < FEWEST or not any(side.joined for side in found)):
        return None
    return tuple(reversed(found))


def box_strides(
    sides: Sequence[WindowSide], axes: Sequence[int], access: Affine
) -> tuple[int, ...] | None:
    """How far apart neighbours along each side are in another tensor, 0 where they are one element
    of it; None if that differs.

    axes: those that ``WindowSide`` tells by their position.  access: to the other tensor.
    """
    found = []
    for side in sides:
        steps = {
            access.coeffs[axes[at]] // step if access.coeffs[axes[at]] % step == 0 else None
            for at, step in side.steps
        }
        if len(steps) > 1 or None in steps:
            return None
        found += [step for step in steps if step is not None]
    walked = {at for side in sides for at, _ in side.steps}
    others = [axis for at, axis in enumerate(axes) if at not in walked]
    return None if any(access.coeffs[axis] for axis in others) else tuple(found)


def behind(extents: Sequence[int], access: Affine, size: int, granule: int) -> int:
    """Elements of a tensor of ``size`` behind the last that ``access`` touches, as many as boxes
    may reach into; 0 if their number varies.

    It is a fact of the kernel, for two that read the same elements in tensors that end elsewhere
    are not one.
    """
    last = access.const + sum(
        c * (n - 1) for c, n in zip(access.coeffs, extents, strict=True) if c > 0
    )
    left = size - 1 - last
    return min(left, MOST_BEHIND * granule) if isinstance(left, int) else 0


def _joined(
    extents: Sequence[int], sides: list[WindowSide], axes: Sequence[int], granule: int, left: int
) -> list[WindowSide]:
    """The sides, innermost first, with the lengths that make one run of each and the next, where
    runs take as much by their granules."""
    found: list[WindowSide] = []
    run = sides[0].unit == 1  # whether all inside is one
    for side, following in zip(sides, [*sides[1:], None], strict=True):
        full, joined = 1 + sum((extents[axes[at]] - 1) * abs(step) for at, step in side.steps), 0
        if (
            run
            and following is not None
            and following.unit % side.unit == 0
            and all(step > 0 for _, step in side.steps)
        ):
            joined = following.unit // side.unit
        between = (joined - full) * side.unit
        run = (
            run
            and full <= joined
            and joined * side.unit <= -(-full * side.unit // granule) * granule
            and between <= left
        )
        left -= between if run else 0
        found.append(WindowSide(side.unit, side.steps, full, joined) if run and between else side)
    return found


def _in_turn(positions: Sequence[int], rows: int) -> bool:
    """Whether all rows lie outside of all columns, or inside."""
    groups = [position < rows for position in positions]
    return sum(a != b for a, b in pairwise(groups)) <= 1
