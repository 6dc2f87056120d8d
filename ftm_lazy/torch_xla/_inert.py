"""Marker for functions that torch_xla programs call and that have no effect on ftm.

The mark holds the reason, which the table of names in ``docs/torch_xla.md`` shows. Nothing else
depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["inert", "reason"]

F = TypeVar("F", bound=Callable[..., object])


def inert(why: str) -> Callable[[F], F]:
    """Mark a function as without effect, or with a constant result (decorator).

    Args:
        why: The reason.
    """

    def mark(function: F) -> F:
        function._inert = why  # type: ignore[attr-defined]
        return function

    return mark


def reason(thing: object) -> str | None:
    """Return why a function has no effect; None if it is not marked."""
    return vars(thing).get("_inert") if hasattr(thing, "__dict__") else None
