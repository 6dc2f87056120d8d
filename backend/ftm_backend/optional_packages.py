"""Packages that only some functions need, and the message that says how to install them.

    with optional_packages.needed("converting to StableHLO"):
        from torch_mlir import fx

Without torch-mlir this raises `MissingPackageError`, "converting to StableHLO needs the package
torch-mlir, which is not installed: run `pip install 'torch-ftm[mlir]'`". The extras are those of
``pyproject.toml``; a test compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

PACKAGES = {
    "torch_mlir": ("torch-mlir", "torch-ftm[mlir]"),
    "libcst": ("libcst", "torch-ftm[migrate]"),
    "safetensors": ("safetensors", "safetensors"),
}
"""Top-level module -> (its package, the argument of `pip install`)."""


class MissingPackageError(ImportError):
    """A package that one function needs is not installed; the message has the command."""


@contextmanager
def needed(purpose: str) -> Iterator[None]:
    """Convert a failed import to a message that names the package and the command.

    Args:
        purpose: The beginning of the sentence, such as "rewriting programs".

    Raises:
        MissingPackageError: One of `PACKAGES` is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = PACKAGES.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        raise MissingPackageError(
            f"{purpose} needs the package {package[0]}, which is not installed:"
            f" run `pip install {_quoted(package[1])}`",
            name=error.name,
        ) from error


def _quoted(argument: str) -> str:
    return f"'{argument}'" if "[" in argument else argument
