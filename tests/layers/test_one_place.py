"""Facts of the machine that several rooms need are computed in one place each."""

from __future__ import annotations

import re

import pytest

from layers import dependencies

BACKEND = dependencies.ROOT / "backend" / "ftm_backend"


def naming(pattern: str) -> set[str]:
    """The sources, of Python and C++, in which it stands."""
    found = (path for ending in ("py", "cpp", "h") for path in BACKEND.rglob(f"*.{ending}") if re.search(pattern, path.read_text()))
    return {path.relative_to(BACKEND).as_posix() for path in found}


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        # Sizes of slots are rounded by slot_bytes; assembler and machine refuse offsets that are no multiples.
        (r"\b(SLOT_ALIGNMENT|kSlotAlignment)\b", "instructions/types.py isa/header.py isa/symbols.py machine/isa_gen.h machine/src/image_declarations.cpp"),
        (r"\bdef slot_bytes\(rows|slot_bytes\(.*\) *\{", "instructions/types.py"),
        # Types of the matrix unit: the planner's, the assembler's and the machine's are the instruction's.
        (r"\bkAccumulators\b", "isa/header.py machine/isa_gen.h machine/src/image.cpp"),
        (r"^ACCUMULATORS = |[^.]\bACCUMULATORS = \{", "instructions/types.py"),
        # Strips, which hold the values of a map's body, are the machine's to give out: an image has none.
        (r"choose_strips|strip_register", "machine/src/map_allocate.cpp"),
    ],
)  # fmt: skip
def test_one_place(pattern: str, places: str) -> None:
    assert naming(pattern) == set(places.split())
