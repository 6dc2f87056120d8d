"""The public names of torch_xla 2.9, as data: ``names.tsv`` beside this file.

A row is a module below torch_xla (empty for torch_xla itself), a name (empty for the module's own
row), its kind and its signature as written there, without annotations. Kinds: module, function,
class, method, property, value, export (a name that a package takes from a module of its own) and
removed (in earlier versions; old code still says it). The methods of ProcessGroupXla are left out:
torch.distributed calls them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Name", "is_package", "kinds", "modules", "names"]


@dataclass(frozen=True)
class Name:
    """One row."""

    module: str
    name: str
    kind: str
    signature: str

    @property
    def path(self) -> str:
        """As one writes it after ``torch_xla.``."""
        return f"{self.module}.{self.name}".strip(".")


@functools.cache
def names() -> tuple[Name, ...]:
    """All rows, in the order of the file."""
    lines = (Path(__file__).with_name("names.tsv")).read_text().splitlines()
    return tuple(Name(*line.split("\t")) for line in lines)


@functools.cache
def modules() -> frozenset[str]:
    """All modules below torch_xla."""
    return frozenset(row.module for row in names() if row.kind == "module" and row.module)


def is_package(module: str) -> bool:
    """Return whether `module` has modules below it."""
    return any(other.startswith(module + ".") for other in modules())


@functools.cache
def kinds(module: str) -> dict[str, str]:
    """Return the names of `module` (methods and properties left out) and their kinds."""
    rows = (row for row in names() if row.module == module and row.name and "." not in row.name)
    return {row.name: row.kind for row in rows}
