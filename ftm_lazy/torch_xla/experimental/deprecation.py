"""torch_xla.experimental.deprecation: deprecated names with a warning."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar, cast

__all__ = ["deprecated", "mark_deprecated", "register_deprecated"]

F = TypeVar("F", bound=Callable[..., object])


def deprecated(
    module: ModuleType, new: F, old_name: str | None = None, extra_msg: str | None = None
) -> F:
    """Wrap `new` with a warning that ``module.old_name`` is deprecated.

    Args:
        module: The module of the old name.
        new: The function to call instead.
        old_name: The old name; None if it is that of `new`.
        extra_msg: A further sentence of the warning.
    """
    old_path = f"{module.__name__}.{old_name or new.__name__}"
    text = f"{old_path} is deprecated. Use {new.__module__}.{new.__name__} instead."

    @functools.wraps(new)
    def warned(*args: object, **kwargs: object) -> object:
        warnings.warn(
            f"{text} {extra_msg}" if extra_msg else text, DeprecationWarning, stacklevel=2
        )
        return new(*args, **kwargs)

    return cast(F, warned)


def mark_deprecated(new: F, extra_msg: str | None = None) -> Callable[[Callable[..., object]], F]:
    """Make a function a deprecated name of `new` (decorator)."""

    def decorate(function: Callable[..., object]) -> F:
        return deprecated(
            importlib.import_module(function.__module__), new, function.__name__, extra_msg
        )

    return decorate


def register_deprecated(module: ModuleType, new: Callable[..., object]) -> None:
    """Make ``module.NAME`` a deprecated name of `new`, where NAME is the name of `new`."""
    setattr(module, new.__name__, deprecated(module, new))
