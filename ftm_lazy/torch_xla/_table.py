"""The state of each name of torch_xla on ftm, and the generated table of ``docs/torch_xla.md``."""

from __future__ import annotations

import importlib
import warnings

from ftm_lazy.torch_xla import _inert, _names

__all__ = ["resolve", "state", "table"]

_ABSENT = object()


def resolve(module: str, name: str) -> object:
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
    """Format all names except methods as one Markdown table.

    A row has the names of a module that share a state.
    """
    lines = ["| module | names | state | |", "|---|---|---|---|"]
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in _names.names():
        if "." in row.name or row.module.startswith("experimental.pallas"):
            continue
        key = (row.module, *(state(row) if row.name else ("importable", "")))
        groups.setdefault(key, []).extend([f"`{row.name}`"] if row.name else [])
    populated = {module for (module, *_), names in groups.items() if names}
    for (module, *cells), names in groups.items():
        if names or module not in populated:
            path = f"`{f'torch_xla.{module}'.rstrip('.')}`"
            lines.append(f"| {' | '.join((path, ' '.join(names), *cells))} |")
    return "\n".join(lines) + "\n"
