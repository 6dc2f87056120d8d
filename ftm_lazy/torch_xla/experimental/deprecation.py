"""torch_xla.experimental.deprecation: old names that say the new ones."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, cast

__all__ = ["deprecated", "mark_deprecated", "register_deprecated"]

F = TypeVar("F", bound=Callable[..., Any])


def deprecated(
    module: ModuleType, new: F, old_name: str | None = None, extra_msg: str | None = None
) -> F:
    """`new`, with a warning that ``module.old_name`` is its old name."""
    text = f"{module.__name__}.{old_name or new.__name__} is deprecated. Use {new.__module__}.{new.__name__} instead."

    @functools.wraps(new)
    def warned(*args: object, **kwargs: object) -> Any:
        warnings.warn(
            f"{text} {extra_msg}" if extra_msg else text, DeprecationWarning, stacklevel=2
        )
        return new(*args, **kwargs)

    return cast(F, warned)


def mark_deprecated(new: F, extra_msg: str | None = None) -> Callable[[Callable[..., Any]], F]:
    """Decorator: the function is an old name of `new`."""

    def decorate(function: Callable[..., Any]) -> F:
        return deprecated(
            importlib.import_module(function.__module__), new, function.__name__, extra_msg
        )

    return decorate


def register_deprecated(module: ModuleType, new: Callable[..., Any]) -> None:
    """Make ``module.NAME`` an old name of `new`, whose name that is."""
    setattr(module, new.__name__, deprecated(module, new))
