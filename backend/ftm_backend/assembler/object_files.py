"""Object files: encoded functions that can be put into another image without encoding them again.

The records of a function that refers only to its own parameters, tiles and labels are the same in
every image, apart from the indices at which its records start. An object file has the records and
these indices; relocation adds the difference to the new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import TYPE_CHECKING

import numpy as np

from ftm_backend.assembler import image_layout
from ftm_backend.target.instruction_table import OPCODES

Bases = dict[str, int]
"""Index of a function's first record in each section.

``function`` is its number, and ``line`` the line of its ``@func``.
"""

TYPES = {
    name: record.dtype
    for name, record in image_layout.SECTIONS
    if isinstance(record, image_layout.LayoutRecord)
}
"""The record type of each section."""
_SCALAR, _IMMEDIATE = (
    image_layout.OPERAND_KINDS.index("SCALAR"),
    image_layout.OPERAND_KINDS.index("IMMEDIATE"),
)
_MAP, _RET, _BRANCH = OPCODES["@map"], OPCODES["@ret"], OPCODES["SBR"]
_WITH_ARGUMENTS = (OPCODES["@call"], OPCODES["CSTART"])

if TYPE_CHECKING:
    from ftm_backend.assembler.map_type_checker import ImmediateEntry


@dataclass(frozen=True, eq=False)
class ObjectFile:
    """The encoded records of a function.

    Attributes:
        records: By section.
        bases: Index of the first record in each section.
        immediates: Keys of the entries of the immediate pool that it uses, with their old indices.
        names: Names of its tiles and labels.
    """

    records: dict[str, np.ndarray]
    bases: Bases
    immediates: tuple[tuple[ImmediateEntry, int], ...]
    names: dict[str, tuple[str, ...]]

    def relocated(self, bases: Bases, immediates: dict[int, int]) -> dict[str, np.ndarray]:
        """Return the records for a function that starts at ``bases``.

        Args:
            bases: New index of the first record in each section.
            immediates: New index in the immediate pool for each old one.
        """
        shift = {name: bases[name] - start for name, start in self.bases.items()}
        records = {name: old.copy() for name, old in self.records.items()}
        code = records["instructions"]
        _add(code["line"], shift["line"])
        _add(code["target"], shift["instructions"], code["opcode"] == _BRANCH)
        _add(code["target"], shift["maps"], code["opcode"] == _MAP)
        _add(code["first_dim"], shift["dims"], (code["opcode"] != _MAP) & (code["opcode"] != _RET))
        _add_if_present(code["buffer"], shift["buffers"])
        _add_if_present(code["tile"], shift["tiles"])
        _add_if_present(code["v"]["scalar"], shift["scalars"])
        for field in ("extent", "stride"):
            _add_if_present(records["dims"][field]["scalar"], shift["scalars"])
        maps = records["maps"]
        for field, section in (
            ("first_input", "map_inputs"),
            ("first_output", "map_outputs"),
            ("first_op", "map_ops"),
            ("line", "line"),
        ):
            _add(maps[field], shift[section])
        for section in ("map_inputs", "map_outputs"):
            _add_if_present(records[section]["tile"], shift["tiles"])
            _add_if_present(records[section]["slot"]["scalar"], shift["scalars"])
        operations = records["map_ops"]
        _add(operations["line"], shift["line"])
        _add_if_present(operations["buffer"], shift["buffers"])
        _add_if_present(operations["address"]["scalar"], shift["scalars"])
        for operands in (operations["src"], records["map_outputs"]["source"]):
            _add(operands["index"], shift["scalars"], operands["kind"] == _SCALAR)
            fixed = operands["kind"] == _IMMEDIATE
            operands["index"][fixed] = [immediates[k] for k in operands["index"][fixed].tolist()]
        _add(records["labels"]["instruction"], shift["instructions"])
        _add(records["tiles"]["function"], shift["function"])
        return records


def _add(numbers: np.ndarray, distance: int, where: EllipsisType | np.ndarray = ...) -> None:
    if distance:
        numbers[where] = numbers[where].astype(np.int64) + distance


def _add_if_present(numbers: np.ndarray, distance: int) -> None:
    """Add to all indices that are not `NONE`."""
    _add(numbers, distance, numbers >= 0)


def make_object(
    parts: dict[str, bytes],
    bases: Bases,
    immediates: Sequence[ImmediateEntry],
    names: dict[str, tuple[str, ...]],
) -> ObjectFile | None:
    """Make the object file of a function.

    Args:
        parts: Its encoded records by section.
        bases: Index of its first record in each section.
        immediates: Keys of the entries of the immediate pool, by index.
        names: Names of its tiles and labels.

    Returns:
        None if the function refers to anything global, calls another function, or starts a
        collective.
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
    if not own or np.isin(code["opcode"], _WITH_ARGUMENTS).any():
        return None
    used = dict.fromkeys(k for o in operands for k in o["index"][o["kind"] == _IMMEDIATE].tolist())
    return ObjectFile(
        records,
        bases,
        tuple((immediates[k], k) for k in sorted(used)),
        names,
    )


def _own(numbers: np.ndarray, first: int) -> bool:
    return not ((numbers >= 0) & (numbers < first)).any()
