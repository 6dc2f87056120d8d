"""Sections of an image while it is written: packed records, and relocations of symbolic fields."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ftm_backend.assembler.image_layout import C_TYPES, LayoutRecord
from ftm_backend.symbolic import FloatBits, SymInt, current_env

_RELOCATED_WIDTHS = (4, 8)


class Relocation(NamedTuple):
    """A number in an image that depends on symbolic sizes.

    Attributes:
        offset: Its first byte.
        width: Its number of bytes, 4 or 8.
        expression: A polynomial of symbols, or ``dtype:expression`` for the bits of a float.
    """

    offset: int
    width: int
    expression: str


class SectionWriter:
    """Packs records, with the hints of symbolic sizes in place of these.

    Args:
        kind: The records' layout, or the code of ``struct`` for a section of plain numbers.

    Attributes:
        data: The packed records.
        relocations: Where symbolic sizes are in ``data``.
    """

    def __init__(self, kind: LayoutRecord | str) -> None:
        """Create an empty section."""
        self._format = kind if isinstance(kind, str) else kind.format
        packer = struct.Struct("<" + self._format)
        self._pack, self._size = packer.pack, packer.size
        self._has_symbols = current_env() is not None
        self.data = bytearray()
        self.relocations: list[Relocation] = []

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.data) // self._size

    def append(self, *fields: object) -> None:
        """Append a record; nested records are flattened."""
        if self._has_symbols:
            fields = self._relocated(fields)
        self.data += self._pack(*fields)

    def extend(self, records: bytes) -> None:
        """Append packed records without symbolic sizes."""
        self.data += records

    def _relocated(self, fields: tuple[object, ...]) -> tuple[object, ...]:
        """Note a relocation for each symbolic field, and return the fields with hints."""
        hints = []
        for number, (code, field) in enumerate(zip(self._format, fields, strict=True)):
            width = C_TYPES[code][1]
            if isinstance(field, (SymInt, FloatBits)) and width in _RELOCATED_WIDTHS:
                at = len(self.data) + struct.calcsize("<" + self._format[:number])
                self.relocations.append(Relocation(at, width, field.text))
                field = field.value & ((1 << 8 * width) - 1) if code.isupper() else field.value
            hints.append(field)  # a narrower field specializes its size
        return tuple(hints)
