"""The state of each name of torch_xla, found by looking at what is there, and the table of
``docs/torch_xla.md``."""

from __future__ import annotations

import importlib
import warnings
from itertools import groupby
from typing import Any

from ftm_lazy.torch_xla import _inert, _names

__all__ = ["resolve", "state", "table"]

_ABSENT = object()


def resolve(module: str, name: str) -> Any:
    """Return the object called `name` (dots for methods) of ``torch_xla.module``; the module itself if
    `name` is empty.

    Raises AttributeError or ImportError if there is none, NotImplementedError for a refused value.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        thing = importlib.import_module(f"ftm_lazy.torch_xla.{module}".rstrip("."))
    for part in name.split(".") if name else ():
        thing = getattr(thing, part)
    return thing


def state(row: _names.Name) -> tuple[str, str]:
    """Return the state of a name, served, no effect, old, refused or missing, and what there is to say
    about it."""
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
    if said := getattr(thing, "__deprecated__", None):
        return "old", said
    return "served", ""


def _reason(message: str) -> str:
    return message.partition(": ")[2].replace(" Instead: ", " instead: ")


def table() -> str:
    """All names, module by module; methods are left out."""
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
            lines += ["Importable; it has no names of its own.", ""]
            continue
        lines += ["| name | state | |", "|---|---|---|"]
        lines += ["| `{}` | {} | {} |".format(row.name, *state(row)) for row in names]
    return "\n".join(lines).lstrip("\n") + "\n"
