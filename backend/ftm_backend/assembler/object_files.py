"""Functions that were encoded before: an object can be put into another image without encoding it
again.

A function that names nothing but its own parameters, tiles and labels is the same wherever it
stands, but for the numbers at which its records begin. What an object holds are those records and
the numbers at which they began; relocating adds the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ftm_backend.assembler import image_layout
from ftm_backend.ir.asm import program as p
from ftm_backend.lru import KEPT_PROGRAMS, LRUCache
from ftm_backend.target.instruction_table import OPCODES

__all__ = ["OBJECTS", "TYPES", "Bases", "ObjectFile", "make_object"]

Bases = dict[str, int]
"""Where records of a function begin, by section; ``function`` is its number, ``line`` the line of
its ``@func``."""

TYPES = {
    name: record.dtype
    for name, record in image_layout.SECTIONS
    if isinstance(record, image_layout.LayoutRecord)
}
"""Of the records of each section."""
_SCALAR, _IMMEDIATE = (
    image_layout.OPERAND_KINDS.index("SCALAR"),
    image_layout.OPERAND_KINDS.index("IMMEDIATE"),
)
_MAP, _RET, _CALL, _BRANCH = OPCODES["@map"], OPCODES["@ret"], OPCODES["@call"], OPCODES["SBR"]
_MOST_BYTES = 1 << 27


@dataclass(frozen=True, eq=False)
class ObjectFile:
    """A function's records by section, and ``bases``, where they began.

    parameters: its declarations. immediates: keys of the pool's entries that it uses, in order of
    first use, and the numbers that they had. names: of its tiles and labels.
    """

    records: dict[str, np.ndarray]
    bases: Bases
    parameters: tuple[p.AsmParameter, ...]
    immediates: tuple[tuple[Any, int], ...]
    names: dict[str, tuple[str, ...]]

    @property
    def size(self) -> int:
        """Bytes, about."""
        return 1024 + sum(records.nbytes for records in self.records.values())

    def relocated(self, bases: Bases, immediates: dict[int, int]) -> dict[str, np.ndarray]:
        """The records, for a function that begins at ``bases``.

        immediates: for each number that an entry of the pool had, the one that it has.
        """
        moved = {name: bases[name] - start for name, start in self.bases.items()}
        made = {name: records.copy() for name, records in self.records.items()}
        code = made["instructions"]
        _add(code["line"], moved["line"])
        _add(code["target"], moved["instructions"], code["opcode"] == _BRANCH)
        _add(code["target"], moved["maps"], code["opcode"] == _MAP)
        _add(code["first_dim"], moved["dims"], (code["opcode"] != _MAP) & (code["opcode"] != _RET))
        _move(code["buffer"], moved["buffers"])
        _move(code["tile"], moved["tiles"])
        _move(code["v"]["scalar"], moved["scalars"])
        for field in ("extent", "stride"):
            _move(made["dims"][field]["scalar"], moved["scalars"])
        maps = made["maps"]
        for field, section in (
            ("first_input", "map_inputs"),
            ("first_output", "map_outputs"),
            ("first_op", "map_ops"),
            ("line", "line"),
        ):
            _add(maps[field], moved[section])
        for section in ("map_inputs", "map_outputs"):
            _move(made[section]["tile"], moved["tiles"])
            _move(made[section]["slot"]["scalar"], moved["scalars"])
        operations = made["map_ops"]
        _add(operations["line"], moved["line"])
        _move(operations["buffer"], moved["buffers"])
        _move(operations["address"]["scalar"], moved["scalars"])
        for operands in (operations["src"], made["map_outputs"]["source"]):
            _add(operands["index"], moved["scalars"], operands["kind"] == _SCALAR)
            fixed = operands["kind"] == _IMMEDIATE
            operands["index"][fixed] = [immediates[k] for k in operands["index"][fixed].tolist()]
        _add(made["labels"]["instruction"], moved["instructions"])
        _add(made["tiles"]["function"], moved["function"])
        return made


def _add(numbers: np.ndarray, distance: int, where: Any = ...) -> None:
    if distance:
        numbers[where] = numbers[where].astype(np.int64) + distance


def _move(numbers: np.ndarray, distance: int) -> None:
    """Adds to all but absent numbers."""
    _add(numbers, distance, numbers >= 0)


def make_object(
    function: p.AsmFunction,
    parts: dict[str, bytes],
    bases: Bases,
    immediates: Sequence[Any],
    names: dict[str, tuple[str, ...]],
) -> ObjectFile | None:
    """The object of a function that was encoded into ``parts``; None when it names what is not its
    own.

    immediates: keys of the pool's entries by their numbers.
    """
    records = {name: np.frombuffer(data, TYPES[name]) for name, data in parts.items()}
    code, operations = records["instructions"], records["map_ops"]
    scalars = [
        code["v"]["scalar"],
        records["dims"]["extent"]["scalar"],
        records["dims"]["stride"]["scalar"],
        records["map_inputs"]["slot"]["scalar"],
        records["map_outputs"]["slot"]["scalar"],
        operations["address"]["scalar"],
    ]
    operands = [operations["src"], records["map_outputs"]["source"]]
    scalars += [o["index"][o["kind"] == _SCALAR].astype(np.int64) for o in operands]
    buffers = [code["buffer"], operations["buffer"]]
    own = all(_own(numbers, bases["scalars"]) for numbers in scalars) and all(
        _own(numbers, bases["buffers"]) for numbers in buffers
    )
    if not own or (code["opcode"] == _CALL).any():
        return None
    used = dict.fromkeys(k for o in operands for k in o["index"][o["kind"] == _IMMEDIATE].tolist())
    return ObjectFile(
        records,
        bases,
        tuple(function.parameters),
        tuple((immediates[k], k) for k in sorted(used)),
        names,
    )


def _own(numbers: np.ndarray, first: int) -> bool:
    return not ((numbers >= 0) & (numbers < first)).any()


OBJECTS: LRUCache[ObjectFile] = LRUCache(_MOST_BYTES, kept_programs=KEPT_PROGRAMS)
"""By the machine's name and the function's lines, from below ``@func`` to above ``@ret``."""
