"""Machine presets: ``load("m7032")`` gives the numbers of one machine.

Each preset is one module of this package with a constant ``PARAMETERS``; nothing else names it.
"""

from __future__ import annotations

import importlib
import pkgutil

from ftm_backend.target.presets.machine_parameters import ELEMENT_BYTES, MachineParameters

__all__ = ["DEFAULT", "ELEMENT_BYTES", "NAMES", "MachineParameters", "UnknownPreset", "load"]

DEFAULT = "host"
NAMES = (
    DEFAULT,
    *sorted(
        {found.name for found in pkgutil.iter_modules(__path__)} - {DEFAULT, "machine_parameters"}
    ),
)
"""All presets: the default one, then the others by their names."""


class UnknownPreset(ValueError):
    """No preset has this name; the message lists those that exist."""


def load(name: str = DEFAULT) -> MachineParameters:
    """The parameters of preset ``name``.

    Raises:
        UnknownPreset: no such preset.
    """
    if name not in NAMES:
        raise UnknownPreset(f"unknown machine preset {name!r}; known presets: {', '.join(NAMES)}")
    return importlib.import_module(f"{__name__}.{name}").PARAMETERS
