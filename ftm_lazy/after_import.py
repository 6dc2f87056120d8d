"""Changes to other libraries: made when a program imports them, so that nothing here imports them itself."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

__all__ = ["change"]


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds nothing itself: what others find of these modules is changed when it has run."""

    def __init__(self, changes: Mapping[str, Callable[[ModuleType], None]]) -> None:
        self._changes = changes

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self._changes:
            return None
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)), None)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_change(module: ModuleType) -> None:
            run(module)
            self._changes[name](module)

        spec.loader.exec_module = run_and_change  # type: ignore[method-assign]
        return spec


def change(changes: Mapping[str, Callable[[ModuleType], None]]) -> None:
    """Calls ``changes[name]`` with each module of these names: those that are imported already, and those that will be."""
    for name, apply in changes.items():
        if name in sys.modules:
            apply(sys.modules[name])
    sys.meta_path.insert(0, _AfterImport(changes))
