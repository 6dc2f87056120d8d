"""Passes, the IRs between them, the choice of passes for a machine, and how a pass fails."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ftm_backend.target.presets import MachineParameters


class VerifyError(Exception):
    """A pass returned a value that breaks a rule of its IR."""


class FunctionError(Exception):
    """A pass failed at one function of the program."""

    def __init__(self, function: str, reason: str, too_large: bool = False) -> None:
        """Create the error.

        Args:
            function: Name of the function.
            reason: The message.
            too_large: The function's tiles exceed a scratchpad, so smaller tiles may help.
        """
        super().__init__(reason)
        self.function, self.too_large = function, too_large


def _no_rules(value: object) -> None:
    del value


@dataclass(frozen=True)
class IRFormat:
    """An intermediate representation and its text. Two formats are equal if their names are.

    Attributes:
        name: The IR in listings, such as ``linalg``.
        write: ``write(value, stage)`` returns the text, which names its stage.
        read: ``read(text, machine)`` is the inverse of ``write``.
        suffix: Ending of files that hold the text, such as ``.mlir``.
        verify: Raises VerifyError for a value that breaks a rule of the IR.
    """

    name: str
    write: Callable[..., str] = field(compare=False)
    read: Callable[[str, MachineParameters], object] = field(compare=False)
    suffix: str = field(compare=False)
    verify: Callable[..., None] = field(default=_no_rules, compare=False)


@dataclass(frozen=True)
class Conversion:
    """The IRs before and after a pass, and whether the pass returns the object that it took."""

    before: IRFormat
    after: IRFormat
    in_place: bool

    def __str__(self) -> str:
        """Describe the conversion for listings."""
        ends = dict.fromkeys((self.before.name, self.after.name))
        return " -> ".join(ends) + (", in place" if self.in_place else "")


def in_place(ir: IRFormat) -> Conversion:
    """Declare a pass that changes the value that it takes, and returns it."""
    return Conversion(ir, ir, in_place=True)


def converts(before: IRFormat, after: IRFormat) -> Conversion:
    """Declare a pass that returns a new value of another IR."""
    return Conversion(before, after, in_place=False)


@dataclass(frozen=True)
class Requirement:
    """A property of machines without which a pass does not apply.

    Attributes:
        text: The property as a noun, for messages.
        holds: Whether a machine has it.
    """

    text: str
    holds: Callable[[MachineParameters], bool]


OVERLAPPING_DMA = Requirement("DMA that overlaps compute", lambda machine: machine.dma_overlaps)


@dataclass(frozen=True)
class Pass:
    """A named function from one value to the next.

    A pass uses its input up: the next value may be the same object, or share parts with it.

    Attributes:
        name: The pass in dumps and options, as in ``ftm opt --pack-operands``.
        run: ``run(value, machine)`` returns the next value.
        ir: The IRs before and after it.
        doc: One sentence that starts with a verb.
        optional: Programs without it cost more and compute the same, so a second attempt at
            compiling may leave it out.
        requires: What a machine needs for the pass to be in its pipeline.
        instead: What runs if an attempt leaves it out; nothing if None.
        alias: Name of the stage that it leaves, if it differs from ``name``.
    """

    name: str
    run: Callable[..., Any]
    ir: Conversion
    doc: str
    optional: bool = False
    requires: tuple[Requirement, ...] = ()
    instead: Callable[..., object] | None = None
    alias: str = ""

    @property
    def stage(self) -> str:
        """Name of the stage that it leaves."""
        return self.alias or self.name

    def missing(self, machine: MachineParameters) -> str:
        """Return what ``machine`` lacks for this pass; empty if the pass applies."""
        return " and ".join(need.text for need in self.requires if not need.holds(machine))


def select(passes: Iterable[Pass], machine: MachineParameters) -> tuple[Pass, ...]:
    """Return the passes that apply on ``machine``, in order."""
    return tuple(step for step in passes if not step.missing(machine))


def changes(before: str, after: str, stages: tuple[str, str]) -> str:
    """Return a unified diff of a program's texts at two stages.

    Args:
        before: Text of the earlier stage.
        after: Text of the later stage.
        stages: The names of both stages, for the diff's header. The line in which a text names its
            stage is no difference.

    Returns:
        The diff with three lines of context; empty if the pass changed nothing.
    """
    old, new = map(_without_stage, (before, after))
    return "".join(difflib.unified_diff(old, new, *stages))


def stated_stage(text: str) -> str:
    """Return the stage that a text names; empty if it names none."""
    if text.startswith("@stage "):
        return text.split(maxsplit=2)[1]
    return text.partition('ftm.stage = "')[2].partition('"')[0]


def _without_stage(text: str) -> list[str]:
    """Return the lines of a text without the name of its stage."""
    stage = stated_stage(text)
    attribute = f'ftm.stage = "{stage}"'
    for statement in (f" attributes {{{attribute}}}", attribute, f"@stage {stage}"):
        text = text.replace(statement, "", 1)
    return text.splitlines(keepends=True)
