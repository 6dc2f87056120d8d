"""Import hook that makes ``torch_xla.X`` an alias of the module ``ftm_lazy.torch_xla.X``.

The package ``torch_xla`` installs it; ``python -m ftm_lazy.torch_xla`` and the distribution
ftm-torch-xla put that package on the path.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType

__all__ = ["install"]

_HEADS = {"torch_xla": "ftm_lazy.torch_xla", "_XLAC": "ftm_lazy.torch_xla._XLAC"}
_ITSELF = "torch_xla.torch_xla"  # a module of torch_xla, all of whose names torch_xla exports


def _real(name: str) -> str | None:
    """Return the module that `name` is an alias of; None if it is not a name of torch_xla."""
    head, dot, tail = name.partition(".")
    if head not in _HEADS:
        return None
    return _HEADS[head] if name == _ITSELF else _HEADS[head] + dot + tail


def _loader(fullname: str) -> tuple[str, importlib.abc.InspectLoader]:
    """Return the real name of a module and its loader."""
    found = importlib.util.find_spec(_real(fullname) or fullname)
    assert found is not None and isinstance(found.loader, importlib.abc.InspectLoader)
    return found.name, found.loader


class _Aliases(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finder and loader of the aliases."""

    def __init__(self) -> None:
        self._specs: dict[str, importlib.machinery.ModuleSpec] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of an alias; None for other modules."""
        real = _real(fullname)
        found = importlib.util.find_spec(real) if real else None
        if found is None:
            return None
        package = found.submodule_search_locations is not None
        return importlib.machinery.ModuleSpec(
            fullname, self, origin=found.origin, is_package=package
        )

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return the real module, so that both names are one object."""
        module = importlib.import_module(_real(spec.name) or spec.name)
        assert module.__spec__ is not None
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's ``__spec__``, which the import as an alias has replaced."""
        assert module.__spec__ is not None
        module.__spec__ = self._specs.pop(module.__spec__.name)

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the module's code, for ``python -m torch_xla.X``."""
        name, loader = _loader(fullname)
        return loader.get_code(name)

    def get_source(self, fullname: str) -> str | None:
        """Return the module's source, for tracebacks."""
        name, loader = _loader(fullname)
        return loader.get_source(name)


def install() -> None:
    """Install the import hook, once."""
    if not any(isinstance(finder, _Aliases) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Aliases())
    sys.modules["torch_xla"] = importlib.import_module(_HEADS["torch_xla"])
