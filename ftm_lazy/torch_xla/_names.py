"""Table of the public names of torch_xla 2.9, read from ``names.tsv`` in this folder.

The columns are: module below torch_xla (empty for torch_xla itself), name (empty for the module's
row), kind, and signature without annotations. The kinds are module, function, class, method,
property, value, export (a package re-exports it from a submodule) and removed (existed in earlier
versions). The methods of ProcessGroupXla are not listed, since only torch.distributed calls them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Name", "is_package", "kinds", "modules", "names"]


@dataclass(frozen=True)
class Name:
    """One row of the table."""

    module: str
    name: str
    kind: str
    signature: str

    @property
    def path(self) -> str:
        """The qualified name below ``torch_xla.``."""
        return f"{self.module}.{self.name}".strip(".")


@functools.cache
def names() -> tuple[Name, ...]:
    """Return all rows, in the order of the file."""
    lines = (Path(__file__).with_name("names.tsv")).read_text().splitlines()
    return tuple(Name(*line.split("\t")) for line in lines)


@functools.cache
def modules() -> frozenset[str]:
    """Return all modules below torch_xla."""
    return frozenset(row.module for row in names() if row.kind == "module" and row.module)


def is_package(module: str) -> bool:
    """Return whether `module` has submodules."""
    return any(other.startswith(module + ".") for other in modules())


@functools.cache
def kinds(module: str) -> dict[str, str]:
    """Return the names of `module`, without methods and properties, to their kinds."""
    rows = (row for row in names() if row.module == module and row.name and "." not in row.name)
    return {row.name: row.kind for row in rows}
