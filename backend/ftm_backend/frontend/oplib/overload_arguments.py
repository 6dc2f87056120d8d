"""Select among arguments that overloads of an op name differently."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def given_argument(argument: T | None, other: T | None) -> T:
    """Return the argument that the call has; overloads pass it under different names.

    Raises:
        TypeError: The call has neither.
    """
    if argument is not None:
        return argument
    if other is not None:
        return other
    raise TypeError("the call lacks an argument")
