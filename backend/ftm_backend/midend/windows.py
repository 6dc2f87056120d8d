"""Windows of an operand: blocks whose rows overlap in memory, fetched as the box that they cover.

The windows of a convolution take each element of the image once for every tap.  A block of them is a *box* of the
tensor: DMA brings the box into a slot once, and ``MMW`` reads the windows there.  A box has *sides*, outermost first;
each is walked by one or more axes of the contraction: the rows of an image by the rows of the result, ``stride`` at a time,
and by those of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ftm_backend.linalg.affine import Affine
from ftm_backend.sizes import is_integer

__all__ = ["Side", "windows"]


@dataclass(frozen=True)
class Side:
    """One side of a box.

    unit: distance of neighbours along it in the tensor, in elements.  steps: for the position of each axis that walks it,
    as given to ``windows``, how many of these it goes at once.
    """

    unit: int
    steps: tuple[tuple[int, int], ...]


def windows(extents: Sequence[int], access: Affine, axes: Sequence[int], near: int) -> tuple[Side, ...] | None:
    """The sides of the box that ``access`` covers; None where rows do not overlap, or cover no box.

    Args:
        extents: of all axes.
        axes: those that make the operand's rows and columns; ``Side`` tells them by their position here.
        near: elements at a distance below this are worth fetching with what lies between them.
    """
    walks = [(access.coeffs[axis], position) for position, axis in enumerate(axes) if access.coeffs[axis] != 0]
    if not walks or not all(is_integer(n) for n in (*extents, *access.coeffs)) or min(walks)[0] < 0:
        return None
    walks.sort()
    least = walks[0][0]
    unit = 1 if least < near else least
    sides: list[tuple[int, list[tuple[int, int]]]] = []
    length = 1
    for stride, position in walks:
        reach = (extents[axes[position]] - 1) * (stride // unit)
        if not sides or (stride % unit == 0 and stride < unit * length):
            if not sides:
                sides.append((unit, []))
        elif stride < unit * length:
            return None
        else:
            unit, length, reach = stride, 1, extents[axes[position]] - 1
            sides.append((unit, []))
        sides[-1][1].append((position, stride // unit))
        length += reach
    if all(len(steps) == 1 and steps[0][1] == 1 for _, steps in sides):
        return None
    return tuple(Side(unit, tuple(steps)) for unit, steps in reversed(sides))
