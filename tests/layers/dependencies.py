"""Who knows whom: the includes of the recorder and the imports of the Python packages, read from
the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORDER = ROOT / "csrc"
PACKAGES = {"ftm_lazy": ROOT / "ftm_lazy", "ftm_backend": ROOT / "backend" / "ftm_backend"}

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)

Edge = tuple[str, str]


def includes() -> Iterator[tuple[Path, Path]]:
    """(file, header of the recorder that it includes), both relative to csrc/."""
    for path in sorted(RECORDER.rglob("*.*")):
        for name in INCLUDE.findall(path.read_text()):
            if (RECORDER / name).is_file():
                yield path.relative_to(RECORDER), Path(name)


def folder_edges() -> set[Edge]:
    """(folder, folder that it includes from), of the recorder."""
    return {(a.parts[0], b.parts[0]) for a, b in includes() if a.parts[0] != b.parts[0]}


def unit_edges() -> set[Edge]:
    """The same for units: a header and the source of its name are one."""
    pairs = ((str(a.with_suffix("")), str(b.with_suffix(""))) for a, b in includes())
    return {(a, b) for a, b in pairs if a != b}


def imported(path: Path) -> set[str]:
    """The absolute names of what a Python file imports, lazily or not: of modules, and of what it
    takes out of modules."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def package_of(name: str) -> str | None:
    """Where a module of ours lies: in a folder of its package, else in the package; None if it is
    not ours.

    The modules directly in `ftm_backend`, and the machines' presets, are each a place of their own.
    """
    parts = name.split(".")
    if parts[0] not in PACKAGES:
        return None
    depth = 1
    if parts[0] == "ftm_backend" or parts[1:2] == ["torch_xla"]:
        depth = 3 if parts[1:2] == ["ir"] or parts[1:3] == ["target", "presets"] else 2
    return ".".join(parts[:depth]) if len(parts) >= depth else None


def import_edges() -> set[Edge]:
    """(package, package that it imports from)."""
    edges: set[Edge] = set()
    for name, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            own = package_of(".".join([name, *path.relative_to(folder).with_suffix("").parts]))
            edges |= {
                (own, other)
                for module in imported(path)
                if (other := package_of(module)) and other != own
            }
    return edges


def cycle(edges: Iterable[Edge]) -> list[str]:
    """The nodes of some cycle, in order; empty if there is none."""
    below: dict[str, list[str]] = {}
    for a, b in sorted(edges):
        below.setdefault(a, []).append(b)
    done: set[str] = set()
    for start in below:
        path: list[str] = []
        rest = [iter([start])]
        while rest:
            node = next(rest[-1], None)
            if node is None:
                rest.pop()
                if path:
                    done.add(path.pop())
            elif node in path:
                return path[path.index(node) :]
            elif node not in done:
                path.append(node)
                rest.append(iter(below.get(node, ())))
    return []


def direct(edges: Iterable[Edge]) -> list[Edge]:
    """The edges that don't follow from others: a -> c is left out where a -> b leads to c as
    well."""
    edges = set(edges)

    def reachable(node: str, seen: set[str]) -> set[str]:
        for a, b in edges:
            if a == node and b not in seen:
                seen.add(b)
                reachable(b, seen)
        return seen

    below = {a: {b for d, b in edges if d == a} for a, _ in edges}
    return sorted(
        (a, c)
        for a, c in edges
        if not any(c in reachable(b, {b}) and a not in reachable(b, {b}) for b in below[a] - {c})
    )
