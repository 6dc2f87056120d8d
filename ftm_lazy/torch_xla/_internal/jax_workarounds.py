"""torch_xla._internal.jax_workarounds: sharing of a TPU with JAX, which ftm does not need."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from ftm_lazy.torch_xla._inert import inert

__all__ = ["jax_import_guard", "maybe_get_jax", "maybe_get_torchax", "requires_jax"]

F = TypeVar("F", bound=Callable[..., object])

_WHY = "JAX and ftm share no device"


@inert(_WHY)
def jax_import_guard() -> None:
    """Do nothing; in torch_xla it is called before JAX is imported."""


@inert(_WHY)
def requires_jax(func: F) -> F:
    """Return `func`."""
    return func


def maybe_get_jax() -> ModuleType | None:
    """Return the module jax; None if it is not installed."""
    return importlib.import_module("jax") if importlib.util.find_spec("jax") else None


def maybe_get_torchax() -> ModuleType | None:
    """Return the module torchax; None if it is not installed."""
    return importlib.import_module("torchax") if importlib.util.find_spec("torchax") else None
