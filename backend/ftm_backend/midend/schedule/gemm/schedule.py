"""The schedule of a contraction kernel as a value: printed on the kernel, read back, editable.

Example: ``schedule = "panels A.B m=0:96:96:11 n=0:96:96:1 k=0:512:512:1 chunks=2 ..."``. Whoever
changes a field in a file of kernels and compiles from there runs the kernel with that schedule.
Fields that have their default are left out. A cut of rows, columns or k is
``dimension:size:elements:blocks``.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

from ftm_backend.midend.schedule.gemm.panel_schedule import PanelSchedule
from ftm_backend.midend.schedule.gemm.tiling import GemmTiling, TileCut

__all__ = ["Schedule"]

_KINDS: dict[str, type[PanelSchedule] | type[GemmTiling]] = {
    "panels": PanelSchedule,
    "nest": GemmTiling,
}
_ORDERS = {"A.B": False, "B'.A'": True}


@dataclass(frozen=True)
class Schedule:
    """How a contraction is computed.

    Attributes:
        swapped: Whether the kernel computes the transpose, ``C^T = B^T . A^T``.
        plan: Row panels of C on machines whose DMA overlaps compute, else a loop nest over tiles.
    """

    swapped: bool
    plan: PanelSchedule | GemmTiling

    def __str__(self) -> str:
        """Return the text of the schedule."""
        kind = next(name for name, plan in _KINDS.items() if isinstance(self.plan, plan))
        words = [kind, next(name for name, swapped in _ORDERS.items() if swapped == self.swapped)]
        for field in fields(self.plan):
            value = getattr(self.plan, field.name)
            is_default = field.default is not MISSING and value == field.default
            if not is_default:
                words.append(f"{field.name}={_written(value)}")
        return " ".join(words)

    @property
    def is_constant(self) -> bool:
        """Whether no field is a symbolic size; only then the text can be read back."""
        return all(map(_is_constant, (getattr(self.plan, f.name) for f in fields(self.plan))))

    @staticmethod
    def parse(text: str) -> Schedule:
        """Return the schedule of a text.

        Raises:
            ValueError: The text is no schedule; the message names the word.
        """
        kind, order, *words = text.split()
        if kind not in _KINDS or order not in _ORDERS:
            raise ValueError(f"a schedule begins with one of {[*_KINDS]} and of {[*_ORDERS]}")
        plan = _KINDS[kind]
        types = {field.name: str(field.type) for field in fields(plan)}
        given: dict[str, Any] = {}
        for word in words:
            name, _, value = word.partition("=")
            if name not in types:
                raise ValueError(f"a schedule of kind {kind} has no field {name!r}")
            given[name] = _read(types[name], value)
        missing = [
            field.name
            for field in fields(plan)
            if field.default is MISSING and field.name not in given
        ]
        if missing:
            raise ValueError(f"a schedule of kind {kind} needs {', '.join(missing)}")
        return Schedule(_ORDERS[order], plan(**given))


def _is_constant(value: object) -> bool:
    if isinstance(value, TileCut):
        return all(type(getattr(value, field.name)) is int for field in fields(value))
    return type(value) in (int, float, str, bool, tuple)


def _written(value: Any) -> str:
    if isinstance(value, TileCut):
        return ":".join(str(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def _read(type_: str, text: str) -> Any:
    """Return a value of the type that a field is annotated with."""
    if type_ == "TileCut":
        return TileCut(*map(int, text.split(":")))
    readers: dict[str, Any] = {"bool": lambda word: bool(int(word)), "int": int, "float": float}
    return readers.get(type_, str)(text)
