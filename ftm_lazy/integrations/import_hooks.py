"""Patches that are applied when a program imports a module, so that ftm need not import it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType


class _AfterImport(importlib.abc.MetaPathFinder):
    """Wraps the loaders that other finders return, so that patches run after the module.

    There must be only one such finder: two would call each other forever.
    """

    def __init__(self) -> None:
        self.patches: dict[str, list[Callable[[ModuleType], None]]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the other finders' spec with a wrapped loader; None for a module without patch."""
        if name not in self.patches:
            return None
        finders = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in finders)
        spec = next(filter(None, specs), None)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_patch(module: ModuleType) -> None:
            execute(module)
            for apply in self.patches[name]:
                apply(module)

        spec.loader.exec_module = execute_and_patch  # type: ignore[method-assign]
        return spec


_FINDER = _AfterImport()


def patch(patches: Mapping[str, Callable[[ModuleType], None]]) -> None:
    """Patch modules: at once if they are imported already, else after their import.

    Args:
        patches: Full name of a module to a function that changes the module.
    """
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    for name, apply in patches.items():
        _FINDER.patches.setdefault(name, []).append(apply)
        if name in sys.modules:
            apply(sys.modules[name])
