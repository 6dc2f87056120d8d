"""Windows of an operand: blocks that DMA would fetch in pieces or repeatedly, fetched as the box that they cover.

The windows of a convolution take each element of the image once for every tap.  A block of them is a *box* of the
tensor: DMA brings the box into a slot once, and ``MMW`` reads the windows there.  A box has *sides*, outermost first;
each is walked by one or more axes of the contraction: the rows of an image by the rows of the result, ``stride`` at a time,
and by those of the window.  Weights that are read backwards, or with filters and channels exchanged, are such boxes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ftm_backend.linalg.affine import Affine
from ftm_backend.sizes import is_integer

__all__ = ["Side", "windows"]


@dataclass(frozen=True)
class Side:
    """One side of a box.

    unit: distance of neighbours along it in the tensor, in elements.  steps: for the position of each axis that walks it,
    as given to ``windows``, how many of these it goes at once; backwards if negative.
    """

    unit: int
    steps: tuple[tuple[int, int], ...]


def windows(extents: Sequence[int], access: Affine, rows: Sequence[int], columns: Sequence[int], near: int) -> tuple[Side, ...] | None:
    """The sides of the box that ``access`` covers; None where DMA fetches the rows as they are, or they cover no box.

    Args:
        extents: of all axes.
        rows, columns: the axes that make the operand's rows and columns; ``Side`` tells them by their position here, rows first.
        near: elements at a distance below this are worth fetching with what lies between them.
    """
    axes = (*rows, *columns)
    walks = [(abs(access.coeffs[axis]), position) for position, axis in enumerate(axes) if access.coeffs[axis] != 0]
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
    if all(len(steps) == 1 and steps[0][1] == 1 for _, steps in sides) and _in_turn([steps[0][0] for _, steps in sides], len(rows)):
        return None
    return tuple(Side(unit, tuple(steps)) for unit, steps in reversed(sides))


def _in_turn(positions: Sequence[int], rows: int) -> bool:
    """Whether all rows lie outside of all columns, or inside."""
    groups = [position < rows for position in positions]
    return sum(a != b for a, b in pairwise(groups)) <= 1
