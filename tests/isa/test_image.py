"""The image: sections, operands of map bodies; random map bodies against numpy."""

import numpy as np
import pytest

from ftm_backend import assembler
from ftm_backend.assembler import image_layout, isa_header
from ftm_backend.assembler.image_writer import read_sections
from ftm_backend.assembler.map_type_checker import KIND
from ftm_backend.machine import Machine
from ftm_backend.target import instruction_table


def body_program(header_line: str, body: str, tiles: str = "XYZQ", dtype: str = "f32") -> str:
    """Loads tiles X (from b0), Y (from b1), Z (from b2); runs a map; stores X, Y, Z and Q."""
    lines = ["@program t, host"] + [f"@in b{n}, {dtype}, 4x40" for n in range(3)]
    lines += [f"@out o{n}, {dtype}, 4x40" for n in range(4)] + ["@func main"]
    lines += [f"  @tile {name}, am, {dtype}, 4x40, 1, {4096 * n}" for n, name in enumerate("XYZQ")]
    lines += [f"    DLD b{n}[0], 4@40 | 40@1, {name}" for n, name in enumerate("XYZ")]
    lines += [
        "    DWAITALL",
        "    @map 4 x 40 -> Q:v0",
        f"      VMOV.{dtype.upper()} 0, v0",
        "    @endmap",
    ]
    lines += [f"    @map {header_line}", body.rstrip("\n"), "    @endmap"]
    lines += [f"    DST {name}, o{n}[0], 4@40 | 40@1" for n, name in enumerate("XYZQ")]
    return "\n".join([*lines, "@ret"]) + "\n"


def run(text: str, *arrays: np.ndarray) -> list[np.ndarray]:
    return Machine(cores=1, checked=True).load(assembler.assemble(text)).run(list(arrays), [])


def last_map(text: str) -> tuple[tuple, list, list, list]:
    sections = read_sections(assembler.assemble(text))
    record = sections["maps"][-1]
    return (
        record,
        sections["map_inputs"][record[0] : record[0] + record[1]],
        sections["map_outputs"][record[2] : record[2] + record[3]],
        sections["map_ops"][record[4] : record[4] + record[5]],
    )


@pytest.fixture
def data():
    generator = np.random.default_rng(3)
    return [generator.standard_normal((4, 40)).astype(np.float32) for _ in range(3)]


def test_header_and_directory():
    image = assembler.assemble(body_program("4 x 40, X:v0 -> Y:v0", ""))
    magic, version, sections, fingerprint, size, *_ = image_layout.HEADER.struct.unpack_from(image)
    assert magic.to_bytes(8, "little") == image_layout.MAGIC and version == image_layout.VERSION
    assert (
        sections == len(image_layout.SECTIONS)
        and fingerprint == instruction_table.fingerprint()
        and size == len(image)
    )
    offsets = [
        image_layout.SECTION.struct.unpack_from(image, image_layout.HEADER.size + 16 * n)[0]
        for n in range(sections)
    ]
    assert all(offset % 64 == 0 for offset in offsets) and offsets == sorted(offsets)


def test_same_text_same_bytes():
    text = body_program("4 x 40, X:v0 -> Y:v0", "")
    assert assembler.assemble(text) == assembler.assemble(text)


def test_text_is_optional():
    text = body_program("4 x 40, X:v0 -> Y:v0", "")
    assert read_sections(assembler.assemble(text))["text"].decode() == text.rstrip("\n")
    assert read_sections(assembler.assemble(text, with_text=False))["text"] == b""


def test_generated_header_is_fresh():
    assert isa_header.main(["--check"]) == 0


def test_lines_and_labels_survive():
    text = "@program t, host\n@func main\n  LOOP_a: 2, 7\n    SADD r1, 1, r1\n    SLT r1, 3, r2\n  [r2] SBR LOOP_a\n@ret\n"
    sections = read_sections(assembler.assemble(text))
    assert [item[4] for item in sections["instructions"]] == [4, 5, 6, 7]
    assert sections["labels"][0][1:] == (0, 2, 7)
    assert sections["instructions"][2][5] == 0


def test_operands_are_operations_by_number():
    _, _, outputs, operations = last_map(
        body_program(
            "4 x 40, X:v0 -> Q:v1, Y:v0", "      VNEG.F32 v0, v1\n      VADD.F32 v1, v0, v1\n"
        )
    )
    assert [operation[5:8] for operation in operations] == [
        (KIND["INPUT"], 1, 0),
        (KIND["RESULT"], 1, 0),
    ]
    assert operations[1][8:11] == (KIND["INPUT"], 1, 0)
    assert [out[5:8] for out in outputs] == [(KIND["RESULT"], 1, 1), (KIND["INPUT"], 1, 0)]


