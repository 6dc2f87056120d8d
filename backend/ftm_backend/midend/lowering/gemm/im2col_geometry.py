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

__all__ = ["COLUMN_SIDES", "WindowSide", "box_strides", "overread_limit", "windows"]

FEWEST_SIDES = 3
"""A box that merely makes runs longer needs at least so many sides."""
COLUMN_SIDES = 2
"""Number of innermost sides of a box that form a slot's columns."""
MAX_OVERREAD = 4
"""A box may extend over the kernel's last element by so many DMA granules of the tensor."""


@dataclass(frozen=True)
class WindowSide:
    """One side of a box.

    Attributes:
        unit: Distance of neighbours along the side, in elements of the tensor.
        steps: Pairs (position, step): the axis at this position, as given to ``windows``,
            traverses the side in steps of so many units; negative: backwards.
        full: Length of the side for blocks that cover all of its axes.
        padded_length: Length to load instead of ``full``, up to the next side's neighbour, if this
            makes longer runs; else 0.
    """

    unit: int
    steps: tuple[tuple[int, int], ...]
    full: int = 0
    padded_length: int = 0

    def fetched(self, length: int) -> int:
        """Return the length to load for a block that covers ``length``."""
        return self.padded_length if length == self.full and self.padded_length else length


def windows(
    extents: Sequence[int],
    access: Affine,
    rows: Sequence[int],
    columns: Sequence[int],
    near: int,
    granule: int = 1,
    overread_limit: int = 0,
) -> tuple[WindowSide, ...] | None:
    """Return the sides of the box that ``access`` covers.

    Args:
        extents: Extents of all axes.
        access: The operand's access.
        rows: Axes of the operand's rows.
        columns: Axes of its columns. ``WindowSide`` numbers the axes in the order rows, columns.
        near: Elements closer than this are loaded together with the gaps between them.
        granule: Elements of a DMA granule.
        overread_limit: Most elements to load after the last one of ``access``; see the function
            ``overread_limit``. Sides may only be joined within them.

    Returns:
        The sides, or None if rows should be loaded as they are, or do not cover a box.
    """
    if not all(map(is_integer, (*extents, *access.coeffs))):
        return None
    axes = (*rows, *columns)
    strides = _sorted_strides(axes, access)
    sides = _sides(extents, access, axes, strides, near) if strides else None
    if sides is None:
        return None
    found = _join_sides(
        extents,
        [WindowSide(unit, tuple(steps)) for unit, steps in sides],
        axes,
        granule,
        overread_limit,
    )
    has_longer_runs = len(sides) >= FEWEST_SIDES and any(side.padded_length for side in found)
    return tuple(reversed(found)) if has_longer_runs or not _is_plain(sides, len(rows)) else None


def _sorted_strides(axes: Sequence[int], access: Affine) -> list[tuple[int, int]]:
    """Return the strides along the axes, with the positions of the axes, smallest first."""
    steps = enumerate(access.coeffs[axis] for axis in axes)
    return sorted((abs(step), position) for position, step in steps if step)


def _is_plain(sides: Sequence[tuple[int, Sequence[tuple[int, int]]]], rows: int) -> bool:
    """Whether no side has several axes or a step, and rows and columns do not alternate."""
    steps = [steps for _, steps in sides]
    return all(len(each) == 1 and each[0][1] == 1 for each in steps) and _is_separated(
        [each[0][0] for each in steps], rows
    )


def _sides(
    extents: Sequence[int],
    access: Affine,
    axes: Sequence[int],
    strides: Sequence[tuple[int, int]],
    near: int,
) -> list[tuple[int, list[tuple[int, int]]]] | None:
    """Group axes whose windows overlap; return for each group its unit, and positions with steps.

    None if the steps of a group are not multiples of its unit.
    """
    least = strides[0][0]
    unit = 1 if least < near else least
    sides: list[tuple[int, list[tuple[int, int]]]] = []
    length = 1
    for stride, position in strides:
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
    return sides


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
    found = [_side_stride(side, axes, access) for side in sides]
    strides = tuple(stride for stride in found if stride is not None)
    walked = {at for side in sides for at, _ in side.steps}
    varies = any(access.coeffs[axis] for at, axis in enumerate(axes) if at not in walked)
    return strides if len(strides) == len(found) and not varies else None


def _side_stride(side: WindowSide, axes: Sequence[int], access: Affine) -> int | None:
    """Return the stride of a tensor along a side; None if its axes have different ones."""
    steps = {
        access.coeffs[axes[at]] // step if access.coeffs[axes[at]] % step == 0 else None
        for at, step in side.steps
    }
    return steps.pop() if len(steps) == 1 else None


def overread_limit(extents: Sequence[int], access: Affine, size: int, granule: int) -> int:
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
    overread = size - 1 - last
    return min(overread, MAX_OVERREAD * granule) if isinstance(overread, int) else 0


def _join_sides(
    extents: Sequence[int],
    sides: list[WindowSide],
    axes: Sequence[int],
    granule: int,
    overread: int,
) -> list[WindowSide]:
    """Set the ``padded_length`` lengths, which merge a side with the next one into one run.

    Sides are innermost first. They are joined only if that loads no more granules.
    """
    found: list[WindowSide] = []
    run = sides[0].unit == 1  # whether all inner sides are one run
    for side, following in zip(sides, [*sides[1:], None], strict=True):
        full = 1 + sum((extents[axes[at]] - 1) * abs(step) for at, step in side.steps)
        padded_length = _joined_length(side, following) if run else 0
        between = (padded_length - full) * side.unit
        granules = -(-full * side.unit // granule)
        run = full <= padded_length and padded_length * side.unit <= granules * granule
        run = run and between <= overread
        overread -= between if run else 0
        found.append(
            WindowSide(side.unit, side.steps, full, padded_length) if run and between else side
        )
    return found


def _joined_length(side: WindowSide, following: WindowSide | None) -> int:
    """Return the length of a side up to the next side's neighbour; 0 if they cannot be joined."""
    is_ascending = all(step > 0 for _, step in side.steps)
    if following is None or following.unit % side.unit or not is_ascending:
        return 0
    return following.unit // side.unit


def _is_separated(positions: Sequence[int], rows: int) -> bool:
    """Whether all rows are outside of all columns, or all inside."""
    groups = [position < rows for position in positions]
    return sum(a != b for a, b in pairwise(groups)) <= 1
