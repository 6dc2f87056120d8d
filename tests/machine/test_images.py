"""What the loader refuses: images that no assembler makes, field by field."""

from __future__ import annotations

import struct

import pytest

from ftm_backend import assembler
from ftm_backend.assembler import image_layout
from ftm_backend.machine import MachineError
from ftm_backend.target.instruction_table import OPCODES

TEXT = """@program t, host
@in b0, f32, 4x4
@in b1, f32, 8
@out o0, f32, 4x4, b0
@const c0, f32, 4, 0000803f0000803f0000803f0000803f
@arena t0, 0, f32, 64
@func main
  @tile X, am, f32, 4x4, 1, 0
    DLD b0[0], 4@4 | 4@1, X
    DWAIT X
    DST X, o0[0], 4@4 | 4@1
    DST X, t0[0], 4@4 | 4@1
@ret
"""


def patched(image: bytes, section: str, number: int, field: str, value: int) -> bytes:
    """The image with another value in one field of one record."""
    index = [name for name, _ in image_layout.SECTIONS].index(section)
    record = image_layout.SECTIONS[index][1]
    start, _ = image_layout.SECTION.struct.unpack_from(
        image, image_layout.HEADER.size + index * image_layout.SECTION.size
    )
    at = start + number * record.size
    for known in record.fields:
        if known.name == field:
            changed = bytearray(image)
            struct.pack_into("<" + known.code, changed, at, value)
            return bytes(changed)
        nested = (
            image_layout.RECORDS[known.code].size
            if known.code in image_layout.RECORDS
            else struct.calcsize("<" + known.code)
        )
        at += nested * known.count
    raise AssertionError(field)


RETURN, STORE = 4, 2
REFUSED = {
    "a predicate on the last instruction": (
        "instructions", RETURN, "predicate", 3, "a function's end",
    ),
    "another last instruction": (
        "instructions", RETURN, "opcode", OPCODES["DWAITALL"], "a function's end",
    ),
    "a store into an input": ("instructions", STORE, "buffer", 0, "into an input or a constant"),
    "a store into a constant": ("instructions", STORE, "buffer", 3, "into an input or a constant"),
    "an alias of another size": ("buffers", 2, "alias", 1, "an alias"),
    "an alias of an output": ("buffers", 2, "alias", 2, "an alias"),
    "an arena region at an odd place": ("buffers", 4, "offset", 2, "a buffer's place"),
    "a constant past the data": ("buffers", 3, "offset", 16, "a buffer's place"),
    "slots of no size": ("tiles", 0, "slot_bytes", 0, "a tile"),
    "a slot beyond the greatest scratchpad": ("tiles", 0, "offset", 1 << 60, "a tile's place"),
    "a buffer with fewer bytes than elements": ("buffers", 0, "bytes", 8, "a buffer's size"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused(fast, what):
    image = assembler.assemble(TEXT)
    fast.load(image)
    section, number, field, value, message = REFUSED[what]
    with pytest.raises(MachineError, match=message):
        fast.load(patched(image, section, number, field, value))
