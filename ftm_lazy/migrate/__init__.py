"""Rewriting of torch_xla programs as plain PyTorch on ftm; the command is ``ftm migrate``.

    ftm migrate path...            print a diff, and the places that need manual work
    ftm migrate --write path...    change the files
    ftm migrate --check path...    exit with 1 if a file would change

Code that does not use torch_xla stays byte for byte the same, and a second run changes nothing. The
rules are in `torch_xla_rewrites`.
"""

from __future__ import annotations

from typing import Any

from ftm_backend import optional_packages

__all__ = ["Migrated", "migrate"]


def __getattr__(name: str) -> Any:
    # the command imports this package before it can say that libcst is missing
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with optional_packages.needed("rewriting programs"):
        from ftm_lazy.migrate import rewrite
    return getattr(rewrite, name)
