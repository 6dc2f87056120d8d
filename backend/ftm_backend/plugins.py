"""Load op records from other packages, found through the entry point group `GROUP`.

    [project.entry-points."ftm.ops"]
    gated = "gated_records"            # a module that registers records when it is imported

Both the user's process and the compile server load these modules. Neither they nor their parent
packages may therefore import torch or MLIR; lowerings get everything from the builder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

GROUP = "ftm.ops"
"""The entry point group; each entry point names a module."""

_UNWANTED = ("torch", "torch_mlir")


class PluginError(ImportError):
    """A package's op records cannot be used; the message names the package and the reason."""


def _entry_points() -> list[metadata.EntryPoint]:
    """Return all entry points, without duplicates, in an order independent of the file system."""
    unique = {
        (_distribution(point), point.name, point.value): point
        for point in metadata.entry_points(group=GROUP)
    }
    return [unique[key] for key in sorted(unique)]


def _distribution(point: metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"


def load(*registers: dict[str, Any]) -> None:
    """Import the modules of all entry points.

    Args:
        registers: The dictionaries that these modules register records in.

    Raises:
        PluginError: A module cannot be used. `registers` are restored to their state before it.
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
                    f"it imports {unwanted[0]}, which the compile server must not load:"
                    " move the records to a separate module, outside packages that import it"
                )
        except Exception as error:
            for register, content in zip(registers, before, strict=True):
                register.clear()
                register.update(content)
            sys.modules.pop(point.value, None)
            raise PluginError(
                f"the op records of {_distribution(point)} (entry point {point.name} ="
                f" {point.value} in the group {GROUP}) cannot be loaded: {error};"
                f" repair or uninstall {_distribution(point)}"
            ) from error


def identity() -> str:
    """Return a hash of all plugins, as a part of cache keys; empty without plugins.

    It covers each entry point, its package's version, and its source files (of a package, all
    modules in its folder). Imports none of them.
    """
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
    """Return the source files of a module without importing its packages.

    Empty if the module does not exist; `load` reports that.
    """
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None:
        return []
    if not spec.submodule_search_locations:
        return [Path(spec.origin)] if spec.origin else []
    for location in spec.submodule_search_locations:
        path = Path(location, *rest)
        if path.is_dir():
            return sorted(path.rglob("*.py"))
        if path.with_suffix(".py").is_file():
            return [path.with_suffix(".py")]
    return []
