"""Machine presets: ``load("m7032")`` gives the numbers of one machine.

Each preset is one module of this package with a constant ``PARAMETERS``.
"""

from __future__ import annotations

import importlib

from ftm_backend.machine.presets.parameters import ELEMENT_BYTES, MachineParameters

__all__ = ["DEFAULT", "ELEMENT_BYTES", "NAMES", "MachineParameters", "UnknownPreset", "load"]

NAMES = ("host", "m7032", "mt3000", "m7002")
DEFAULT = "host"


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
