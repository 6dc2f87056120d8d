"""Op records of other packages: found by the entry point group `GROUP`, loaded with the compiler's
own.

    [project.entry-points."ftm.ops"]
    gated = "gated_records"            # a module that registers records when it is imported

The user's process and the compiler's both load them, so such a module imports neither torch nor
MLIR (lowerings get what they need as their builder), and neither do the packages that it lies in.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["GROUP", "PluginError", "identity", "load"]

GROUP = "ftm.ops"
"""The entry point group; each entry point names a module."""

_UNWANTED = ("torch", "torch_mlir")


class PluginError(ImportError):
    """Another package's op records cannot be used; the message names the package and says why."""


def _entry_points() -> list[metadata.EntryPoint]:
    """In an order that does not depend on the order of directories."""
    unique = {
        (_distribution(point), point.name, point.value): point
        for point in metadata.entry_points(group=GROUP)
    }
    return [unique[key] for key in sorted(unique)]


def _distribution(point: metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"


def load(*registers: dict[str, Any]) -> None:
    """Imports the modules of all entry points; ``registers``: what they enter their records into.

    Raises:
        PluginError: a module that cannot be used; nothing of it is left in the registers.
    """
    for point in _entry_points():
        before, loaded = (
            [dict(register) for register in registers],
            {name for name in _UNWANTED if name in sys.modules},
        )
        try:
            importlib.import_module(point.value)
            unwanted = [name for name in _UNWANTED if name in sys.modules and name not in loaded]
            if unwanted:
                raise ImportError(
                    f"it imports {unwanted[0]}, which the compiler's process is to do without: put the records in"
                    " a module of their own, outside packages that import it"
                )
        except Exception as error:
            for register, content in zip(registers, before, strict=True):
                register.clear()
                register.update(content)
            sys.modules.pop(point.value, None)
            raise PluginError(
                f"the op records of {_distribution(point)} (entry point {point.name} = {point.value} in the group"
                f" {GROUP}) cannot be loaded: {error}; repair or uninstall {_distribution(point)}"
            ) from error


def identity() -> str:
    """What the compiled programs depend on beside ftm itself: each entry point, its package's
    version, and the source of its module (of all modules in its folder, if it is a package).
    Imports none of them."""
    state = hashlib.blake2b(digest_size=16)
    points = _entry_points()
    for point in points:
        state.update(f"{_distribution(point)} {point.name} {point.value}\n".encode())
        for path in _sources(point.value):
            content = path.read_bytes()
            state.update(f"{path.name} {len(content)}\n".encode())
            state.update(content)
    return state.hexdigest() if points else ""


def _sources(module: str) -> list[Path]:
    """The source files of a module, found without importing its packages; none if it is not there,
    which `load` tells."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None:
        return []
    if not spec.submodule_search_locations:
        return [Path(spec.origin)] if spec.origin else []
    for location in spec.submodule_search_locations:
        place = Path(location, *rest)
        if place.is_dir():
            return sorted(place.rglob("*.py"))
        if place.with_suffix(".py").is_file():
            return [place.with_suffix(".py")]
    return []