def test_operands_of_different_sizes(data):
    body = "      VNEG.F32 v0, v1\n      VCVT.F64.F32 v1, v2\n      VNEG.F64 v2, v3\n      VCVT.F32.F64 v3, v4\n"
    *_, q = run(body_program("4 x 40, X:v0 -> Q:v4", body), *data)
    np.testing.assert_array_equal(q, data[0])


def test_input_is_written_in_place_only_after_its_last_read(data):
    body = "      VADD.F32 v0, 1.0, v1\n      VMUL.F32 v0, v1, v2\n"
    x, _, _, q = run(body_program("4 x 40, X:v0 -> X:v1, Q:v2", body), *data)
    np.testing.assert_array_equal(x, data[0] + np.float32(1))
    np.testing.assert_array_equal(q, data[0] * (data[0] + np.float32(1)))


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("4 x 40, X:v0, Y:v1 -> X:v1, Y:v0", lambda x, y, z: (y, x, z, 0 * x)),
        ("4 x 40, X:v0, Y:v1, Z:v2 -> Z:v0, X:v1, Y:v2", lambda x, y, z: (y, z, x, 0 * x)),
        ("4 x 40, X:v0 -> X:v0", lambda x, y, z: (x, y, z, 0 * x)),
        ("4 x 40, X:v0 -> Y:v0, Z:v0, Q:v0", lambda x, y, z: (x, x, x, x)),
    ],
)
def test_copies_and_swaps(data, heading, expected):
    for result, wanted in zip(run(body_program(heading, ""), *data), expected(*data), strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_input_reduced_while_its_tile_is_overwritten(data):
    tile = "  @tile Q, am, f32, 4x40, 1, 12288"
    text = body_program("4 x 40, X:v0 -> X:v1, R:v0.rmax", "      VMOV.F32 7.0, v1\n")
    text = text.replace(tile, tile + "\n  @tile R, am, f32, 4x1, 1, 20480").replace(
        "DST Q, o3[0], 4@40 | 40@1", "DST R, o3[0], 4@40 | 1@1"
    )
    text = text.replace("@out o3, f32, 4x40", "@out o3, f32, 4x40")
    x, _, _, q = run(text, *data)
    np.testing.assert_array_equal(x, np.full_like(x, 7))
    np.testing.assert_array_equal(q[:, 0], data[0].max(1))


_BINARY = {"VADD": np.add, "VSUB": np.subtract, "VMUL": np.multiply}
_UNARY = {"VNEG": np.negative, "VABS": np.abs}


@pytest.mark.parametrize("seed", range(40))
def test_random_bodies(seed):
    """Random bodies over three tiles, some written in place, with redefined registers and mixed
    types."""
    generator = np.random.default_rng(seed)
    arrays = [generator.integers(-50, 50, (4, 40)).astype(np.int32) for _ in range(3)]
    values = dict(enumerate(arrays))
    wide: dict[int, np.ndarray] = {}
    lines = []
    for _ in range(int(generator.integers(1, 25))):
        target = int(generator.integers(0, 12))
        pick = lambda names: int(generator.choice(list(names)))
        choice = generator.integers(0, 10)
        if choice == 0:
            a = pick(values)
            lines.append(f"      VCVT.I64.I32 v{a}, v{20 + target}")
            wide[20 + target] = values[a].astype(np.int64)
        elif choice == 1 and wide:
            a = pick(wide)
            lines.append(f"      VCVT.I32.I64 v{a}, v{target}")
            values[target] = wide[a].astype(np.int32)
        elif choice == 2 and wide:
            a, b = pick(wide), pick(wide)
            lines.append(f"      VMUL.I64 v{a}, v{b}, v{20 + target}")
            wide[20 + target] = wide[a] * wide[b]
        elif choice < 5:
            name, a = pick(range(2)), pick(values)
            name = list(_UNARY)[name]
            lines.append(f"      {name}.I32 v{a}, v{target}")
            values[target] = _UNARY[name](values[a])
        else:
            name, a, b = list(_BINARY)[pick(range(3))], pick(values), pick(values)
            right = f"v{b}" if choice < 9 else "3"
            lines.append(f"      {name}.I32 v{a}, {right}, v{target}")
            values[target] = _BINARY[name](values[a], values[b] if choice < 9 else np.int32(3))
    outputs = generator.permutation(4)[: int(generator.integers(1, 5))]
    sources = [int(generator.choice(list(values))) for _ in outputs]
    heading = "4 x 40, X:v0, Y:v1, Z:v2 -> " + ", ".join(
        f"{'XYZQ'[o]}:v{s}" for o, s in zip(outputs, sources, strict=True)
    )
    expected = [*arrays, np.zeros_like(arrays[0])]
    for o, s in zip(outputs, sources, strict=True):
        expected[o] = values[s]
    text = body_program(heading, "\n".join(lines), dtype="i32")
    for checked in (False, True):
        results = Machine(cores=1, checked=checked).load(assembler.assemble(text)).run(arrays, [])
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, wanted, err_msg=text)
