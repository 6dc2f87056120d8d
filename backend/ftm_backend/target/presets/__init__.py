"""Machine presets: ``load("m7032")`` returns the parameters of one machine.

Each preset is a module of this package with a constant ``PARAMETERS``; no list names them.
"""

from __future__ import annotations

import importlib
import pkgutil

from ftm_backend.target.presets.machine_parameters import ELEMENT_BYTES, MachineParameters

__all__ = ["DEFAULT", "ELEMENT_BYTES", "NAMES", "MachineParameters", "UnknownPreset", "load"]

DEFAULT = "host"
_OTHERS = {DEFAULT, "machine_parameters", "fabric"}
NAMES = (DEFAULT, *sorted({found.name for found in pkgutil.iter_modules(__path__)} - _OTHERS))
"""All presets: the default one, then the others in alphabetical order."""


class UnknownPreset(ValueError):
    """No preset has this name; the message lists the existing ones."""


def load(name: str = DEFAULT) -> MachineParameters:
    """Return the parameters of preset ``name``.

    Raises:
        UnknownPreset: There is no such preset.
    """
    if name not in NAMES:
        raise UnknownPreset(f"unknown machine preset {name!r}; known presets: {', '.join(NAMES)}")
    return importlib.import_module(f"{__name__}.{name}").PARAMETERS
