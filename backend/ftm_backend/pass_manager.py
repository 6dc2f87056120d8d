"""What a pass is, how the value that it leaves is checked, written and read back, and how it
fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ftm_backend.target.presets import MachineParameters

__all__ = ["FunctionError", "IRFormat", "Pass", "VerifyError"]


class VerifyError(Exception):
    """A pass left a value that breaks a rule of its form."""


class FunctionError(Exception):
    """A pass failed at one function of the program.

    function: its name.  too_large: its tiles exceed a scratchpad, so smaller tiles may help.
    """

    def __init__(self, function: str, reason: str, too_large: bool = False) -> None:
        super().__init__(reason)
        self.function, self.too_large = function, too_large


def _no_rules(value: Any) -> None:
    del value


@dataclass(frozen=True)
class IRFormat:
    """The text of a value: ``write(value, stage)`` and ``read(text, machine)``; ``suffix`` of files
    that hold it.

    verify: raises VerifyError for a value that breaks a rule of the form.
    """

    write: Callable[[Any, str], str]
    read: Callable[[str, MachineParameters], Any]
    suffix: str
    verify: Callable[[Any], None] = _no_rules


@dataclass(frozen=True)
class Pass:
    """One named step: ``run(value, machine)`` gives the next value; it may change the one that it
    takes.

    form: of what it leaves.  alias: what the stage that it leaves is called, if not like the pass.
    optional: without it the program costs more and computes the same.
    """

    name: str
    run: Callable[[Any, MachineParameters], Any]
    form: IRFormat
    doc: str
    alias: str = ""
    optional: bool = False

    @property
    def stage(self) -> str:
        """Name of the stage that it leaves."""
        return self.alias or self.name
