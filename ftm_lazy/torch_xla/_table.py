"""The state of each name of torch_xla on ftm, and the generated table of ``docs/torch_xla.md``."""

from __future__ import annotations

import importlib
import warnings
from itertools import groupby
from typing import Any

from ftm_lazy.torch_xla import _inert, _names

__all__ = ["resolve", "state", "table"]

_ABSENT = object()


def resolve(module: str, name: str) -> Any:
    """Return an object of torch_xla.

    Args:
        module: The module below torch_xla.
        name: The name in it, with dots for methods; "" for the module itself.

    Raises:
        AttributeError: The name does not exist.
        ImportError: The module does not exist.
        NotImplementedError: It is an unsupported value.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        thing = importlib.import_module(f"ftm_lazy.torch_xla.{module}".rstrip("."))
    for part in name.split(".") if name else ():
        thing = getattr(thing, part)
    return thing


def state(row: _names.Name) -> tuple[str, str]:
    """Return the state of a name (served, no effect, old, refused or missing) and a remark."""
    try:
        thing = resolve(row.module, row.name)
    except NotImplementedError as error:
        return "refused", _reason(str(error))
    except (AttributeError, ImportError):
        return "missing", ""
    if refusal := getattr(thing, "_refusal", None):
        return "refused", _reason(refusal)
    if why := _inert.reason(thing):
        return "no effect", why
    if replacement := getattr(thing, "__deprecated__", None):
        return "old", replacement
    return "served", ""


def _reason(message: str) -> str:
    return message.partition(": ")[2].replace(" Instead: ", " instead: ")


def table() -> str:
    """Format all names except methods as Markdown tables, one for each module."""
    rows = [
        row
        for row in _names.names()
        if "." not in row.name and not row.module.startswith("experimental.pallas")
    ]
    lines = []
    for module, group in groupby(rows, key=lambda row: row.module):
        names = [row for row in group if row.name]
        lines += ["", f"**`{f'torch_xla.{module}'.rstrip('.')}`**", ""]
        if not names:
            lines += ["Importable; it has no public names.", ""]
            continue
        lines += ["| name | state | |", "|---|---|---|"]
        lines += ["| `{}` | {} | {} |".format(row.name, *state(row)) for row in names]
    return "\n".join(lines).lstrip("\n") + "\n"
