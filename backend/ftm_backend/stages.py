"""What a pass is, and how the value that it leaves is written and read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ftm_backend.machine.presets import MachineParameters

__all__ = ["Form", "Pass"]


@dataclass(frozen=True)
class Form:
    """The text of a value: ``write(value, stage)`` and ``read(text, machine)``; ``suffix`` of files that hold it."""

    write: Callable[[Any, str], str]
    read: Callable[[str, MachineParameters], Any]
    suffix: str


@dataclass(frozen=True)
class Pass:
    """One named step: ``run(value, machine)`` gives the next value; it may change the one that it takes.

    form: of what it leaves.  alias: what the stage that it leaves is called, if not like the pass.
    """

    name: str
    run: Callable[[Any, MachineParameters], Any]
    form: Form
    doc: str
    alias: str = ""

    @property
    def stage(self) -> str:
        """Name of the stage that it leaves."""
        return self.alias or self.name
