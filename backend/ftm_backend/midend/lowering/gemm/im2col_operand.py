"""Im2col operands: the windows below a block are loaded once, as the box that they cover.

The windows of a convolution contain each element of the feature map once per tap. The windows of a
block cover a *box* of the tensor. DMA loads the box into a slot once, and ``MMW`` reads overlapping
windows there. A box has *sides*, outermost first. One or more axes of the contraction traverse each
side: the rows of a feature map are traversed by the rows of the result, in steps of ``stride``, and
by the rows of the window. Weights that are read backwards, or with filters and channels exchanged,
are boxes, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.symbolic import is_integer

__all__ = ["COLUMN_SIDES", "WindowSide", "behind", "box_strides", "windows"]

FEWEST = 3
"""A box that merely makes runs longer needs at least so many sides."""
COLUMN_SIDES = 2
"""Number of innermost sides of a box that form a slot's columns."""
MOST_BEHIND = 4
"""A box may extend over the kernel's last element by so many DMA granules of the tensor."""


@dataclass(frozen=True)
class WindowSide:
    """One side of a box.

    Attributes:
        unit: Distance of neighbours along the side, in elements of the tensor.
        steps: Pairs (position, step): the axis at this position, as given to ``windows``,
            traverses the side in steps of so many units; negative: backwards.
        full: Length of the side for blocks that cover all of its axes.
        joined: Length to load instead of ``full``, up to the next side's neighbour, if this makes
            longer runs; else 0.
    """

    unit: int
    steps: tuple[tuple[int, int], ...]
    full: int = 0
    joined: int = 0

    def fetched(self, length: int) -> int:
        """Return the length to load for a block that covers ``length``."""
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
    """Return the sides of the box that ``access`` covers.

    Args:
        extents: Extents of all axes.
        access: The operand's access.
        rows: Axes of the operand's rows.
        columns: Axes of its columns. ``WindowSide`` numbers the axes in the order rows, columns.
        near: Elements closer than this are loaded together with the gaps between them.
        granule: Elements of a DMA granule.
        behind: Elements of the tensor after the last one of ``access``; see ``behind``. Sides may
            only be joined within them.

    Returns:
        The sides, or None if rows should be loaded as they are, or do not cover a box.
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
    """Return the strides of another tensor along each side; 0 if it is constant along a side.

    Args:
        sides: The box.
        axes: The axes that ``WindowSide`` numbers.
        access: The other tensor's access.

    Returns:
        The strides, or None if a side has no single stride.
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
    """Return how many elements after the last access a box may load; 0 for symbolic sizes.

    It is part of a kernel's structural key: kernels that access the same elements of tensors with
    different sizes differ.

    Args:
        extents: Extents of all axes.
        access: The operand's access.
        size: Elements of the tensor.
        granule: Elements of a DMA granule.
    """
    last = access.const + sum(
        c * (n - 1) for c, n in zip(access.coeffs, extents, strict=True) if c > 0
    )
    left = size - 1 - last
    return min(left, MOST_BEHIND * granule) if isinstance(left, int) else 0


def _joined(
    extents: Sequence[int], sides: list[WindowSide], axes: Sequence[int], granule: int, left: int
) -> list[WindowSide]:
    """Set the ``joined`` lengths, which merge a side with the next one into one run.

    Sides are innermost first. They are joined only if that loads no more granules.
    """
    found: list[WindowSide] = []
    run = sides[0].unit == 1  # whether all inner sides are one run
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
    """Whether all rows are outside of all columns, or all inside."""
    groups = [position < rows for position in positions]
    return sum(a != b for a, b in pairwise(groups)) <= 1
