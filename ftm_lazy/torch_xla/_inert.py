"""Marks what code for torch_xla may say and what then has no effect here, with the reason.

The table of names in ``docs/torch_xla.md`` shows the reason; nothing else depends on the mark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["inert", "reason"]

F = TypeVar("F", bound=Callable[..., Any])


def inert(why: str) -> Callable[[F], F]:
    """Decorator: the function is accepted and has no effect, or a constant result, because of
    `why`."""

    def mark(function: F) -> F:
        function._inert = why  # type: ignore[attr-defined]
        return function

    return mark


def reason(thing: object) -> str | None:
    """Why `thing` has no effect; None if it has one."""
    return vars(thing).get("_inert") if hasattr(thing, "__dict__") else None
