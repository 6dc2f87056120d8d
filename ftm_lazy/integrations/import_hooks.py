"""Changes to other libraries: made when a program imports them, so that nothing here imports them
itself."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

__all__ = ["patch"]


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds no module itself: it wraps what the other finders find, so that the changes run after
    the module.

    There is one finder, whatever the number of changes: two that ask each other for one module
    would never end.
    """

    def __init__(self) -> None:
        self.changes: dict[str, list[Callable[[ModuleType], None]]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.changes:
            return None
        spec = next(
            filter(
                None,
                (
                    finder.find_spec(name, path, target)
                    for finder in sys.meta_path
                    if finder is not self
                ),
            ),
            None,
        )
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_change(module: ModuleType) -> None:
            run(module)
            for apply in self.changes[name]:
                apply(module)

        spec.loader.exec_module = run_and_change  # type: ignore[method-assign]
        return spec


_FINDER = _AfterImport()


def patch(changes: Mapping[str, Callable[[ModuleType], None]]) -> None:
    """Call ``changes[name]`` with each module of these names: those that are imported already, and
    those that will be."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    for name, apply in changes.items():
        _FINDER.changes.setdefault(name, []).append(apply)
        if name in sys.modules:
            apply(sys.modules[name])
