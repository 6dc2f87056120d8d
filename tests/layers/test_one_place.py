"""Facts that several rooms need are computed in one place each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from layers import dependencies

BACKEND = dependencies.ROOT / "backend" / "ftm_backend"
RECORDER = dependencies.ROOT / "csrc"


def naming(pattern: str, room: Path) -> set[str]:
    """The sources below ``room``, of Python and C++, in which it stands."""
    found = (
        path
        for ending in ("py", "cpp", "h")
        for path in room.rglob(f"*.{ending}")
        if re.search(pattern, path.read_text(), re.MULTILINE)
    )
    return {path.relative_to(room).as_posix() for path in found}


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        # Sizes of slots are rounded by slot_bytes; assembler and machine refuse offsets that are no
        # multiples.
        (r"\b(SLOT_ALIGNMENT|kSlotAlignment)\b", "target/element_types.py assembler/isa_header.py assembler/symbol_table.py machine/isa_gen.h machine/src/image_declarations.cpp"),
        (r"\bdef slot_bytes\(rows|slot_bytes\(.*\) *\{", "target/element_types.py"),
        # Types of the matrix unit: the planner's, the assembler's and the machine's are the
        # instruction's.
        (r"\bkAccumulators\b", "assembler/isa_header.py machine/isa_gen.h machine/src/image.cpp"),
        (r"^ACCUMULATORS = |[^.]\bACCUMULATORS = \{", "target/element_types.py"),
        # Strips, which hold the values of a map's body, are the machine's to give out: an image has
        # none.
        (r"choose_strips|strip_register", "machine/src/map_allocate.cpp"),
        # Views of elements in memory: one class, and one answer to which strides a dense tensor
        # has.
        (r"^class Strided\b|^def decompose", "ir/linalg/strided_view.py"),
        (r"def (row_major|contiguous_strides|dense_strides)", "ir/linalg/affine.py"),
    ],
)  # fmt: skip
def test_one_place_in_the_compiler(pattern: str, places: str) -> None:
    assert naming(pattern, BACKEND) == set(places.split())


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        # Forms are kept by ops, and by windows for theirs, in one kind of cache.
        (r"flat_hash_map<uint64_t, std::vector<Entry>>", "graph/call_spec_cache.h"),
        (r"CallSpecCache specs\b|: CallSpecCache\b", "ops/op_info.h tensor/view_access.cpp"),
        # Parameters and results of calls are numbered in one way.
        (r"% 2 (==|!=) 0", "graph/value_id.h"),
    ],
)
def test_one_place_in_the_recorder(pattern: str, places: str) -> None:
    assert naming(pattern, RECORDER) == set(places.split())


def test_state_is_owned_by_the_runtime() -> None:
    """What lives as long as the process is a part of the runtime, or an object that PyTorch keeps."""
    kept_by_pytorch = (
        "dispatch/custom_ops dispatch/register_ops kernels/copy memory/buffer random/generator"
        " torch/device_guard torch/device_hooks torch/ltc_backend torch/ltc_executor"
        " torch/pinned_allocator torch/storage_allocator"
    )
    collectives = "distributed/collective_tokens distributed/waiters execute/collective_registry"
    read_only = "dispatch/unboxed_kernels"
    allowed = f"{kept_by_pytorch} {collectives} {read_only} support/runtime".split()
    leaked = naming(r"^ *static (const )?auto\* ?\w+ =\s+new ", RECORDER)
    assert leaked <= {f"{name}.cpp" for name in allowed}
