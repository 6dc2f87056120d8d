"""Arguments of calls, as overloads of an op name them."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["given"]

T = TypeVar("T")


def given(argument: T | None, other: T | None) -> T:
    """The one of two arguments that the call has: overloads call the same by other names.

    Raises:
        TypeError: it has neither.
    """
    if argument is not None:
        return argument
    if other is not None:
        return other
    raise TypeError("the call lacks an argument")
