"""Record: the recorded operation that a statement computes, and names made of operations.

Names of functions say which operations they compute: ``mm_relu_3`` is the program's function 3. The
number makes the name unique. Nothing but names and messages depends on origins: equal kernels share
a function, which is named after the first of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_MOST_OPS = 4


class Origin(NamedTuple):
    """A recorded operation.

    Attributes:
        number: Its number in the trace (`Trace.op_numbers`).
        op: Its short name, such as ``convolution``.
    """

    number: int
    op: str


def symbol_name(origins: Iterable[Origin], number: int) -> str:
    """Return the name of a kernel or function.

    Args:
        origins: The operations that it computes. Without any, it is named ``kernel``.
        number: Its number in the program.

    Returns:
        At most four operations in the order of the trace, then the number.
    """
    ops = list(dict.fromkeys(origin.op for origin in sorted(set(origins))))
    named = [*ops[:_MOST_OPS], *["etc"] * (len(ops) > _MOST_OPS)] or ["kernel"]
    return "_".join((*named, str(number)))


def location_text(origins: Iterable[Origin]) -> str:
    """Return origins as an MLIR location: ``loc("mm#3")``, or ``loc(fused["mm#3", "relu#4"])``."""
    names = ", ".join(f'"{origin.op}#{origin.number}"' for origin in origins)
    return f"loc(fused[{names}])" if "," in names else f"loc({names})"


def origins_at(location: object) -> tuple[Origin, ...]:
    """Return the origins in a location of MLIR's bindings; none in one of another kind."""
    found = []
    for each in getattr(location, "locations", [location]):
        op, mark, number = getattr(each, "name_str", "").rpartition("#")
        if mark and number.isdecimal():
            found.append(Origin(int(number), op))
    return tuple(found)
